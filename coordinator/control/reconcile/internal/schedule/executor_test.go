package schedule

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { wait.Main(m) }

// TestCallsRunInOrder: only a limited number of calls runs concurrently. When one ends, the next one starts, and when
// the limit rises, more start.
func TestCallsRunInOrder(t *testing.T) {
	var limit atomic.Int32
	limit.Store(1)
	q := &Executor{Limit: func() int { return int(limit.Load()) }}
	l := &sync.WaitGroup{}
	began, end := make(chan int, 5), make(chan struct{})
	for i := range 5 {
		q.Submit(l, Request{Key: fmt.Sprint(i)}, func() { began <- i; <-end })
	}
	var order []int
	for range 3 {
		order = append(order, <-began)
		if len(began) != 0 {
			t.Error("two at a time, want 1")
		}
		if len(order) < 3 {
			end <- struct{}{}
		}
	}
	limit.Store(3)
	q.Next()
	rest := []int{<-began, <-began}
	slices.Sort(rest) // they begin together
	if order = append(order, rest...); !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
		t.Errorf("in the order %v", order)
	}
	close(end)
	l.Wait()
}

// TestDroppedCallsNeverRun: a term that ends drops its waiting calls, and does not wait for them. The calls of other
// loops stay.
func TestDroppedCallsNeverRun(t *testing.T) {
	q := &Executor{Limit: func() int { return 1 }}
	busy, over := &sync.WaitGroup{}, &sync.WaitGroup{}
	end := make(chan struct{})
	var mu sync.Mutex
	var taken []string
	call := func(name string) func() {
		return func() {
			<-end
			mu.Lock()
			defer mu.Unlock()
			taken = append(taken, name)
		}
	}
	q.Submit(busy, Request{}, call("first"))
	q.Submit(over, Request{}, call("dropped"))
	q.Submit(busy, Request{}, call("second"))
	q.Submit(over, Request{}, call("dropped, too"))
	q.Drop(over)
	over.Wait() // while the first one still runs
	close(end)
	busy.Wait()
	if !slices.Equal(taken, []string{"first", "second"}) {
		t.Errorf("taken: %q", taken)
	}
}

// TestAHigherClassRunsNext: a call of a higher class runs next, even if others have waited longer. One place is
// reserved for calls that people wait for.
func TestAHigherClassRunsNext(t *testing.T) {
	q := &Executor{Limit: func() int { return 2 }}
	l := &sync.WaitGroup{}
	began, end := make(chan string, 8), make(chan struct{})
	take := func(name string, c Class) {
		q.Submit(l, Request{Class: c, Owner: name, Since: time.Now(), Key: name}, func() { began <- name; <-end })
	}
	take("removal", Cleanup)
	take("stop", Normal)
	take("archive", Background)
	if first := <-began; first != "removal" || len(began) != 0 {
		t.Fatalf("%q runs first", first)
	}
	take("wake", Interactive)
	if next := <-began; next != "wake" {
		t.Fatalf("%q runs beside it", next)
	}
	end <- struct{}{}
	end <- struct{}{}
	rest := []string{<-began}
	end <- struct{}{}
	if rest = append(rest, <-began); !slices.Equal(rest, []string{"stop", "archive"}) {
		t.Errorf("then %q", rest)
	}
	close(end)
	l.Wait()
}
