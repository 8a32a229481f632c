package api

import (
	"errors"
	"html/template"
	"net/http"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
)

// contentPolicy lets pages use our scripts and styles and nothing else: nothing
// inline, nothing from other hosts, and no frame around them.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// dashboardPage serves the list of workspaces, and sends users who are not signed in
// to the sign-in page.
func (h *Handler) dashboardPage(w http.ResponseWriter, r *http.Request) error {
	if err := h.ready(r.Context()); err != nil {
		return err
	}
	user, err := h.sessionUser(r)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		web.Redirect(w, "/login", http.StatusSeeOther)
		return nil
	case err != nil:
		return unavailable(err)
	}
	return sendPage(w, r, h.assets.dashboard, bodyOf(user))
}

// loginPage serves the sign-in form. A user who is signed in already is sent to where
// the sign-in would have led.
func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request) error {
	to := web.LocalPath(r.URL.Query().Get("return"))
	if err := h.ready(r.Context()); err != nil {
		return err
	}
	_, err := h.sessionUser(r)
	switch {
	case err == nil:
		web.Redirect(w, to, http.StatusSeeOther)
		return nil
	case !errors.Is(err, auth.ErrNoSession):
		return unavailable(err)
	}
	return sendPage(w, r, h.assets.login, struct{ Return string }{to})
}

// sendPage sends a page that no other page may frame or get a handle of.
func sendPage(w http.ResponseWriter, r *http.Request, t *template.Template, data any) error {
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := web.SendPage(w, r, http.StatusOK, contentPolicy, t, data); err != nil {
		p := web.ProblemInternal.With("The page cannot be shown.")
		p.Cause = err
		return p
	}
	return nil
}

// unavailable is the problem of a page that has to know who the user is, and cannot
// find out.
func unavailable(err error) error {
	p := web.ProblemUnavailable.With("The sign-in cannot be checked at the moment; try again shortly.")
	p.Cause = err
	return p
}
