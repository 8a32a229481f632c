package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
)

// Problems of workspaces that cannot take a request.
var (
	problemAsleep   = web.NewProblemType("asleep", "The workspace sleeps", http.StatusServiceUnavailable)
	problemFailed   = web.NewProblemType("workspace-failed", "The workspace has failed", http.StatusBadGateway)
	problemOverload = web.NewProblemType("too-many-waiting", "Too many requests are waiting", http.StatusServiceUnavailable)
	problemNoAnswer = web.NewProblemType("no-answer", "The workspace gave no answer", http.StatusBadGateway)
)

// What Retry-After says, in seconds.
const (
	limitRetryAfter       = "30"
	wakePageRetryAfter    = "3"
	unavailableRetryAfter = "5"
)

// answer gives a request every answer but the application's own. St is nil when
// there is no such workspace; refusal is the limit that forbids waking it.
func (g *Gateway) answer(req *request, d Decision, st *route.State, refusal *service.LimitError) error {
	w, r := req.w, req.r
	switch d.Answer {
	case SendCrossOrigin:
		web.ProblemCrossSite.With("A page of another origin must not use this workspace.").Write(w)
	case SendUnavailable:
		web.ProblemUnavailable.With("%s", d.Detail).Write(w)
	case ShowUnavailable:
		w.Header().Set("Retry-After", unavailableRetryAfter)
		return g.showMessage(req, http.StatusServiceUnavailable, unavailableMessage(r))
	case SendUnauthorized:
		web.ProblemNoSession.With("Sign in first.").Write(w)
	case ShowLogin:
		return g.showLogin(req)
	case SendNotFound:
		web.ProblemNotFound.With("No workspace of yours has this address.").Write(w)
	case ShowNotFound:
		return g.showMessage(req, http.StatusNotFound, notFoundMessage())
	case SendFailed:
		problemFailed.With("%s", failureText(st)).Write(w)
	case ShowFailed:
		return g.showMessage(req, http.StatusBadGateway, failedMessage(st))
	case SendAsleep:
		problemAsleep.With("Open it, or start it, to wake it.").Write(w)
	case SendOverload:
		problemOverload.With("Try again in a moment.").Write(w)
	case SendLimit:
		w.Header().Set("Retry-After", limitRetryAfter)
		web.ProblemOf(refusal).Write(w)
	case ShowLimit:
		w.Header().Set("Retry-After", limitRetryAfter)
		return g.showLimit(req, refusal)
	case SendBadGateway:
		p := problemNoAnswer.With("Its application broke off the connection.")
		if p.Status = noAnswerStatus(req.err); p.Status == http.StatusGatewayTimeout {
			p.Detail = "Its application took too long."
		}
		p.Write(w)
	case ShowBadGateway:
		return g.showMessage(req, noAnswerStatus(req.err), noAnswerMessage(r))
	case ShowWake:
		w.Header().Set("Retry-After", wakePageRetryAfter)
		return g.showWake(req, st)
	default:
		return fmt.Errorf("answering a request: there is no answer %d", d.Answer)
	}
	return nil
}

// noAnswerStatus is the status for an application that gave no answer: 502 or 504.
func noAnswerStatus(err error) int {
	var noAnswer *NoAnswerError
	if errors.As(err, &noAnswer) {
		return noAnswer.Status
	}
	return http.StatusBadGateway
}

// showLogin sends a person to the login page, and back afterwards. From a
// workspace's own host the way leads over the main site, which gives out a ticket.
func (g *Gateway) showLogin(req *request) error {
	to := web.LoginPath(req.r)
	if req.target.Host {
		to = g.Site.TicketURL(req.r, req.target.ID)
	}
	web.Redirect(req.w, to, http.StatusSeeOther)
	return nil
}
