package gateway

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/tracing"
)

// forward passes the request on to the workspace, which is ready in the state st, for as long as
// the request's session lives. It reports whether the request is done, successfully or with an
// error that can no longer be turned into an answer. Otherwise nothing was sent to the client, s
// records the attempt, and the gateway decides again.
func (g *Gateway) forward(req *request, s *decision.Facts, st *route.State) (done bool, err error) {
	outcome, err := g.forwarder.Forward(&req.exchange, req.w, req.r, forward.Request{
		Entry: req.entry, State: st, Kind: req.kind, Address: &req.at, ByToken: req.byToken, Grant: req.grant,
		Sandbox: req.at.Prefix != "" && g.Site.PerHost(),
	})
	switch outcome {
	case forward.Answered:
		return true, err
	case forward.ClientGone:
		return true, ErrClientGone
	case forward.SessionEnded:
		req.signOut(s)
		return false, nil
	case forward.Unconfirmed:
		// Since the decision, the lease has run out, or the workspace has lost its address. Either the next decision
		// takes this into account, or the next attempt ends here again.
		s.Attempt = decision.Unreachable
		if repeatable(req.r) {
			s.Attempt = decision.NotTried
		}
	case forward.Unreachable:
		s.Attempt = req.unreachable(st)
	case forward.NoAnswer:
		g.Log.Warn("the workspace gave no answer; the client gets 502 or 504",
			append(tracing.Fields(g.inform(req.r)), zap.String(logkey.Workspace, string(req.at.ID)), zap.Error(err))...)
		req.err, s.Attempt = err, decision.NoAnswer
	case forward.BadBody:
		req.err, s.Attempt = err, decision.BadBody
	}
	return false, nil
}

// unreachable returns what a refused connection means for the request. st is the state in which the workspace was when
// the request was proxied.
func (req *request) unreachable(st *route.State) decision.Attempt {
	if req.at.Port != 0 {
		return decision.NoListener // which says nothing about the application
	}
	// The container is gone, but the route table does not know this yet. The entry must no longer say that the
	// application has answered, so that the next decision waits for the application again.
	req.entry.SetAnswered(st, false)
	if !req.retried && repeatable(req.r) {
		req.retried = true
		return decision.NotTried
	}
	return decision.Unreachable
}

// repeatable reports whether r can be sent again after a failed dial. A request with a
// body cannot: the proxy may have read a part of it.
func repeatable(r *http.Request) bool {
	return r.ContentLength == 0 || site.IsExtendedConnect(r)
}

// signOut turns the request into one without a session.
func (req *request) signOut(s *decision.Facts) {
	s.Identity, s.Visible = decision.Anonymous, false
	if req.byToken {
		s.Identity = decision.BadToken
	}
	req.user, req.entry = "", nil
}
