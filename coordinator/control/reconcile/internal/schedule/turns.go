package schedule

import (
	"slices"
	"sync"
	"time"
)

// turnPatience is how long a class of calls is passed over by higher ones. A call takes
// milliseconds to seconds.
const turnPatience = 10 * time.Second

// Turns lets calls run, so many at a time, in the order of [Line.Next]. The end of one begins
// the next one by itself: a caller that does something else meanwhile delays nobody. It is
// safe for concurrent use.
type Turns struct {
	// Limit returns how many may run now. It must be set before the first call.
	Limit func() int

	mu      sync.Mutex // guards what follows
	running []*turn
	waiting []*turn
	begun   Begun
}

// turn is one call that waits or runs.
type turn struct {
	Request
	of  *sync.WaitGroup
	run func()
}

// Take runs a call when it is its turn. The wait group of its caller counts it until then,
// and while it runs.
func (t *Turns) Take(of *sync.WaitGroup, r Request, run func()) {
	of.Add(1)
	t.mu.Lock()
	t.waiting = append(t.waiting, &turn{r, of, run})
	t.mu.Unlock()
	t.Next()
}

// Next begins as many calls as the limit allows.
func (t *Turns) Next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	limit := t.Limit()
	free := limit - len(t.running)
	if free <= 0 || len(t.waiting) == 0 {
		return
	}
	now := time.Now()
	next, _ := Line{Limit: limit, Free: free, Patience: turnPatience, Running: requests(t.running), Waiting: requests(t.waiting), Begun: t.begun}.Next(now)
	for _, i := range next {
		call := t.waiting[i]
		t.waiting[i] = nil
		t.running = append(t.running, call)
		t.begun.note(call.Request, now)
		go t.do(call)
	}
	t.waiting = slices.DeleteFunc(t.waiting, func(call *turn) bool { return call == nil })
	if len(t.waiting) == 0 {
		t.begun.owners = nil // there is nobody to be fair to
	}
}

// do runs a call and begins the next one.
func (t *Turns) do(call *turn) {
	defer call.of.Done()
	call.run()
	t.mu.Lock()
	t.running = slices.DeleteFunc(t.running, func(other *turn) bool { return other == call })
	t.mu.Unlock()
	t.Next()
}

// Drop forgets the calls of a caller that still wait.
func (t *Turns) Drop(of *sync.WaitGroup) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting = slices.DeleteFunc(t.waiting, func(call *turn) bool {
		if call.of == of {
			of.Done()
		}
		return call.of == of
	})
}

// requests returns what the calls ask for.
func requests(calls []*turn) []Request {
	out := make([]Request, len(calls))
	for i, call := range calls {
		out[i] = call.Request
	}
	return out
}
