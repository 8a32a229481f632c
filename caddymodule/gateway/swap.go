package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/codehub/gateway/caddymodule/gateway/decision"
	"github.com/codehub/gateway/caddymodule/gateway/pages"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// swapPath is where the limit page sends its form, below [web.OwnPath].
const swapPath = "swap"

// maxSwapForm bounds the form of the limit page, in bytes.
const maxSwapForm = 64 << 10

// swap answers the form of the limit page: it asks for the desired state STANDBY of the
// running workspace in the field "sleep", and leads back to the address in "return", which
// wakes the target of the request. The wake-up waits until the other one has really
// stopped: until then the limit counts it.
//
// Requests of other origins do not get here. The answers are pages: a person has pressed a
// button.
func (g *Gateway) swap(req *request) error {
	r := req.r
	if r.Method != http.MethodPost {
		req.w.Header().Set("Allow", http.MethodPost)
		web.ProblemMethod.With("Use POST.").Write(req.w)
		return nil
	}
	if !sentByPage(r) {
		return g.answer(req, decision.Decision{Answer: decision.SendCrossOrigin}, nil, nil)
	}
	r.Body = http.MaxBytesReader(req.w, r.Body, maxSwapForm)
	back := web.LocalPath(r.PostFormValue("return"))
	if !strings.HasPrefix(back, req.target.Prefix+"/") {
		back = req.target.Prefix + "/"
	}
	if req.entry.State().Route.Desired == workspace.DesiredRunning {
		// It needs no room. A program in it, whose pages have this origin, must not put its
		// user's other workspaces to sleep.
		web.Redirect(req.w, back, http.StatusSeeOther)
		return nil
	}
	switch err := g.sleep(req, workspace.ID(r.PostFormValue("sleep"))); {
	case err == nil, errors.Is(err, service.ErrNotFound):
		// One that does not run any more takes no room: the next answer tells.
		g.Activator.Forget(req.target.ID)
		web.Redirect(req.w, back, http.StatusSeeOther)
		return nil
	case errors.Is(err, service.ErrOperationInProgress):
		return g.showMessage(req, http.StatusConflict, pages.Busy(back))
	default:
		req.w.Header().Set("Retry-After", web.RetryUnavailable)
		return g.showMessage(req, http.StatusServiceUnavailable, pages.Unavailable(back))
	}
}

// sleep asks for the desired state STANDBY of one of the user's running workspaces. For any
// other it returns [service.ErrNotFound]: an archived one would be restored by that.
func (g *Gateway) sleep(req *request, id workspace.ID) error {
	running, err := g.Service.Running(req.r.Context(), req.user)
	if err != nil {
		return err
	}
	if id == req.target.ID || !slices.ContainsFunc(running, func(w workspace.Workspace) bool { return w.ID == id }) {
		return service.ErrNotFound
	}
	return g.Service.SetDesired(req.r.Context(), service.Actor{UserID: req.user, Kind: "gateway"}, id, workspace.DesiredStandby)
}

// sentByPage reports whether a browser says that a page of the same origin has sent the
// form. Every browser says so; a program has the API.
func sentByPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	return r.Header.Get("Origin") != "" // compared with the host already
}
