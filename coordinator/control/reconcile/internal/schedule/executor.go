package schedule

import (
	"slices"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/guard"
)

// callMaxWait is how long calls of higher classes can go ahead of a waiting call. A call takes milliseconds to seconds.
const callMaxWait = 10 * time.Second

// Executor runs a limited number of calls concurrently, in the order of [Queue.Next]. When one call ends, the executor
// itself starts the next, so no caller delays another. It is safe for concurrent use.
type Executor struct {
	// Limit returns how many may run now. It must be set before the first call.
	Limit func() int

	mu      sync.Mutex // guards what follows
	running []*call
	waiting []*call
	served  Served
}

// call is a call that waits or runs.
type call struct {
	Request
	of  *sync.WaitGroup
	run func()
}

// Submit runs a call when it is its turn. The caller's wait group counts the call while it waits and while it runs.
func (e *Executor) Submit(of *sync.WaitGroup, r Request, run func()) {
	of.Add(1)
	e.mu.Lock()
	e.waiting = append(e.waiting, &call{r, of, run})
	e.mu.Unlock()
	e.Next()
}

// Next begins as many calls as the limit allows.
func (e *Executor) Next() {
	e.mu.Lock()
	defer e.mu.Unlock()
	limit := e.Limit()
	free := limit - len(e.running)
	if free <= 0 || len(e.waiting) == 0 {
		return
	}
	now := time.Now()
	next, _ := Queue{
		Limit: limit, Free: free, MaxWait: callMaxWait, Running: requests(e.running), Waiting: requests(e.waiting),
		Served: e.served,
	}.Next(now)
	for _, i := range next {
		c := e.waiting[i]
		e.waiting[i] = nil
		e.running = append(e.running, c)
		e.served.Note(c.Request, now)
		go guard.Run("running an actuator", func() { e.do(c) })
	}
	e.waiting = slices.DeleteFunc(e.waiting, func(c *call) bool { return c == nil })
	if len(e.waiting) == 0 {
		e.served.owners = nil // no owner competes with another
	}
}

// do runs a call and begins the next one.
func (e *Executor) do(c *call) {
	defer c.of.Done()
	defer func() {
		e.mu.Lock()
		e.running = slices.DeleteFunc(e.running, func(other *call) bool { return other == c })
		e.mu.Unlock()
		e.Next()
	}()
	c.run()
}

// Length is how many entries run, and how many wait for their turn.
type Length struct{ Running, Waiting int }

// Len returns how many calls there are.
func (e *Executor) Len() Length {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Length{len(e.running), len(e.waiting)}
}

// Drop forgets those calls of a caller that still wait.
func (e *Executor) Drop(of *sync.WaitGroup) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiting = slices.DeleteFunc(e.waiting, func(c *call) bool {
		if c.of == of {
			of.Done()
		}
		return c.of == of
	})
}

// requests returns the requests of the calls.
func requests(calls []*call) []Request {
	out := make([]Request, len(calls))
	for i, c := range calls {
		out[i] = c.Request
	}
	return out
}
