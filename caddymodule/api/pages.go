package api

import (
	"errors"
	"html/template"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/api/v1"
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
	grant, err := h.sessionGrant(r)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		web.Redirect(w, "/login", http.StatusSeeOther)
		return nil
	case err != nil:
		return h.unavailable(w, r, err)
	}
	return sendPage(w, r, http.StatusOK, h.assets.dashboard, dashboardData{
		User: v1.UserOf(grant.User), Sessions: h.Identity == nil, SignOut: h.Identity == nil || h.SignOut != "",
	})
}

// dashboardData is what the page of the dashboard shows by itself: Sessions and SignOut say
// whether the user's sessions, and signing out, are offered.
type dashboardData struct {
	v1.User
	Sessions, SignOut bool
}

// loginPage serves the sign-in form. A user who is signed in already is sent to where
// the sign-in would have led.
func (h *Handler) loginPage(w http.ResponseWriter, r *http.Request) error {
	to := web.LocalPath(r.URL.Query().Get("return"))
	if err := h.ready(r.Context()); err != nil {
		return h.unavailable(w, r, err)
	}
	_, err := h.sessionGrant(r)
	switch {
	case err == nil:
		web.Redirect(w, to, http.StatusSeeOther)
		return nil
	case !errors.Is(err, auth.ErrNoSession):
		return h.unavailable(w, r, err)
	}
	status, nobody := http.StatusOK, ""
	if h.Identity != nil {
		status, nobody = http.StatusForbidden, whyNobody(err).In(web.Language(r))
	}
	return sendPage(w, r, status, h.assets.login, loginData{
		Return: to, Nobody: nobody, Passwords: !h.NoPasswords, Provider: h.Provider != nil, Start: providerStart + "?return=" + url.QueryEscape(to),
	})
}

// loginData is what the sign-in page shows.
type loginData struct {
	Return, Start       string
	Passwords, Provider bool
	Nobody              string // why the authentication before us lets nobody in
}

// whyNobody tells somebody whom another authentication has let pass why that is not enough.
func whyNobody(err error) web.Text {
	switch {
	case errors.Is(err, auth.ErrDisabled):
		return web.Text{En: "Your account is disabled. Ask an administrator.", Ko: "사용이 중지된 계정입니다. 관리자에게 문의하세요."}
	case errors.Is(err, auth.ErrUnknownUser):
		return web.Text{En: "You are signed in, but have no account here. Ask an administrator.", Ko: "로그인은 되었지만 여기에 계정이 없습니다. 관리자에게 문의하세요."}
	}
	return web.Text{
		En: "The sign-in of this site has not said who you are. An administrator can find out why: it must run before CodeHub, on this address.",
		Ko: "이 사이트의 로그인에서 사용자를 확인하지 못했습니다. 이 주소에서 CodeHub보다 먼저 로그인이 실행되어야 하니 관리자에게 문의하세요."}
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
