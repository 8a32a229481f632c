package codehub

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Problems of workspaces that cannot take a request.
var (
	problemAsleep   = kind("asleep", "The workspace sleeps", http.StatusServiceUnavailable)
	problemFailed   = kind("workspace-failed", "The workspace has failed", http.StatusBadGateway)
	problemOverload = kind("too-many-waiting", "Too many requests are waiting", http.StatusServiceUnavailable)
)

// hold keeps the request until its workspace can take it. When it cannot, hold
// answers, and reports that the request is done.
func (g *Gateway) hold(w http.ResponseWriter, r *http.Request, v visit, st *route.State) (_ *route.State, done bool, err error) {
	if failed(st) {
		return nil, true, g.failedAnswer(w, r, v, st)
	}
	if v.who == tab && st.Route.Desired != workspace.DesiredRunning {
		problemAsleep.with("Open it, or start it, to wake it.").write(w)
		return nil, true, nil
	}
	if g.waking.held.Add(1) > g.maxHeld {
		g.waking.held.Add(-1)
		if v.who == navigation {
			g.waking.ask(v.id, v.entry, g.wakeTimeout, true)
			return nil, true, g.wakePage(w, r, v)
		}
		problemOverload.with("Try again in a moment.").write(w)
		return nil, true, nil
	}
	defer g.waking.held.Add(-1)
	patience := g.wakeTimeout
	if v.who == navigation {
		patience = g.pageWait
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	k := g.waking.ask(v.id, v.entry, g.wakeTimeout, v.who != tab)
	stopping := g.deps.stopping
	for {
		st := v.entry.State()
		switch {
		case !st.Exists():
			return nil, true, g.notFound(w, r, v)
		case st.Ready():
			return st, false, nil
		case failed(st):
			return nil, true, g.failedAnswer(w, r, v, st)
		case v.who == navigation && st.Route.Desired == workspace.DesiredRunning && !st.Running():
			// The wish is granted: from here on a person watches (SPEC 8).
			return nil, true, g.wakePage(w, r, v)
		}
		select {
		case <-st.Changed():
		case <-r.Context().Done():
			return nil, true, clientGone(r)
		case <-timer.C:
			if v.who == navigation {
				return nil, true, g.wakePage(w, r, v)
			}
			return nil, true, g.unavailable(w, "The workspace has not become ready in time.")
		case <-k.over:
			if v.entry.State() != st {
				continue
			}
			return nil, true, g.notWoken(w, r, v, k.refusal())
		case <-g.waking.ctx.Done():
			return nil, true, g.unavailable(w, "The server is stopping.")
		case <-stopping:
			// A reload leaves the request where it is; the end of the process does not.
			if caddy.Exiting() {
				return nil, true, g.unavailable(w, "The server is stopping.")
			}
			stopping = nil
		}
	}
}

// notWoken answers a request whose workspace is not woken.
func (g *Gateway) notWoken(w http.ResponseWriter, r *http.Request, v visit, refused *service.LimitError) error {
	switch {
	case refused == nil && v.who == navigation:
		return g.wakePage(w, r, v)
	case refused == nil:
		return g.unavailable(w, "The workspace is not being woken any more.")
	case v.who == navigation:
		return g.limitPage(w, r, v, refused)
	case v.who == tab:
		return g.unavailable(w, "The limit of running workspaces is reached.")
	}
	w.Header().Set("Retry-After", "30")
	problemOf(refused).write(w)
	return nil
}

// failedAnswer tells why the workspace cannot be used.
func (g *Gateway) failedAnswer(w http.ResponseWriter, r *http.Request, v visit, st *route.State) error {
	if v.who == navigation {
		return g.messagePage(w, r, http.StatusBadGateway, failedMessage(g, r, v, st))
	}
	problemFailed.with("%s: %s", st.Route.ErrorReason, st.Route.ErrorMessage).write(w)
	return nil
}

// notFound answers for what is unknown, deleted and somebody else's, without
// telling which.
func (g *Gateway) notFound(w http.ResponseWriter, r *http.Request, v visit) error {
	if v.who == navigation {
		return g.messagePage(w, r, http.StatusNotFound, notFoundMessage(g, r, v))
	}
	problemNotFound.with("No workspace of yours has this address.").write(w)
	return nil
}

// unavailable answers when trying again later makes sense.
func (g *Gateway) unavailable(w http.ResponseWriter, why string) error {
	problemUnavailable.with("%s", why).write(w)
	return nil
}

// clientGone is what a request ends with whose client has not waited. Nobody sees
// the status but the access log, where 499 is how Caddy says it.
func clientGone(r *http.Request) error {
	return caddyhttp.Error(499, r.Context().Err())
}
