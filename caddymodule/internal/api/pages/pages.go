// Package pages shows the pages of the main site that are not a workspace's: the dashboard, the
// sign-in, and what is shown in their place while nobody can be told from anybody, or at a
// host where nobody signs in.
//
// It owns these pages, their scripts, styles and pictures, and the policy under which browsers
// run them. It must not know when a page is shown, nor look at a session: what a page says
// comes in, and the rest its script asks the REST API.
package pages

import (
	"errors"
	"html/template"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
)

// contentPolicy lets pages use our scripts and styles and nothing else: nothing
// inline, nothing from other hosts, and no frame around them.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Dashboard is what the page of the dashboard shows by itself.
type Dashboard struct {
	// ID, Username and Role are those of the user.
	ID, Username, Role string
	// Sessions and SignOut say whether the user's sessions, and signing out, are offered.
	Sessions, SignOut bool
}

// ShowDashboard shows the list of workspaces.
func (p *Pages) ShowDashboard(w http.ResponseWriter, r *http.Request, d Dashboard) error {
	return send(w, r, http.StatusOK, p.dashboard, d)
}

// Login is what the sign-in page shows.
type Login struct {
	// Return is where the sign-in leads, and Start where it begins at the identity provider.
	Return, Start string
	// Passwords and Provider say which ways to sign in are offered.
	Passwords, Provider bool
	// Refusal is why the authentication before us lets nobody in; nil if there is none. It is one
	// of the errors of [auth.Auth.Named].
	Refusal error
}

// ShowLogin shows the sign-in page, with the status 403 if somebody else has let the user in
// and that is not enough.
func (p *Pages) ShowLogin(w http.ResponseWriter, r *http.Request, l Login) error {
	status, nobody := http.StatusOK, ""
	if l.Refusal != nil {
		status, nobody = http.StatusForbidden, whyNobody(l.Refusal).In(web.Language(r))
	}
	return send(w, r, status, p.login, struct {
		Login
		Nobody string
	}{l, nobody})
}

// whyNobody tells somebody whom another authentication has let pass why that is not enough.
func whyNobody(err error) explain.Text {
	switch {
	case errors.Is(err, auth.ErrDisabled):
		return explain.Text{En: "Your account is disabled. Ask an administrator.", Ko: "사용이 중지된 계정입니다. 관리자에게 문의하세요."}
	case errors.Is(err, auth.ErrUnknownUser):
		return explain.Text{En: "You are signed in, but have no account here. Ask an administrator.", Ko: "로그인은 되었지만 여기에 계정이 없습니다. 관리자에게 문의하세요."}
	case errors.Is(err, auth.ErrRefusedName):
		return explain.Text{
			En: "You are signed in, but nobody can have an account under your name here: it has spaces, " +
				"or mixes letters of several scripts. Ask an administrator.",
			Ko: "로그인은 되었지만 공백이 있거나 여러 문자 체계가 섞인 이름으로는 " +
				"여기에 계정을 만들 수 없습니다. 관리자에게 문의하세요."}
	}
	return explain.Text{
		En: "The sign-in of this site has not said who you are. An administrator can find out why: it must run before CodeHub, on this address.",
		Ko: "이 사이트의 로그인에서 사용자를 확인하지 못했습니다. 이 주소에서 CodeHub보다 먼저 로그인이 실행되어야 하니 관리자에게 문의하세요."}
}

// ShowUnavailable shows that it cannot be found out at the moment who the user is. The browser
// asks again by itself.
func (p *Pages) ShowUnavailable(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Retry-After", problem.RetryUnavailable)
	return send(w, r, http.StatusServiceUnavailable, p.unavailable, web.Language(r))
}

// ShowMisdirected tells people to sign in at the main origin.
func (p *Pages) ShowMisdirected(w http.ResponseWriter, r *http.Request, main string) error {
	return send(w, r, http.StatusMisdirectedRequest, p.misdirected, struct{ Lang, Main string }{web.Language(r), main})
}

// send sends a page that no other page may frame or get a handle of.
func send(w http.ResponseWriter, r *http.Request, status int, t *template.Template, data any) error {
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := web.SendPage(w, r, status, contentPolicy, t, data); err != nil {
		p := problem.Internal.With("The page cannot be shown.")
		p.Cause = err
		return p
	}
	return nil
}
