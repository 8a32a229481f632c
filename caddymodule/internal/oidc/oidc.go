// Package oidc signs users in through an OpenID Connect provider (SPEC 8). It uses the
// authorization code with PKCE, state and nonce, which a short-lived cookie binds to the browser.
//
// It owns the exchange with the provider and the pages that say why a sign-in failed. Who the user is here, and the
// session, belong to package auth. It is plain net/http and must not import Caddy.
package oidc

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"go.uber.org/zap"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/setting"
)

// The paths that the handler serves, on the main site.
const (
	path         = "/auth/oidc/"
	startPath    = path + "start"
	callbackPath = path + "callback"
	logoutPath   = path + "backchannel-logout"
)

// requestTimeout bounds the calls of the provider for one request.
const requestTimeout = 10 * time.Second

// Settings are what an administrator says about the provider.
type Settings struct {
	// Issuer is the provider's address; empty if there is no provider.
	Issuer string
	// ClientID and ClientSecret are this installation's, as registered there.
	ClientID, ClientSecret string
	// Scopes are requested besides openid.
	Scopes []string
	// UsernameClaim names a new user, GroupsClaim holds the groups.
	UsernameClaim, GroupsClaim string
	// AdminGroups are the groups of administrators; if there are none, roles are assigned here. AllowedGroups are the
	// groups that may sign in; if there are none, all users may.
	AdminGroups, AllowedGroups []string
	// CreateUsers creates users on first sight.
	CreateUsers bool
}

// Validate reports what is missing.
func (s Settings) Validate() error {
	if s.Issuer == "" {
		return nil
	}
	if u, err := url.Parse(s.Issuer); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return setting.Errorf("oidc issuer", "%q is not an address: write for example https://id.example.com", s.Issuer)
	}
	if s.ClientID == "" {
		return setting.Errorf("oidc client_id", "missing: write the id under which the provider knows this installation")
	}
	return nil
}

// Options configure a [Handler]. All are required.
type Options struct {
	Settings
	Auth *auth.Auth
	// ClientAddress returns the IP address that a request comes from.
	ClientAddress func(*http.Request) string
	Log           *zap.Logger
}

// Handler serves the paths below /auth/oidc/.
type Handler struct {
	Options
	flight   singleflight.Group
	provider atomic.Pointer[provider] // nil until it has answered
}

// provider is what the provider says about itself.
type provider struct {
	*oidc.Provider
	endSession string // empty: it has no logout
}

// New returns a handler. It performs no I/O: the provider is asked at the first sign-in,
// and again until it has answered.
func New(o Options) *Handler { return &Handler{Options: o} }

// find returns the provider, asking it if that has not succeeded before.
func (h *Handler) find(ctx context.Context) (*provider, error) {
	if p := h.provider.Load(); p != nil {
		return p, nil
	}
	// Concurrent callers wait for the same answer. The client has a limit of its own.
	answer := h.flight.DoChan("", func() (any, error) { return h.discover(context.WithoutCancel(ctx)) })
	select {
	case a := <-answer:
		p, _ := a.Val.(*provider)
		return p, a.Err
	case <-ctx.Done():
		return nil, fmt.Errorf("asking the identity provider what it offers: %w", ctx.Err())
	}
}

// discover reads the provider's metadata.
func (h *Handler) discover(ctx context.Context) (*provider, error) {
	found, err := oidc.NewProvider(ctx, h.Issuer)
	if err != nil {
		return nil, fmt.Errorf("asking the identity provider what it offers: %w", err)
	}
	p := &provider{Provider: found}
	var claims struct {
		EndSession string `json:"end_session_endpoint"`
	}
	if err := found.Claims(&claims); err != nil {
		return nil, fmt.Errorf("reading what the identity provider offers: %w", err)
	}
	p.endSession = claims.EndSession
	h.provider.Store(p)
	return p, nil
}

// config is the OAuth client. The browser always comes back to the main site's own address, because
// the provider knows that one.
func (h *Handler) config(at *site.Address, p *provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID: h.ClientID, ClientSecret: h.ClientSecret, Endpoint: p.Endpoint(),
		RedirectURL: at.MainOrigin() + callbackPath, Scopes: append([]string{oidc.ScopeOpenID}, h.Scopes...),
	}
}

