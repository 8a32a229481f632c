package engine

import (
	"net/http"

	"github.com/codehub/gateway/coordinator/backend"
)

// leased sends a request that changes something only while its lease is held.
type leased struct{ base http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (l leased) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		if err := backend.CheckLease(r.Context()); err != nil {
			if r.Body != nil {
				_ = r.Body.Close()
			}
			return nil, err
		}
	}
	return l.base.RoundTrip(r)
}
