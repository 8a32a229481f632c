package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
)

// Problems of workspaces that cannot serve a request. The first argument is the last
// part of the problem's type, which programs compare; it must not change.
var (
	problemAsleep       = problem.New("asleep", "The workspace sleeps", http.StatusServiceUnavailable)
	problemTooManyWakes = problem.New("too-many-wakes", "Woken too often", http.StatusTooManyRequests)
	problemFailed       = problem.New("workspace-failed", "The workspace has failed", http.StatusBadGateway)
	problemOverload     = problem.New("too-many-waiting", "Too many requests are waiting", http.StatusServiceUnavailable)
	problemOtherHost    = problem.New("other-host",
		"Browsers find this workspace on a host of its own", http.StatusForbidden)
	problemNoAnswer = problem.New("no-answer", "The workspace gave no answer", http.StatusBadGateway)
)

// The values of Retry-After, in seconds. Below a limit, a workspace must stop before
// another one may run, so those clients wait longest.
const (
	limitRetryAfter    = "30"
	wakePageRetryAfter = "3"
)

// answer renders every decision except [decision.Proxy]. Its argument st is the state of the
// workspace, nil when the workspace does not exist or is not the user's. Its argument refusal
// is the limit that forbids waking it, nil when there is none.
//
// Answers to programs are problems (RFC 9457), answers to people are pages. Each
// Retry-After is a whole number of seconds. An error means that nothing was sent.
func (g *Gateway) answer(req *request, d decision.Decision, st *route.State, refusal *service.LimitError) error {
	w, r := req.w, req.r
	switch d.Answer {
	case decision.SendOutdated:
		problem.Of(g.Refused()).Write(w)
	case decision.ShowOutdated:
		return web.ShowOutdated(w, r, g.Refused(), g.home(req))
	case decision.SendCrossOrigin:
		problem.CrossSite.With("A page of another origin must not use this workspace.").Write(w)
	case decision.SendMisdirected:
		problem.Misdirected.With("Use %s instead, or name this host in the setting public_url.",
			req.at.MainOrigin()).Write(w)
	case decision.ShowMisdirected:
		return g.showMessage(req, http.StatusMisdirectedRequest, pages.Misdirected(req.at.MainOrigin()))
	case decision.SendOtherHost:
		problemOtherHost.With("Use %s instead.", req.at.WorkspaceOrigin(req.at.ID)).Write(w)
	case decision.RedirectToHost:
		site.Redirect(w, req.at.WorkspaceOrigin(req.at.ID)+ownPath(&req.at, r), http.StatusTemporaryRedirect)
	case decision.SendUnpublished:
		problem.NotFound.With("This installation reaches only the port of the workspace's application.").Write(w)
	case decision.ShowUnpublished:
		return g.showMessage(req, http.StatusNotFound, pages.Unpublished())
	case decision.SendNoListener:
		w.Header().Set("Retry-After", portRefresh)
		problemNoListener.With("Start a server in the workspace that listens on port %d, on all interfaces.",
			req.at.Port).Write(w)
	case decision.ShowNoListener:
		w.Header().Set("Refresh", portRefresh)
		return g.showMessage(req, http.StatusBadGateway, pages.NoListener(site.Here(r), req.at.Port))
	case decision.RedirectByName:
		site.Redirect(w, req.at.NameURL(r.URL.RequestURI()), http.StatusTemporaryRedirect)
	case decision.SendUnavailable:
		problem.Unavailable.With("%s", unavailableDetail(d, st)).Write(w)
	case decision.ShowUnavailable:
		w.Header().Set("Retry-After", problem.RetryUnavailable)
		return g.showMessage(req, http.StatusServiceUnavailable, pages.Unavailable(site.Here(r)))
	case decision.SendUnauthorized:
		problem.NoSession.With("Sign in first.").Write(w)
	case decision.ShowLogin:
		return g.showLogin(req)
	case decision.SendNotFound:
		problem.NotFound.With("No workspace of yours has this address.").Write(w)
	case decision.ShowNotFound:
		return g.showMessage(req, http.StatusNotFound, pages.NotFound())
	case decision.SendFailed:
		problemFailed.With("%s", progress.FailureOf(st).Detail).Write(w)
	case decision.ShowFailed:
		return pages.ShowFailed(req.w, req.r, progress.FailureOf(st), g.home(req))
	case decision.SendAsleep:
		problemAsleep.With("Open the workspace in a browser or start it to wake it.").Write(w)
	case decision.ShowAsleep:
		return pages.ShowAsleep(w, r, &pages.Asleep{
			Name: st.Route.Name, Back: site.Here(r), Home: g.home(req),
			WakeURL: req.at.Prefix + site.OwnPath + wakePath, Main: req.at.MainOrigin(),
		})
	case decision.SendOverload:
		problemOverload.With("Try again in a moment.").Write(w)
	case decision.SendOverShare:
		problemOverload.With("As many of your requests wait for workspaces as may wait of one user; " +
			"try again when some of them have been answered.").Write(w)
	case decision.SendLimit:
		w.Header().Set("Retry-After", limitRetryAfter)
		var running []problem.RunningWorkspace
		if !req.at.OwnHost || !site.IsBrowser(r) { // a page of the workspace could read the answer to a form
			running = g.running(req)
		}
		problem.OfLimit(refusal, running).Write(w)
	case decision.ShowLimit:
		return g.showLimit(req, st, refusal, g.wanted(req, site.Here(r)))
	case decision.SendBadGateway:
		p := problemNoAnswer.With("Its application closed the connection before it answered.")
		if p.Status = noAnswerStatus(req.err); p.Status == http.StatusGatewayTimeout {
			p.Detail = "Its application took too long."
		}
		p.Write(w)
	case decision.ShowBadGateway:
		return g.showMessage(req, noAnswerStatus(req.err), pages.NoAnswer(site.Here(r)))
	case decision.ShowWake:
		w.Header().Set("Retry-After", wakePageRetryAfter)
		return g.showWake(req, st)
	default:
		return fmt.Errorf("answering a request: unknown answer %d", d.Answer)
	}
	return nil
}

