package gateway

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
)

// Problems of workspaces that cannot serve a request. The first argument is the last
// part of the problem's type, which programs compare; it must not change.
var (
	problemAsleep       = problem.New("asleep", http.StatusServiceUnavailable)
	problemTooManyWakes = problem.New("too-many-wakes", http.StatusTooManyRequests)
	problemFailed       = problem.New("workspace-failed", http.StatusBadGateway)
	problemOverload     = problem.New("too-many-waiting", http.StatusServiceUnavailable)
	problemOtherHost    = problem.New("other-host", http.StatusForbidden)
	problemBody         = problem.New("body-incomplete", http.StatusBadRequest)
	problemNoAnswer     = problem.New("no-answer", http.StatusBadGateway)
)

// The values of Retry-After, in seconds. Clients wait longest when a limit is reached, because a workspace must then
// stop before another one may run.
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
		return g.send(req, problem.Of(g.Refused()))
	case decision.ShowOutdated:
		return web.ShowOutdated(g.page(req), g.branded(req), g.Refused(), g.home(req))
	case decision.SendTooEarly:
		return g.send(req, problem.TooEarly.With("problem.too_early", nil))
	case decision.SendCrossOrigin:
		return g.send(req, problem.CrossSite.With("problem.cross_site_workspace", nil))
	case decision.SendMisdirected:
		return g.send(req, problem.Misdirected.With("problem.use_main", words.Values{"Main": req.at.MainOrigin()}))
	case decision.ShowMisdirected:
		return g.showMessage(req, http.StatusMisdirectedRequest, pages.Misdirected(req.at.MainOrigin()))
	case decision.SendOtherHost:
		return g.send(req, problemOtherHost.With("problem.use_host", words.Values{"Host": req.at.WorkspaceOrigin(req.at.ID)}))
	case decision.RedirectToHost:
		site.Redirect(w, req.at.WorkspaceOrigin(req.at.ID)+ownPath(&req.at, r), http.StatusTemporaryRedirect)
	case decision.SendUnpublished:
		return g.send(req, problem.NotFound.With("problem.workspace.unpublished", nil))
	case decision.ShowUnpublished:
		return g.showMessage(req, http.StatusNotFound, pages.Unpublished())
	case decision.SendNoListener:
		w.Header().Set("Retry-After", portRefresh)
		return g.send(req, problemNoListener.With("problem.workspace.no_listener", words.Values{"Port": req.at.Port}))
	case decision.ShowNoListener:
		w.Header().Set("Refresh", portRefresh)
		return g.showMessage(req, http.StatusBadGateway, pages.NoListener(site.Here(r), req.at.Port))
	case decision.RedirectByName:
		site.Redirect(w, req.at.NameURL(r.URL.RequestURI()), http.StatusTemporaryRedirect)
	case decision.SendUnavailable:
		return g.send(req, problem.Unavailable.Because(unavailableDetail(d, st)))
	case decision.ShowUnavailable:
		w.Header().Set("Retry-After", problem.RetryUnavailable)
		return g.showMessage(req, http.StatusServiceUnavailable, pages.Unavailable(site.Here(r)))
	case decision.SendUnauthorized:
		p := problem.NoSession.With("problem.sign_in_first", nil)
		if !site.IsBrowser(r) {
			p = p.Challenge(site.BasicChallenge)
		}
		return g.send(req, p)
	case decision.SendBadToken:
		p := problem.Of(auth.ErrBadToken)
		if req.basic && !site.IsBrowser(r) {
			p = p.Challenge(site.BasicChallenge)
		}
		return g.send(req, p)
	case decision.SendScopeMissing:
		return g.send(req, problem.Of(&auth.ScopeError{Needs: auth.ScopeWorkspace}))
	case decision.ShowLogin:
		return g.showLogin(req)
	case decision.SendNotFound:
		return g.send(req, problem.NotFound.With("problem.no_workspace_here", nil))
	case decision.ShowNotFound:
		return g.showMessage(req, http.StatusNotFound, pages.NotFound())
	case decision.SendFailed:
		return g.send(req, problemFailed.Because(progress.FailureOf(st).Why))
	case decision.ShowFailed:
		return pages.ShowFailed(g.page(req), g.branded(req), progress.FailureOf(st), string(req.at.ID), g.home(req))
	case decision.SendAsleep:
		p := problemAsleep.With("problem.workspace.asleep", nil)
		if st.Dozes() { // after a 503 JupyterLab covers its page with a message that its server is lost
			p = problemAsleep.With("problem.workspace.dozes", nil)
			p.Status = http.StatusGatewayTimeout
			w.Header().Set("Retry-After", problem.RetryUnavailable)
		}
		return g.sendAsleep(req, st, p)
	case decision.ShowAsleep:
		return g.showAsleep(req, st, http.StatusServiceUnavailable, site.Here(r), words.Of("page.asleep.text", nil))
	case decision.SendPutToSleep:
		p := problemAsleep.With("problem.workspace.put_to_sleep", nil)
		p.Status = http.StatusConflict
		return g.sendAsleep(req, st, p)
	case decision.ShowPutToSleep:
		return g.showAsleep(req, st, http.StatusServiceUnavailable, site.Here(r), words.Of("page.asleep.put_to_sleep", nil))
	case decision.SendOverload:
		return g.send(req, problemOverload.With("problem.try_again", nil))
	case decision.SendOverShare:
		return g.send(req, problemOverload.With("problem.workspace.over_share", nil))
	case decision.SendLimit:
		w.Header().Set("Retry-After", limitRetryAfter)
		var running []problem.RunningWorkspace
		if !req.at.OwnHost || !site.IsBrowser(r) { // a page of the workspace could read the answer to a form
			running = g.running(req)
		}
		return g.send(req, problem.OfLimit(refusal, running))
	case decision.ShowLimit:
		return g.showLimit(req, st, refusal, g.wanted(req, site.Here(r)))
	case decision.SendBadGateway:
		p := problemNoAnswer.With("problem.workspace.closed", nil)
		if noAnswerStatus(req.err) == http.StatusGatewayTimeout {
			p = problemNoAnswer.With("problem.workspace.too_slow", nil)
		}
		p.Status = noAnswerStatus(req.err)
		return g.send(req, p)
	case decision.ShowBadGateway:
		return g.showMessage(req, noAnswerStatus(req.err), pages.NoAnswer(site.Here(r)))
	case decision.SendBadBody:
		p := problemBody.With("problem.workspace.body_broken", nil)
		var body *forward.BodyError
		if errors.As(req.err, &body) && body.Status == http.StatusRequestTimeout {
			p = problemBody.With("problem.workspace.body_silent", nil)
			p.Status = body.Status
		}
		if r.ProtoMajor == 1 {
			w.Header().Set("Connection", "close") // the rest of the body may still come
		}
		return g.send(req, p)
	case decision.ShowWake:
		w.Header().Set("Retry-After", wakePageRetryAfter)
		return g.showWake(req, st)
	default:
		return fmt.Errorf("answering a request: unknown answer %d", d.Answer)
	}
	return nil
}

