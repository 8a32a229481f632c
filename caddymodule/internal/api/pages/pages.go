// Package pages shows the pages of the main site that are not a workspace's: the dashboard and the
// sign-in. It also shows the pages that replace them while the user cannot be determined, or at a host where people do
// not sign in.
//
// It owns these pages, their scripts, styles and pictures, and the policy under which browsers run
// them. It must not know when a page is shown, nor look at a session. The caller passes in a page's
// data, and its script gets the rest from the REST API.
package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi"
	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/words"
)

// contentPolicy restricts pages to our scripts and styles: only boot may be inline, other hosts are
// excluded, and no site may frame them.
var contentPolicy = "default-src 'none'; script-src 'self' 'sha256-" + bootSum() + "'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// bootSum identifies the inline script in the policy.
func bootSum() string {
	sum := sha256.Sum256([]byte(boot))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// speaker gives the templates their texts in the language of the request.
type speaker struct {
	Lang  string
	Brand *brand.Brand
}

func speakerOf(r *http.Request) speaker { return speaker{site.Language(r), brand.Of(r)} }

// Say returns the text with that key.
func (s speaker) Say(key string) (string, error) {
	if !words.Has(key) {
		return "", fmt.Errorf("no text %q", key)
	}
	return words.Of(key, words.Values{"Brand": s.Brand.Name}).In(s.Lang), nil
}

// SayMain returns a text that contains the main site's address: the parts before and after it.
func (s speaker) SayMain(key string) []string {
	const mark = "\x00"
	return strings.Split(words.Of(key, words.Values{"Main": mark}).In(s.Lang), mark)
}

// Dashboard holds the data in the dashboard's page itself.
type Dashboard struct {
	// ID, Username and Role are the user's.
	ID, Username, Role string
	// Sessions, Passwords and SignOut tell whether the page offers a list of the user's sessions, a change of the
	// password, and a sign-out.
	Sessions, Passwords, SignOut bool
}

// ShowDashboard shows the list of workspaces.
func (p *Pages) ShowDashboard(w http.ResponseWriter, r *http.Request, d Dashboard) error {
	return send(w, r, http.StatusOK, p.dashboard, struct {
		Dashboard
		speaker
		MinPassword int
	}{d, speakerOf(r), auth.MinPassword})
}

// Login holds the data of the sign-in page.
type Login struct {
	// Return is the destination after the sign-in, and Start the address that begins the sign-in at the identity
	// provider.
	Return, Start string
	// Passwords and Provider are the offered ways to sign in.
	Passwords, Provider bool
	// Refusal is set if another authentication accepted the user, but the user may not use CodeHub. It is the reason,
	// an error of [auth.Auth.Named].
	Refusal error
}

// ShowLogin shows the sign-in page, with status 403 if another authentication has accepted a user who
// may not use CodeHub.
func (p *Pages) ShowLogin(w http.ResponseWriter, r *http.Request, l Login) error {
	status, reason, s := http.StatusOK, "", speakerOf(r)
	if l.Refusal != nil {
		status, reason = http.StatusForbidden, whyRefused(l.Refusal).In(s.Lang)
	}
	return send(w, r, status, p.login, struct {
		Login
		speaker
		Reason string
	}{l, s, reason})
}

// whyRefused explains why a user whom another authentication accepted may not use CodeHub.
func whyRefused(err error) words.Text {
	switch {
	case errors.Is(err, auth.ErrDisabled):
		return words.Of("sign_in.disabled", nil)
	case errors.Is(err, auth.ErrUnknownUser):
		return words.Of("sign_in.no_account", nil)
	case errors.Is(err, auth.ErrRefusedName):
		return words.Of("sign_in.refused_name", nil)
	}
	return words.Of("sign_in.no_user", nil)
}

// ShowUnavailable shows that the user cannot be determined at the moment. The browser retries by
// itself.
func (p *Pages) ShowUnavailable(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Retry-After", problem.RetryUnavailable)
	w.Header().Set("Refresh", problem.RetryUnavailable)
	return send(w, r, http.StatusServiceUnavailable, p.unavailable, speakerOf(r))
}

// ShowMisdirected tells people to sign in at the main origin.
func (p *Pages) ShowMisdirected(w http.ResponseWriter, r *http.Request, main string) error {
	return send(w, r, http.StatusMisdirectedRequest, p.misdirected, struct {
		speaker
		Main string
	}{speakerOf(r), main})
}

// ShowAPI shows the description of the REST API of the main site at origin.
func (p *Pages) ShowAPI(w http.ResponseWriter, r *http.Request, origin string) error {
	document, err := openapi.Parse()
	if err != nil {
		return err
	}
	return send(w, r, http.StatusOK, p.api, struct {
		speaker
		Document *openapi.Document
		Origin   string
	}{speakerOf(r), document, origin})
}

// send sends a page that no other page may frame or get a reference to.
func send(w http.ResponseWriter, r *http.Request, status int, t *template.Template, data any) error {
	w.Header().Set("X-Frame-Options", "DENY")
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	if err := web.SendPage(w, r, status, contentPolicy, t, data); err != nil {
		p := problem.Internal.With("problem.page_not_shown", nil)
		p.Cause = err
		return p
	}
	return nil
}
