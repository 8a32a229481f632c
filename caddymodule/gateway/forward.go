package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/gateway/upgrade"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
)

// ErrUnreachable says that nothing accepts connections at a workspace's address.
var ErrUnreachable = errors.New("the workspace is unreachable")

// NoAnswerError says that an application broke off, or took too long, before it
// answered.
type NoAnswerError struct {
	// Status is 502 or 504.
	Status int
	// Err is what the proxy says.
	Err error
}

// Error implements error.
func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("the workspace gave no answer (status %d): %v", e.Status, e.Err)
}

// Unwrap returns what the proxy says.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// forward proxies the request to the workspace, which is ready in the state st. It
// reports whether the request is done; otherwise s says what has happened.
func (g *Gateway) forward(req *request, s *State, st *route.State) (done bool, err error) {
	filter := newResponseFilter(req.w, req.target.Prefix)
	err = g.proxy(filter, req, st)
	if err == nil || filter.begun || req.r.Context().Err() != nil {
		return true, err
	}
	var noAnswer *NoAnswerError
	switch {
	case errors.Is(err, ErrUnreachable):
		// The container is gone, and the news has not arrived yet. Nothing was sent to
		// the client.
		req.entry.SetAnswered(st, false)
		if !req.retried && repeatable(req.r) {
			req.retried, s.Progress = true, NotTried
			return false, nil
		}
		s.Progress = Unreachable
		return false, nil
	case errors.As(err, &noAnswer):
		g.Log.Warn("a workspace gave no answer", zap.String("workspace", string(req.target.ID)), zap.Error(err))
		req.err, s.Progress = err, NoAnswer
		return false, nil
	}
	return true, err
}

// repeatable reports whether r can be sent again after a failed dial: it has no body
// of which a part may have been read.
func repeatable(r *http.Request) bool {
	return r.ContentLength == 0 || web.IsExtendedConnect(r)
}

// proxy passes the request on as the workspace shall see it.
func (g *Gateway) proxy(w http.ResponseWriter, req *request, st *route.State) error {
	r, t := req.r, req.target
	slot := g.Activity.Slot(t.ID)
	slot.Touch()
	defer slot.Touch() // a long answer is use until its end
	path, rawPath := r.URL.Path, r.URL.RawPath
	defer func() { r.URL.Path, r.URL.RawPath = path, rawPath }() // logs want the original
	t.stripPrefix(r)
	cleanRequestHeaders(r.Header, g.StripAuthorization)
	if t.Prefix != "" {
		r.Header["X-Forwarded-Prefix"] = []string{t.Prefix}
	}
	if web.IsExtendedConnect(r) || r.Header.Get("Upgrade") != "" {
		counted, done := upgrade.Count(w, r, slot, g.NoIdleTimeout)
		defer done()
		w = counted
	}
	return g.Proxy(w, r, st)
}
