package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/route"
)

// Serve answers a request for the workspace t. It holds the request while the workspace
// wakes. It returns nil when the request was answered; [ErrClientGone] when the client
// disconnected first; and otherwise an error of the proxy, which the server must
// handle.
//
// Cross-origin requests are refused before anything else is looked up, and a workspace
// of another user is answered like a missing one.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, t Target) error {
	req := &request{w: w, r: r, target: t, kind: Classify(r)}
	s := State{CrossOrigin: g.Site.CrossOrigin(r)}
	if !s.CrossOrigin && !g.Routes.Ready() {
		s.Loading = g.awaitRoutes(r.Context()) != nil
	}
	if !s.CrossOrigin && !s.Loading {
		if t.Host && r.URL.Path == web.RedeemPath {
			return g.redeem(req)
		}
		s.NoSuchHost = t.Host && t.ID == ""
		g.identify(req, &s)
		if s.Visible {
			s.observe(req.entry.State())
		}
	}
	if s.Visible {
		if t.Bare {
			return redirectBare(w, r)
		}
		if own, ok := strings.CutPrefix(r.URL.Path[len(t.Prefix):], web.OwnPath); ok {
			if own == "status" {
				return g.status(req)
			}
			// The other paths below .codehub/ are reserved and do not exist.
			s.Visible = false
		}
	}
	return g.run(req, s)
}

// run decides, and decides again whenever something has changed, until the request
// has its answer. It is the gateway's only loop.
func (g *Gateway) run(req *request, s State) error {
	h := hold{gateway: g, request: req}
	defer func() { h.release() }()
	for {
		var st *route.State
		if req.entry != nil {
			st = req.entry.State()
			s.observe(st)
		}
		d := Decide(s, req.kind)
		switch {
		case d.Answer == Proxy:
			h.release()
			done, err := g.forward(req, &s, st)
			if done {
				return err
			}
			h = hold{gateway: g, request: req}
		case d.Wait != NoWait && !h.expired:
			if err := h.wait(d, &s, st); err != nil {
				return err
			}
		default:
			h.wake(d, st)
			return g.answer(req, d, st, h.refusal)
		}
	}
}

// awaitRoutes holds a request until the route table is filled, for at most loadTimeout.
// Without it, every workspace would seem not to exist after a start.
func (g *Gateway) awaitRoutes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := g.WaitReady(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-g.Routes.Loaded():
		return nil
	}
}

// identify records who sends the request, and whether the workspace is the user's own.
func (g *Gateway) identify(req *request, s *State) {
	user, err := g.user(req)
	switch {
	case err != nil:
		s.Identity = Unverifiable // package auth logs the outage, once
		return
	case user == "":
		return
	}
	s.Identity, req.user = SignedIn, user
	if req.target.ID == "" {
		return
	}
	e, err := g.find(req)
	if err != nil {
		s.Loading = true // nobody knows whether the workspace exists
	} else if e != nil && e.State().Route.OwnerID == user {
		req.entry, s.Visible = e, true
	}
}

// find returns the entry of the request's workspace, nil if there is none. That of a
// running workspace is in memory. For another one the database may have to be asked; an
// error says that it does not answer, and the route table has logged that.
func (g *Gateway) find(req *request) (*route.Entry, error) {
	if e, ok := g.Routes.Lookup(req.target.ID); ok {
		return e, nil
	}
	e, err := g.Routes.Find(req.r.Context(), req.target.ID)
	if errors.Is(err, route.ErrNotFound) {
		return nil, nil
	}
	return e, err
}

// user returns the id of the user who sends the request, "" without a valid session.
// On a workspace's own host, the session of that host counts first.
func (g *Gateway) user(req *request) (string, error) {
	if req.target.Host && req.target.ID != "" {
		if token := web.Cookie(req.r.Header, web.WorkspaceCookie); token != "" {
			u, err := g.Sessions.WorkspaceSession(req.r.Context(), token, req.target.ID)
			if err == nil {
				return u.ID, nil
			}
			if !errors.Is(err, auth.ErrNoSession) && !errors.Is(err, auth.ErrNoWorkspace) {
				return "", err
			}
		}
	}
	return g.Identity(req.r)
}
