package codehub

import (
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/codehub/gateway/coordinator/auth"
)

func init() {
	caddy.RegisterModule(new(SessionAuth))
}

// sessionCookie carries the main session. It is never sent on to a workspace.
const sessionCookie = "session"

// authErrorVar is the request variable that holds the error when it could not be
// found out whether the session is valid, because PostgreSQL is away: that is not
// the same as being signed out, and must not send people to the login page.
const authErrorVar = "codehub.auth_error"

// SessionAuth is the authentication provider of CodeHub's own sign-in: the cookie
// `session`. It sets `{http.auth.user.id}`, `{http.auth.user.username}` and
// `{http.auth.user.role}`. A session that was checked lately costs no I/O.
type SessionAuth struct {
	// Optional lets requests without a valid session pass, with an empty user id, so
	// that a later handler decides what they get. Default: false, they get 401.
	Optional bool `json:"optional,omitempty"`

	app *App
}

// CaddyModule returns the Caddy module information.
func (*SessionAuth) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.authentication.providers.codehub",
		New: func() caddy.Module { return new(SessionAuth) },
	}
}

// Provision finds the app.
func (s *SessionAuth) Provision(ctx caddy.Context) (err error) {
	s.app, err = appOf(ctx)
	return err
}

// Authenticate looks the session up.
func (s *SessionAuth) Authenticate(_ http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	user, err := sessionUser(s.app, r)
	switch {
	case err == nil:
		return identity(user), true, nil
	case errors.Is(err, auth.ErrNoSession):
		return identity(auth.User{}), s.Optional, nil
	case s.Optional:
		caddyhttp.SetVar(r.Context(), authErrorVar, err)
		return identity(auth.User{}), true, nil
	default:
		return caddyauth.User{}, false, err
	}
}

// identity is the user as Caddy's placeholders show it. Nobody has all of them,
// empty.
func identity(u auth.User) caddyauth.User {
	return caddyauth.User{ID: u.ID, Metadata: map[string]string{"username": u.Username, "role": u.Role}}
}

// sessionUser returns whose session the request carries.
func sessionUser(app *App, r *http.Request) (auth.User, error) {
	token := sessionToken(r)
	if token == "" {
		return auth.User{}, auth.ErrNoSession
	}
	return app.Auth().Session(r.Context(), token)
}

func sessionToken(r *http.Request) string {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return ""
	}
	return c.Value
}

// setSession gives the browser the cookie; an empty token takes it away. The
// cookie is bound to this host alone, so that workspaces on hosts of their own
// never see it.
func setSession(w http.ResponseWriter, r *http.Request, token string, maxAge int) {
	if token == "" {
		maxAge = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: maxAge,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: scheme(r) == "https",
	})
}

// scheme is how the browser reached us, also behind a proxy that is trusted.
func scheme(r *http.Request) string {
	if r.TLS != nil {
		return "https"
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted &&
		r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https"
	}
	return "http"
}

// Interface guards.
var (
	_ caddy.Provisioner       = (*SessionAuth)(nil)
	_ caddyauth.Authenticator = (*SessionAuth)(nil)
)