// send answers a program with a problem. If a person sees the answer, because the request sent a form or loads a frame,
// the answer is a page.
func (g *Gateway) send(req *request, p *problem.Problem) error {
	if !isSeen(req) {
		p.Write(req.w, req.r)
		return nil
	}
	p.SetHeaders(req.w.Header())
	if p.Status == http.StatusUnauthorized {
		return g.showMessage(req, p.Status, pages.SignedOut(req.at.Prefix+"/"))
	}
	heading, text := p.Texts()
	return g.showMessage(req, p.Status, &web.Message{Heading: heading, Text: text})
}

// isSeen reports whether a person sees the answer. The client kind does not show this for every request.
func isSeen(req *request) bool {
	return !req.byToken && site.IsNavigation(req.r) && site.AcceptsHTML(req.r.Header)
}

// sendAsleep answers a request that does not wake a sleeping workspace. A person who has sent a form gets a page whose
// button wakes the workspace. The button then leads back to the page with the form, because the address to which the
// form was sent may accept only forms.
func (g *Gateway) sendAsleep(req *request, st *route.State, p *problem.Problem) error {
	if req.r.Method == http.MethodGet || !isSeen(req) {
		return g.send(req, p)
	}
	p.SetHeaders(req.w.Header())
	back := site.Here(req.r)
	if from, err := url.Parse(req.r.Referer()); err == nil && from.Host == req.r.Host {
		back = g.wanted(req, from.RequestURI())
	}
	return g.showAsleep(req, st, p.Status, back, words.Of("page.asleep.form", nil))
}

// unavailableDetail returns the decision's detail, and the reason why the workspace waits, if
// known.
func unavailableDetail(d decision.Decision, st *route.State) words.Text {
	detail := words.Of(d.Detail, nil)
	if st == nil {
		return detail
	}
	if w := progress.WaitingFor(st); w != nil {
		return words.Join(detail, " ", w.Text)
	}
	return detail
}

// noAnswerStatus returns the status for an application that gave no answer: 504 if it
// took too long, else 502.
func noAnswerStatus(err error) int {
	var noAnswer *forward.NoAnswerError
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
	if s.Steps == nil { // no operation is in progress yet, or no longer
		s.Steps = progress.StepsFrom(st)
	}
	return pages.ShowWake(g.page(req), g.branded(req), &pages.Wake{
		ID: string(req.at.ID), Name: st.Route.Name, StatusURL: req.at.Prefix + site.OwnPath + "status", Home: g.home(req), Status: s,
		Back: site.Here(req.r), WakeURL: req.at.Prefix + site.OwnPath + wakePath, Main: req.at.MainOrigin(),
	})
}

// showAsleep shows that the workspace sleeps, and why nothing wakes it. The page's button wakes the workspace and leads
// back.
func (g *Gateway) showAsleep(req *request, st *route.State, status int, back string, why words.Text) error {
	return pages.ShowAsleep(g.page(req), g.branded(req), status, &pages.Asleep{
		Name: st.Route.Name, Back: back, Home: g.home(req), Why: why,
		WakeURL: req.at.Prefix + site.OwnPath + wakePath, Main: req.at.MainOrigin(),
	})
}

// showMessage shows a message with a link to the list of all workspaces.
func (g *Gateway) showMessage(req *request, status int, m *web.Message) error {
	return pages.ShowMessage(g.page(req), g.branded(req), status, m, g.home(req))
}

// branded returns the request with the brand, for an answer that is a page. Most requests never need the brand.
func (g *Gateway) branded(req *request) *http.Request { return brand.In(req.r, g.Brand) }

// home returns the address of the list of all workspaces, on the main site.
func (g *Gateway) home(req *request) string {
	if !req.at.OwnHost {
		return "/"
	}
	return req.at.MainOrigin() + "/"
}
