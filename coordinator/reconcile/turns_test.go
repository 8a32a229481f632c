package reconcile

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// TestTurnsAreTakenInOrder, so many at a time; the end of one begins the next, and a
// higher limit begins more.
func TestTurnsAreTakenInOrder(t *testing.T) {
	var limit atomic.Int32
	limit.Store(1)
	q := &turns{limit: func() int { return int(limit.Load()) }}
	l := &loop{}
	began, end := make(chan int, 5), make(chan struct{})
	for i := range 5 {
		q.take(l, func() { began <- i; <-end })
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
	q.next()
	rest := []int{<-began, <-began}
	slices.Sort(rest) // they begin together
	if order = append(order, rest...); !slices.Equal(order, []int{0, 1, 2, 3, 4}) {
		t.Errorf("in the order %v", order)
	}
	close(end)
	l.wg.Wait()
}

// TestDroppedTurnsAreNeverTaken: the end of a term waits for none of them, and those of
// other loops stay.
func TestDroppedTurnsAreNeverTaken(t *testing.T) {
	q := &turns{limit: func() int { return 1 }}
	busy, over := &loop{}, &loop{}
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
	q.take(busy, call("first"))
	q.take(over, call("dropped"))
	q.take(busy, call("second"))
	q.take(over, call("dropped, too"))
	q.drop(over)
	over.wg.Wait() // while the first one still runs
	close(end)
	busy.wg.Wait()
	if !slices.Equal(taken, []string{"first", "second"}) {
		t.Errorf("taken: %q", taken)
	}
}
