package gateway

import (
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
)

// A page that did not wake the workspace when it was loaded can wake it later for a person. A page of the workspace
// does so through our script, and the page that says that the workspace sleeps has a button for it.

// wakePath is where the latter sends its form, below [site.OwnPath].
const wakePath = "wake"

// wakeGrace is how long the gateway waits before it answers a page that wakes its workspace. If a limit refuses the
// wake-up in that time, the answer says so.
const wakeGrace = 2 * time.Second

// answerWakeForm answers the form: it wakes the workspace, and leads back to the address in "return".
// That address shows the progress, even if the browser does not mark the navigation as a person's.
// The answers are pages.
func (g *Gateway) answerWakeForm(req *request) error {
	back, ok, err := g.readForm(req)
	if !ok {
		return err
	}
	return g.wakeAndRedirect(req, back)
}

// wakeAndRedirect wakes the workspace for a person, and leads back to the requested address, or
// shows the limit that forbids it.
func (g *Gateway) wakeAndRedirect(req *request, back string) error {
	if st := req.entry.State(); !st.Ready() && !st.Failed() {
		refusal, err := g.requestWakeUp(req, st)
		if err != nil {
			return err
		}
		if refusal != nil {
			return g.showLimit(req, st, refusal, back)
		}
	}
	site.Redirect(req.w, back, http.StatusSeeOther)
	return nil
}

// answerWakeFromPage wakes the workspace for a person in one of its pages, and answers with the
// state.
func (g *Gateway) answerWakeFromPage(req *request, st *route.State) error {
	if st.Failed() {
		problemFailed.Because(progress.FailureOf(st).Why).Write(req.w, req.r)
		return nil
	}
	refusal, err := g.requestWakeUp(req, st)
	if err != nil {
		return err
	}
	if refusal != nil {
		problem.Of(refusal).Write(req.w, req.r)
		return nil
	}
	return sendJSON(req.w, g.pageState(req, req.entry.State()))
}

// requestWakeUp wakes the workspace, and waits a moment in case a limit forbids that.
func (g *Gateway) requestWakeUp(req *request, st *route.State) (*service.LimitError, error) {
	wakeUp := g.Activator.Wake(g.acting(req), req.at.ID, req.entry, g.WakeTimeout, metrics.Navigation)
	timer := time.NewTimer(wakeGrace)
	defer timer.Stop()
	select {
	case <-wakeUp.Done():
		return wakeUp.Refusal(), nil
	case <-st.Changed():
	case <-timer.C:
	case <-req.r.Context().Done():
		return nil, ErrClientGone
	}
	return nil, nil
}
