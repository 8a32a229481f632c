package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/route"
)

// ErrUnreachable says that nothing accepts connections at the workspace's address.
// The request was not sent.
var ErrUnreachable = errors.New("the workspace is unreachable")

// ErrUnconfirmed says that it is not certain any more that the workspace has the address.
// The request was not sent.
var ErrUnconfirmed = errors.New("the address of the workspace is not certain")

// errNoAnswer says that an application answered with something that is no answer.
var errNoAnswer = errors.New("its answer is not HTTP, or switches protocols unasked")

// NoAnswerError says that an application closed the connection, or took too long,
// before it answered. The request may have had an effect and must not be repeated.
type NoAnswerError struct {
	// Status is the status for the client: 502, or 504 after a timeout.
	Status int
	// Err is the proxy's error.
	Err error
}

// Error implements error.
func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("the workspace gave no answer (status %d): %v", e.Status, e.Err)
}

// Unwrap returns the proxy's error.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// forward passes the request on to the workspace, which is ready in the state st, for as long as
// the request's session lives. It reports whether the request is done, successfully or with an
// error that cannot be turned into an answer any more. Otherwise nothing was sent to the client,
// s says what happened, and the gateway decides again.
func (g *Gateway) forward(req *request, s *decision.State, st *route.State) (done bool, err error) {
	if req.bind(); isClosed(req.grant.Ended()) {
		req.signOut(s)
		return false, nil
	}
	if req.leadBelow(st) {
		return true, nil
	}
	r, t := req.r, &req.at
	if t.Port != 0 {
		st = atPort(st, t.Port)
	}
	path, rawPath := r.URL.Path, r.URL.RawPath
	defer func() { r.URL.Path, r.URL.RawPath = path, rawPath }() // access logs show the original path
	err = g.forwarder.Forward(&req.exchange, req.w, r, forward.Request{
		ID: t.ID, Entry: req.entry, State: st, Kind: req.kind, Address: t,
		Stripped: toApplication(r, t.Prefix, st.Route.BasePath), Sandbox: t.Prefix != "" && g.Site.PerHost(),
	})
	begun := req.exchange.Begun()
	if err == nil && !begun && r.Context().Err() == nil {
		// A status that does not exist, or a change of protocols that the client did not ask for.
		clear(req.w.Header())
		err = &NoAnswerError{Status: http.StatusBadGateway, Err: errNoAnswer}
	}
	if err == nil || begun || r.Context().Err() != nil {
		return true, err
	}
	return g.failed(req, s, st, err)
}

// failed says in s why a request could not be passed on, of which nothing was sent to the client.
// It reports true for an error that cannot be turned into an answer.
func (g *Gateway) failed(req *request, s *decision.State, st *route.State, err error) (done bool, _ error) {
	var noAnswer *NoAnswerError
	switch {
	case errors.Is(err, ErrUnconfirmed):
		// The lease has run out, or the workspace has left, since the decision. The next one
		// sees that; if it does not, the next attempt does.
		if repeatable(req.r) {
			s.Progress = decision.NotTried
			return false, nil
		}
		s.Progress = decision.Unreachable
		return false, nil
	case errors.Is(err, ErrUnreachable) && req.at.Port != 0:
		s.Progress = decision.NoListener // which says nothing about the application
		return false, nil
	case errors.Is(err, ErrUnreachable):
		// The container is gone and the route table does not know yet. Withdrawing the
		// answer makes the next decision wait for the application again.
		req.entry.SetAnswered(st, false)
		if !req.retried && repeatable(req.r) {
			req.retried, s.Progress = true, decision.NotTried
			return false, nil
		}
		s.Progress = decision.Unreachable
		return false, nil
	case errors.As(err, &noAnswer):
		g.Log.Warn("the workspace gave no answer; the client gets 502 or 504",
			zap.String("workspace", string(req.at.ID)), zap.Error(err))
		req.err, s.Progress = err, decision.NoAnswer
		return false, nil
	}
	return true, err
}

// repeatable reports whether r can be sent again after a failed dial. A request with a
// body cannot: the proxy may have read a part of it.
func repeatable(r *http.Request) bool {
	return r.ContentLength == 0 || site.IsExtendedConnect(r)
}
