package leader

import (
	"context"
	"sync"
	"time"
)

// bell ends the wait of a goroutine. A ring without a waiting goroutine ends the next wait.
type bell struct {
	mu     sync.Mutex
	rung   bool
	cancel context.CancelFunc
}

// ring ends the wait in progress, or the next one.
func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = true
	if b.cancel != nil {
		b.cancel()
	}
}

// listen returns a context that ends after d, or earlier if the bell rings.
func (b *bell) listen(d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rung {
		cancel()
	}
	b.rung, b.cancel = false, cancel
	return ctx, cancel
}
