package gateway

import (
	"errors"
	"net/http"
	"slices"

	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// swap answers the form of the limit page. It asks for the desired state STANDBY of the running
// workspace in the field "sleep". It leads back to the address in "return", and the request to that address wakes the
// workspace that the user wants. The wake-up waits until the other one has really stopped: until then the limit counts
// it.
//
// Requests of other origins do not get here. The answers are pages: a person has pressed a
// button.
func (g *Gateway) swap(req *request) error {
	back, ok, err := g.readForm(req)
	if !ok {
		return err
	}
	if st := req.entry.State(); st.Route.Desired == workspace.DesiredRunning && !st.Dozes() {
		// The workspace needs no free slot. A program in it, whose pages have this origin, must not
		// put its user's other workspaces to sleep.
		site.Redirect(req.w, back, http.StatusSeeOther)
		return nil
	}
	switch err := g.sleep(req, workspace.ID(req.r.PostFormValue("sleep"))); {
	case err == nil, errors.Is(err, service.ErrNotFound):
		// If the workspace in "sleep" no longer runs, it no longer counts against the limit. The next answer shows
		// whether there is room now.
		g.Activator.Forget(req.at.ID)
		if err == nil { // the browser need not say that a person sends the next request
			g.Activator.Wake(g.acting(req), req.at.ID, req.entry, g.WakeTimeout, metrics.Navigation)
		}
		site.Redirect(req.w, back, http.StatusSeeOther)
		return nil
	case errors.Is(err, service.ErrOperationInProgress):
		return g.showMessage(req, http.StatusConflict, pages.Busy(back))
	default:
		req.w.Header().Set("Retry-After", problem.RetryUnavailable)
		return g.showMessage(req, http.StatusServiceUnavailable, pages.Unavailable(back))
	}
}

// sleep asks for the desired state STANDBY of one of the user's running workspaces. For any other workspace it returns
// [service.ErrNotFound], because that desired state would restore an archived one.
func (g *Gateway) sleep(req *request, id workspace.ID) error {
	running, err := g.Service.Running(req.r.Context(), req.user)
	if err != nil {
		return err
	}
	if id == req.at.ID || !slices.ContainsFunc(running, func(w workspace.Workspace) bool { return w.ID == id }) {
		return service.ErrNotFound
	}
	actor := service.Actor{UserID: req.user, Through: audit.Gateway}
	return g.Service.SetDesired(g.acting(req), actor, id, workspace.DesiredStandby)
}
