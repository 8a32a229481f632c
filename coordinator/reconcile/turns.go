package reconcile

import "sync"

// turns lets the actuators of all loops run, so many at a time, in the order in which
// they were asked for. The end of one begins the next one by itself: a loop that observes
// meanwhile delays nobody. It is safe for concurrent use.
type turns struct {
	limit func() int

	mu      sync.Mutex // guards what follows
	running int
	waiting []turn
}

// turn is one call that waits.
type turn struct {
	of  *loop
	run func()
}

// take runs a call of a loop, which counts it in its wait group, when it is its turn.
func (t *turns) take(of *loop, run func()) {
	of.wg.Add(1)
	t.mu.Lock()
	t.waiting = append(t.waiting, turn{of, run})
	t.mu.Unlock()
	t.next()
}

// next begins as many calls as the limit allows.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) > 0 && t.running < t.limit() {
		call := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.running++
		go func() {
			defer call.of.wg.Done()
			call.run()
			t.mu.Lock()
			t.running--
			t.mu.Unlock()
			t.next()
		}()
	}
}

// drop forgets the calls of a loop that still wait: its term is over.
func (t *turns) drop(of *loop) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.waiting[:0]
	for _, call := range t.waiting {
		if call.of == of {
			of.wg.Done()
		} else {
			kept = append(kept, call)
		}
	}
	clear(t.waiting[len(kept):])
	t.waiting = kept
}
