package backend

import (
	"context"
	"errors"
)

// ErrLeaseLapsed says that a request was not sent, because whoever asked for it may not
// lead any more.
var ErrLeaseLapsed = errors.New("the leader's lease may have run out")

type leaseKey struct{}

// WithLease returns a context in which an implementation sends no request that changes
// something once held returns false. An actuator is several requests, and a process that
// is stopped between two of them may go on after another one has taken over and somebody
// has worked: the second half of a restore must not come then (SPEC 12.11).
func WithLease(ctx context.Context, held func() bool) context.Context {
	return context.WithValue(ctx, leaseKey{}, held)
}

// CheckLease returns [ErrLeaseLapsed] if the context has a lease that may have run out. An
// implementation MUST call it right before each request that changes something.
func CheckLease(ctx context.Context) error {
	if held, ok := ctx.Value(leaseKey{}).(func() bool); ok && held != nil && !held() {
		return ErrLeaseLapsed
	}
	return nil
}
