package api

import (
	"errors"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api/pages"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/logkey"
)

// dashboardPage serves the list of workspaces, and sends users who are not signed in
// to the sign-in page.
func (h *Handler) dashboardPage(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	grant, err := h.sessionGrant(r, at)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		site.Redirect(w, "/login", http.StatusSeeOther)
		return nil
	case err != nil:
		return h.unavailable(w, r, err)
	}
	return h.pages.ShowDashboard(w, r, pages.Dashboard{
		ID: grant.ID, Username: grant.Username, Role: grant.Role,
		Sessions: h.Identity == nil, Passwords: h.passwords(), SignOut: h.Identity == nil || h.SignOut != "",
	})
}

// loginPage serves the sign-in form. It redirects a signed-in user to the destination of the
// sign-in.
func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	to := site.LocalPath(r.URL.Query().Get("return"))
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	_, err := h.sessionGrant(r, at)
	switch {
	case err == nil:
		site.Redirect(w, to, http.StatusSeeOther)
		return nil
	case !errors.Is(err, auth.ErrNoSession):
		return h.unavailable(w, r, err)
	}
	login := pages.Login{
		Return: to, Passwords: !h.NoPasswords, Provider: h.Provider != nil,
		Start: providerStart + "?return=" + url.QueryEscape(to),
	}
	if h.Identity != nil {
		login.Refusal = err
	}
	return h.pages.ShowLogin(w, r, login)
}

// unavailable replaces a page that depends on the user while the user cannot be determined. The
// browser retries by itself.
func (h *Handler) unavailable(w http.ResponseWriter, r *http.Request, err error) error {
	if r.Context().Err() == nil { // the client waits
		h.away.Failed(err, zap.String(logkey.Method, r.Method), zap.String(logkey.Path, r.URL.Path))
	}
	return h.pages.ShowUnavailable(w, r)
}
