// Package recent caches answers for a short time, so that many concurrent callers cause only one question.
package recent

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/guard"
)

// limit is the timeout of a question. A question continues until then even if all callers have stopped waiting.
const limit = 10 * time.Second

// Answers caches the answers to one kind of question, by subject. Each answer is valid for Age. Answers is safe for
// concurrent use.
type Answers[K comparable, V any] struct {
	Age time.Duration

	mu  sync.Mutex
	all map[K]*answer[V]
}

type answer[V any] struct {
	done  chan struct{} // closed once the other fields are set
	at    time.Time
	value V
	err   error
}

// old reports whether the answer has been known for at least age.
func (a *answer[V]) old(age time.Duration) bool {
	select {
	case <-a.done:
		return time.Since(a.at) >= age
	default:
		return false
	}
}

// Get returns the result of ask, which it calls unless a valid answer is known or about to arrive. A caller whose ctx
// ends stops waiting.
func (a *Answers[K, V]) Get(ctx context.Context, key K, ask func(context.Context) (V, error)) (V, error) {
	a.mu.Lock()
	known := a.all[key]
	mine := known == nil || known.old(a.Age)
	if mine {
		maps.DeleteFunc(a.all, func(_ K, old *answer[V]) bool { return old.old(a.Age) })
		if a.all == nil {
			a.all = make(map[K]*answer[V])
		}
		known = &answer[V]{done: make(chan struct{})}
		a.all[key] = known
	}
	a.mu.Unlock()
	if mine {
		go func() {
			asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
			defer cancel()
			known.err = guard.Call(guard.Task, func() (err error) { known.value, err = ask(asking); return err })
			known.at = time.Now()
			close(known.done)
		}()
	}
	select {
	case <-known.done:
		return known.value, known.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}
