// Package workqueue collects keys that need work until a consumer takes them. A key that is added twice before that is
// taken once. A producer that does not know which keys changed can mark everything.
//
// It owns the pending keys and the signal that there are some. It must not run the work, limit its time, or pace
// retries: the consumer's loop does.
package workqueue

import "sync"

// Queue is a set of pending keys. Its methods never block and are safe for concurrent use.
type Queue[K comparable] struct {
	signal chan struct{} // holds one token after an addition that the consumer has not received yet

	mu      sync.Mutex
	pending map[K]struct{}
	batch   Batch[K]
}

// Batch is the pending work of one moment.
type Batch[K comparable] struct {
	// Keys are the pending keys, without duplicates, in the order in which they were added.
	Keys []K
	// All says that everything needs work, including keys that are not listed.
	All bool
}

// Empty reports whether there is nothing to do.
func (b Batch[K]) Empty() bool { return !b.All && len(b.Keys) == 0 }

// New returns an empty queue.
func New[K comparable]() *Queue[K] {
	return &Queue[K]{signal: make(chan struct{}, 1), pending: make(map[K]struct{})}
}

// Add makes the keys pending and wakes the consumer. Without keys it only wakes the consumer.
func (q *Queue[K]) Add(keys ...K) { q.add(keys, false) }

// AddAll makes everything pending and wakes the consumer.
func (q *Queue[K]) AddAll() { q.add(nil, true) }

// Retry makes a batch pending again after its work has failed, and wakes the consumer. The consumer must pause before
// the next Take.
func (q *Queue[K]) Retry(b Batch[K]) { q.add(b.Keys, b.All) }

func (q *Queue[K]) add(keys []K, all bool) {
	q.mu.Lock()
	for _, k := range keys {
		if _, ok := q.pending[k]; !ok {
			q.pending[k] = struct{}{}
			q.batch.Keys = append(q.batch.Keys, k)
		}
	}
	q.batch.All = q.batch.All || all
	q.mu.Unlock()
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Ready delivers one value after one or more additions. The consumer receives it and then calls [Queue.Take]; there
// must be only one consumer. The batch may be empty, because an earlier Take already returned the keys.
func (q *Queue[K]) Ready() <-chan struct{} { return q.signal }

// Take returns the pending work and empties the queue.
func (q *Queue[K]) Take() Batch[K] {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.batch
	q.batch = Batch[K]{}
	clear(q.pending)
	return b
}