// Serve serves the sign-in; at is the address of r. Errors are pages. The caller MUST refuse requests from other
// origins, and requests to hosts other than the main site's, before it calls Serve.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, at *site.Address) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(r.Context(), client), requestTimeout)
	defer cancel()
	r = r.WithContext(ctx)
	var err error
	switch {
	case r.URL.Path == startPath && r.Method == http.MethodGet:
		err = h.start(w, r, at)
	case r.URL.Path == callbackPath && r.Method == http.MethodGet:
		err = h.callback(w, r, at)
	case r.URL.Path == logoutPath && r.Method == http.MethodPost:
		h.backchannel(w, r)
	default:
		http.NotFound(w, r)
	}
	if err != nil {
		h.fail(w, r, err)
	}
}

// client asks the provider. It follows at most a few redirects, and uses no proxy that depends on the request.
var client = &http.Client{Timeout: requestTimeout}

// start sends the browser to the provider.
func (h *Handler) start(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	p, err := h.find(r.Context())
	if err != nil {
		return errors.Join(errProvider, err)
	}
	a := newAttempt(r.URL.Query().Get("return"))
	h.remember(w, at, a)
	address := h.config(at, p).AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier))
	site.Redirect(w, address, http.StatusSeeOther)
	return nil
}

// callback is where the provider sends the browser back to.
func (h *Handler) callback(w http.ResponseWriter, r *http.Request, at *site.Address) error {
	a, ok := h.take(w, r, at)
	q := r.URL.Query()
	switch {
	case !ok || q.Get("state") == "" || q.Get("state") != a.State:
		return errAttempt
	case q.Get("error") != "":
		return errors.Join(errDenied,
			fmt.Errorf("the provider says %q: %q", q.Get("error"), q.Get("error_description")))
	}
	p, err := h.find(r.Context())
	if err != nil {
		return errors.Join(errProvider, err)
	}
	token, err := h.config(at, p).Exchange(r.Context(), q.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return errors.Join(errProvider, fmt.Errorf("exchanging the code: %w", err))
	}
	c, err := h.claims(r.Context(), p, token, a.Nonce)
	if err != nil {
		return errors.Join(errProvider, err)
	}
	e, err := h.external(c)
	if err != nil {
		return err
	}
	session, user, err := h.Auth.SignInExternal(r.Context(), e,
		auth.Client{Address: h.ClientAddress(r), Agent: r.UserAgent()})
	if err != nil {
		return err
	}
	// A sign-in replaces the session that the browser had.
	if old, err := at.Token(r.Header, site.SessionCookie); err == nil && old != "" {
		if err := h.Auth.Logout(r.Context(), old); err != nil {
			h.Log.Warn("the session before a sign-in through the identity provider could not be ended", zap.Error(err))
		}
	}
	h.Log.Info("signed in through the identity provider", zap.String(logkey.User, user.ID))
	at.SetSession(w, site.SessionCookie, session, int(h.Auth.SessionTTL()/time.Second))
	site.Redirect(w, a.Return, http.StatusSeeOther)
	return nil
}

// LogoutURL returns the address where a browser that has signed out here also signs out at the provider; empty if the
// provider offers none.
func (h *Handler) LogoutURL(at *site.Address, issuer string) string {
	p := h.provider.Load()
	if p == nil || p.endSession == "" || issuer != h.Issuer {
		return ""
	}
	separator := "?"
	if strings.Contains(p.endSession, "?") {
		separator = "&"
	}
	return p.endSession + separator + url.Values{
		"client_id":                {h.ClientID},
		"post_logout_redirect_uri": {at.MainOrigin() + "/login"},
	}.Encode()
}

// backchannel ends sessions because the provider says so (OpenID Connect Back-Channel
// Logout 1.0).
func (h *Handler) backchannel(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if err := h.endSessions(w, r); err != nil {
		h.Log.Warn("a logout of the identity provider was refused", zap.Error(err))
		http.Error(w, "the logout token is not valid", http.StatusBadRequest)
	}
}

// logoutEvent must be among the events of a logout token.
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

func (h *Handler) endSessions(w http.ResponseWriter, r *http.Request) error {
	p, err := h.find(r.Context())
	if err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	verifier := p.VerifierContext(r.Context(), &oidc.Config{ClientID: h.ClientID})
	token, err := verifier.Verify(r.Context(), r.PostFormValue("logout_token"))
	if err != nil {
		return fmt.Errorf("verifying a logout token: %w", err)
	}
	var c struct {
		Session string         `json:"sid"`
		Events  map[string]any `json:"events"`
	}
	if err := token.Claims(&c); err != nil {
		return fmt.Errorf("reading a logout token: %w", err)
	}
	if _, ok := c.Events[logoutEvent]; !ok || token.Nonce != "" || token.Subject == "" && c.Session == "" {
		return errors.New("it is not a logout token")
	}
	return h.Auth.EndExternal(r.Context(), token.Issuer, token.Subject, c.Session)
}
