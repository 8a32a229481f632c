package backend

import (
	"context"
	"errors"
	"net/http"
)

// ErrLeaseLapsed means that a request was not sent, because its caller may no longer be the leader.
var ErrLeaseLapsed = errors.New("the leader's lease may have run out")

type leaseKey struct{}

// WithLease returns a context for requests to a backend. As soon as held returns false, implementations send no more
// requests that change something. An actuator makes several requests, and a process may be suspended between two of
// them. When it resumes, another process may be the leader, and a user may have worked in the workspace. The second
// half of a restore must not happen then (SPEC 12.11).
func WithLease(ctx context.Context, held func() bool) context.Context {
	return context.WithValue(ctx, leaseKey{}, held)
}

// CheckLease returns [ErrLeaseLapsed] if the context has a lease that may have run out. An implementation MUST call it
// right before each request that changes something; implementations over HTTP use [Leased].
func CheckLease(ctx context.Context) error {
	if held, ok := ctx.Value(leaseKey{}).(func() bool); ok && held != nil && !held() {
		return ErrLeaseLapsed
	}
	return nil
}

// Leased returns a transport that sends a request that changes something only while the lease of its context is held.
// All requests except GET and HEAD count as changing something. It must directly wrap the transport that owns the
// connections, so that nothing waits between the check and the request.
func Leased(base http.RoundTripper) http.RoundTripper { return leased{base} }

type leased struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l leased) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := CheckLease(r.Context()); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	return l.base.RoundTrip(r)
}
