package workqueue_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/codehub/gateway/coordinator/internal/workqueue"
)

func ready(q *workqueue.Queue[int]) bool {
	select {
	case <-q.Ready():
		return true
	default:
		return false
	}
}

func TestAKeyIsTakenOnceHoweverOftenItIsAdded(t *testing.T) {
	q := workqueue.New[int]()
	if ready(q) || !q.Take().Empty() {
		t.Fatal("a new queue is not empty")
	}
	q.Add(3, 1)
	q.Add(1, 2, 3)
	if !ready(q) || ready(q) {
		t.Fatal("several additions are not one signal")
	}
	if b := q.Take(); !slices.Equal(b.Keys, []int{3, 1, 2}) || b.All || b.Empty() {
		t.Fatalf("took %+v", b)
	}
	q.Add(1)
	if b := q.Take(); !slices.Equal(b.Keys, []int{1}) {
		t.Fatalf("a key that was taken before: %+v", b)
	}
	if !ready(q) || !q.Take().Empty() {
		t.Fatal("the signal of work that was taken early is lost, or the work came twice")
	}
}

func TestEverythingIsTakenOnce(t *testing.T) {
	q := workqueue.New[int]()
	q.AddAll()
	q.Add(7)
	q.AddAll()
	if b := q.Take(); !b.All || !slices.Equal(b.Keys, []int{7}) || b.Empty() {
		t.Fatalf("took %+v", b)
	}
	if b := q.Take(); !b.Empty() {
		t.Fatalf("then took %+v", b)
	}
	q.AddAll()
	if b := q.Take(); !b.All || b.Empty() || len(b.Keys) != 0 {
		t.Fatalf("everything, without keys: %+v", b)
	}
}

func TestAddWithoutKeysOnlyWakes(t *testing.T) {
	q := workqueue.New[int]()
	q.Add()
	if !ready(q) || !q.Take().Empty() {
		t.Fatal("no signal, or something is pending")
	}
}

func TestAFailedBatchIsTakenAgainWithLaterKeys(t *testing.T) {
	q := workqueue.New[int]()
	q.Add(1, 2)
	q.AddAll()
	failed := q.Take()
	ready(q)
	q.Add(2, 3)
	q.Retry(failed)
	if b := q.Take(); !ready(q) || !b.All || !slices.Equal(b.Keys, []int{2, 3, 1}) {
		t.Fatalf("took %+v", b)
	}
	if !slices.Equal(failed.Keys, []int{1, 2}) {
		t.Fatalf("the batch that was taken before changed to %+v", failed)
	}
}

func TestNothingIsLostBetweenProducersAndTheConsumer(t *testing.T) {
	const producers, each = 8, 500
	q := workqueue.New[int]()
	var wg sync.WaitGroup
	for p := range producers {
		wg.Go(func() {
			for i := range each {
				q.Add(p*each + i)
			}
		})
	}
	seen := make(map[int]int)
	for len(seen) < producers*each {
		<-q.Ready()
		for _, k := range q.Take().Keys {
			seen[k]++
		}
	}
	wg.Wait()
	for k, n := range seen {
		if n != 1 {
			t.Fatalf("key %d was taken %d times", k, n)
		}
	}
}