// unavailableDetail is the decision's detail, and what keeps the workspace from getting on
// if that is known.
func unavailableDetail(d decision.Decision, st *route.State) string {
	if st == nil {
		return d.Detail
	}
	w := progress.WaitingFor(st)
	if w == nil {
		return d.Detail
	}
	return d.Detail + " " + strings.TrimSuffix(w.Text.String(), ".") + "."
}

// noAnswerStatus returns the status for an application that gave no answer: 504 if it
// took too long, else 502.
func noAnswerStatus(err error) int {
	var noAnswer *NoAnswerError
	if errors.As(err, &noAnswer) {
		return noAnswer.Status
	}
	return http.StatusBadGateway
}

// showLogin redirects a browser to the login page, which leads back to the requested address.
// From a workspace's own host it redirects to the main site first. Only the main site has the
// session, and it issues a ticket for the workspace's host.
func (g *Gateway) showLogin(req *request) error {
	if g.IdentityOnly {
		return g.showMessage(req, http.StatusForbidden, pages.NoUser())
	}
	if req.at.OwnHost {
		g.askForTicket(req)
		return nil
	}
	site.Redirect(req.w, site.LoginPath(req.r), http.StatusSeeOther)
	return nil
}

// showWake shows the progress of the wake-up.
func (g *Gateway) showWake(req *request, st *route.State) error {
	s, _ := g.describe(req, st)
	if s.Steps == nil { // nothing goes on yet, or no longer
		s.Steps = progress.StepsFrom(st)
	}
	return pages.ShowWake(req.w, req.r, &pages.Wake{
		Name: st.Route.Name, StatusURL: req.at.Prefix + site.OwnPath + "status", Home: g.home(req), Status: s,
	})
}

// showMessage shows a message with a link to the list of all workspaces.
func (g *Gateway) showMessage(req *request, status int, m *web.Message) error {
	return pages.ShowMessage(req.w, req.r, status, m, g.home(req))
}

// home returns the address of the list of all workspaces, on the main site.
func (g *Gateway) home(req *request) string {
	if !req.at.OwnHost {
		return "/"
	}
	return req.at.MainOrigin() + "/"
}
