package api

import (
	"errors"
	"html/template"
	"net/http"

	"go.uber.org/zap"

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
		return h.unavailable(w, r, err)
	}
	user, err := h.sessionUser(r)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		web.Redirect(w, "/login", http.StatusSeeOther)
		return nil
	case err != nil:
		return h.unavailable(w, r, err)
	}
	return sendPage(w, r, http.StatusOK, h.assets.dashboard, bodyOf(user))
}

// loginPage serves the sign-in form. A user who is signed in already is sent to where
// the sign-in would have led.
func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request) error {
	to := web.LocalPath(r.URL.Query().Get("return"))
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	_, err := h.sessionUser(r)
	switch {
	case err == nil:
		web.Redirect(w, to, http.StatusSeeOther)
		return nil
	case !errors.Is(err, auth.ErrNoSession):
		return h.unavailable(w, r, err)
	}
	return sendPage(w, r, http.StatusOK, h.assets.login, struct{ Return string }{to})
}

// sendPage sends a page that no other page may frame or get a handle of.
func sendPage(w http.ResponseWriter, r *http.Request, status int, t *template.Template, data any) error {
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := web.SendPage(w, r, status, contentPolicy, t, data); err != nil {
		p := web.ProblemInternal.With("The page cannot be shown.")
		p.Cause = err
		return p
	}
	return nil
}

// unavailable shows, instead of a page that has to know who the user is, that this cannot
// be found out at the moment. The browser asks again by itself.
func (h *Handler) unavailable(w http.ResponseWriter, r *http.Request, err error) error {
	if r.Context().Err() == nil { // the client waits
		h.away.Failed(err, zap.String("method", r.Method), zap.String("path", r.URL.Path))
	}
	w.Header().Set("Retry-After", "5")
	return sendPage(w, r, http.StatusServiceUnavailable, h.assets.unavailable, web.Language(r))
}
