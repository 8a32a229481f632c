package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/metrics"
)

// Serve answers a request for the workspace that its address names. It holds the request while
// the workspace wakes. It returns nil when the request was answered, and [ErrClientGone] when
// the client disconnected first. Otherwise it returns an error of the proxy, which the server
// must handle.
//
// Cross-origin requests are refused before anything else is looked up, and a workspace
// of another user is answered like a missing one.
func (g *Gateway) Serve(w http.ResponseWriter, r *http.Request, at site.Address) error {
	req := &request{r: r, at: at}
	req.answer.Reset(w, r, g.Exiting)
	w, req.w = &req.answer, &req.answer
	if req.token, req.basic, req.byToken = site.AccessToken(r.Header, auth.TokenPrefix); !req.byToken {
		req.kind = decision.Classify(r, at.Prefix)
	} // else a program
	byItself := !req.byToken || req.basic // a browser adds cookies and passwords by itself, and no Bearer
	t := &req.at
	if t.OwnHost && r.URL.Path == web.LanguagePath { // on the main site it is the API's
		web.SwitchLanguage(t, w, r)
		return nil
	}
	s := decision.Facts{
		Outdated:    g.Refused() != nil,
		TooEarly:    site.IsEarly(r),
		Misdirected: !t.OwnHost && !t.IsMain(),
		CrossOrigin: byItself && t.CrossOrigin(r),
		OtherHost: !t.OwnHost && t.ID != "" && g.Site.PerHost() && byItself &&
			(req.kind.IsPage() || site.IsBrowser(r)) && !req.isOfMainSite(),
		Named: t.Alias != "",
	}
	if s.Outdated || s.TooEarly || s.Misdirected || s.CrossOrigin || s.OtherHost || s.Named {
		return g.run(req, s)
	}
	if req.kind.IsPage() && t.ClearPlanted(w, r, t.Prefix) {
		site.Redirect(w, site.Here(r), http.StatusSeeOther)
		return nil
	}
	if !g.Routes.Ready() {
		s.Loading = g.awaitRoutes(r.Context()) != nil
	}
	if !s.Loading {
		if t.OwnHost && !g.IdentityOnly && !req.byToken && r.URL.Path == site.RedeemPath && (t.Port == 0 || g.Ports != PortsOff) {
			return g.redeem(req)
		}
		s.NoSuchHost = t.OwnHost && t.ID == "" || t.Port != 0 && g.Ports == PortsOff
		s.Port, s.Unpublished = t.Port != 0, t.Port != 0 && g.Ports == PortsUnpublished
		g.identify(req, &s)
		defer req.exchange.Detach()
		if s.Visible {
			s.Observe(req.entry.State())
		}
	}
	if s.Visible {
		if req.kind == decision.Navigation || req.kind == decision.Program && r.Header.Get("Sec-Fetch-User") == "?1" {
			g.tabs.Opened(t.ID) // or sends a form
		}
		if t.Port != 0 && g.isApplications(req.entry.State(), t.Port) {
			site.Redirect(w, req.at.WorkspaceOrigin(t.ID)+ownPath(t, r), http.StatusTemporaryRedirect)
			return nil
		}
		if t.Bare {
			return redirectBare(w, r)
		}
		if own, ok := strings.CutPrefix(r.URL.Path[len(t.Prefix):], site.OwnPath); ok {
			if serve, ok := ownPaths[own]; ok && !req.byToken && !(t.OwnHost && req.isOfMainSite()) {
				return serve(g, req)
			}
			// The other paths below .codehub/ are reserved and do not exist. Programs have the API.
			s.Visible = false
		}
	} else if s.NeedsSignIn() && isForm(r.URL.Path[len(t.Prefix):]) && sentByPage(r) {
		// The answer does not lead to the sign-in. The pages that send these forms have a policy that lets no form lead
		// to another host, and people sign in at another host.
		w.Header().Set("WWW-Authenticate", site.BearerChallenge)
		return g.showMessage(req, http.StatusUnauthorized, pages.SignedOut(t.Prefix+"/"))
	}
	return g.run(req, s)
}

