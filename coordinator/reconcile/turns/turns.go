// Package turns bounds how many calls run at the same time. It owns who is next. It must not
// know what the calls do.
package turns

import "sync"

// Turns lets calls run, so many at a time, in the order in which they were asked for. The
// end of one begins the next one by itself: a caller that does something else meanwhile
// delays nobody. It is safe for concurrent use.
type Turns struct {
	// Limit returns how many may run now. It must be set before the first call.
	Limit func() int

	mu      sync.Mutex // guards what follows
	running int
	waiting []turn
}

// turn is one call that waits.
type turn struct {
	of  *sync.WaitGroup
	run func()
}

// Take runs a call when it is its turn. The wait group of its caller counts it until then,
// and while it runs.
func (t *Turns) Take(of *sync.WaitGroup, run func()) {
	of.Add(1)
	t.mu.Lock()
	t.waiting = append(t.waiting, turn{of, run})
	t.mu.Unlock()
	t.Next()
}

// Next begins as many calls as the limit allows.
func (t *Turns) Next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.waiting) > 0 && t.running < t.Limit() {
		call := t.waiting[0]
		t.waiting = t.waiting[1:]
		t.running++
		go func() {
			defer call.of.Done()
			call.run()
			t.mu.Lock()
			t.running--
			t.mu.Unlock()
			t.Next()
		}()
	}
}

// Drop forgets the calls of a caller that still wait.
func (t *Turns) Drop(of *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := t.waiting[:0]
	for _, call := range t.waiting {
		if call.of == of {
			of.Done()
		} else {
			kept = append(kept, call)
		}
	}
	clear(t.waiting[len(kept):])
	t.waiting = kept
}