// run decides, and decides again whenever something has changed, until the request
// has its answer. It is the gateway's only loop.
func (g *Gateway) run(req *request, s decision.Facts) error {
	h := hold{gateway: g, request: req}
	defer func() { h.release() }()
	if e := req.entry; e != nil && req.kind == decision.Subresource && req.r.ProtoMajor < 2 && !site.IsWebSocket(req.r) {
		e.PageRequests.Add(1)
		defer e.PageRequests.Add(-1)
	}
	for {
		s.Outdated = g.Refused() != nil
		var st *route.State
		if req.entry != nil {
			st = req.entry.State()
			s.Observe(st)
			s.Unconfirmed = !g.Routes.Fresh()
			s.Kept = s.Dozing && (s.Kept || !h.held && h.keepForThaw())
			s.Waking = req.kind == decision.SelfNavigation && !s.Ready &&
				g.Activator.InProgress(req.at.ID, g.WakeTimeout) != nil
		}
		d := decision.Decide(s, req.kind)
		switch {
		case d.Answer == decision.Proxy:
			h.release()
			g.answered(req, d)
			done, err := g.forward(req, &s, st)
			if done {
				outcome := metrics.Proxied
				if errors.Is(err, ErrClientGone) {
					outcome = metrics.ClientGone
				}
				g.Metrics.Answered(clientOf(req.kind), outcome, metrics.NotRefused)
				return err
			}
			h = hold{gateway: g, request: req}
		case d.Wait != decision.NoWait && !h.expired:
			if err := h.wait(d, &s, st); err != nil {
				g.Metrics.Answered(clientOf(req.kind), metrics.ClientGone, metrics.NotRefused)
				return err
			}
		default:
			h.joinWakeUp(d, st)
			h.release()
			g.answered(req, d)
			g.Metrics.Answered(outcomeOf(req.kind, d))
			return g.answer(req, d, st, h.refusal)
		}
	}
}

// answered records the outcome of a request for the access log.
func (g *Gateway) answered(req *request, d decision.Decision) {
	g.Answered(req.r, req.at.ID, req.kind.String(), d.Answer.String(), req.held)
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

// identify records the sender of the request, and whether the workspace is the user's own.
func (g *Gateway) identify(req *request, s *decision.Facts) {
	grant, err := g.user(req)
	user := grant.ID
	var scope *auth.ScopeError
	switch {
	case errors.Is(err, auth.ErrBadToken):
		s.Identity = decision.BadToken
		return
	case errors.As(err, &scope):
		s.Identity = decision.ScopeMissing
		return
	case err != nil:
		s.Identity = decision.Unverifiable // package auth logs the outage, once
		return
	case user == "":
		return
	}
	if req.grant = grant; !req.exchange.Attach(grant) {
		req.signOut(s) // the session has ended at this moment
		return
	}
	s.Identity, req.user = decision.SignedIn, user
	if req.at.ID == "" {
		return
	}
	e, err := g.find(req)
	if err != nil {
		s.Loading = true // unknown whether the workspace exists
	} else if e != nil && e.State().Route.OwnerID == user {
		req.entry, s.Visible = e, true
	}
}

// find returns the entry of the request's workspace, nil if there is none. The entry of a running workspace is in
// memory. For another workspace, find may have to ask the database. An error means that the database does not answer;
// the route table has logged this already.
func (g *Gateway) find(req *request) (*route.Entry, error) {
	if e, ok := g.Routes.Lookup(req.at.ID); ok {
		return e, nil
	}
	e, err := g.Routes.Find(req.r.Context(), req.at.ID)
	if errors.Is(err, route.ErrNotFound) {
		return nil, nil
	}
	return e, err
}

// user returns the grant of the request's sender, the zero Grant without a valid session. If the request has a personal
// access token, nothing else counts. On a workspace's own host, the session of that host counts first.
func (g *Gateway) user(req *request) (auth.Grant, error) {
	if req.byToken {
		return g.Token(req.r, req.token)
	}
	if req.at.OwnHost && req.at.ID != "" && !g.IdentityOnly {
		token, err := req.at.Token(req.r.Header, site.WorkspaceCookie)
		if err != nil {
			req.at.ExpireCopies(req.w, req.r, site.WorkspaceCookie)
			return auth.Grant{}, nil
		}
		if token != "" {
			u, err := g.Sessions.WorkspaceSession(req.r.Context(), token, req.at.ID)
			if err == nil {
				return u, nil
			}
			if !errors.Is(err, auth.ErrNoSession) && !errors.Is(err, auth.ErrNoWorkspace) {
				return auth.Grant{}, err
			}
		}
	}
	user, err := g.Identity(req.r, &req.at)
	if user.ID == "" && err == nil {
		if _, err := req.at.Token(req.r.Header, site.SessionCookie); err != nil {
			req.at.ExpireCopies(req.w, req.r, site.SessionCookie)
		}
	}
	return user, err
}
