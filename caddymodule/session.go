package codehub

import (
	"context"
	"errors"
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"

	"github.com/codehub/gateway/caddymodule/internal/gateway"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/workspace"
)

func init() {
	caddy.RegisterModule(new(SessionAuth))
}

// authErrorVar is the request variable that holds the error when a session could not
// be checked because PostgreSQL is away. That is not the same as being signed out,
// and must not send people to the sign-in page.
const authErrorVar = "codehub.auth_error"

// grantVar is the request variable that holds the session's grant, so that requests that the gateway proxies for this
// user end with the session.
const grantVar = "codehub.grant"

// SessionAuth is the authentication provider of CodeHub's own sign-in: the cookie
// `session`. It sets `{http.auth.user.id}`, `{http.auth.user.username}` and
// `{http.auth.user.role}`. A session that was checked recently costs no I/O.
type SessionAuth struct {
	// Optional lets requests without a valid session pass, with an empty user id, so
	// that a later handler decides about them. Default: false, they get 401.
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

// Authenticate looks the session up. A personal access token counts for requests to workspaces only.
func (s *SessionAuth) Authenticate(w http.ResponseWriter, r *http.Request) (caddyauth.User, bool, error) {
	at := s.app.mainSite.Parse(r)
	grant, err := sessionGrant(s.app.Coordinator().Auth, r, &at)
	switch {
	case err == nil:
		caddyhttp.SetVar(r.Context(), grantVar, grant)
		return caddyUser(grant.User), true, nil
	case errors.Is(err, auth.ErrNoSession):
		if !s.Optional {
			w.Header().Set("WWW-Authenticate", site.BearerChallenge)
		}
		return caddyUser(auth.User{}), s.Optional, nil
	case s.Optional:
		caddyhttp.SetVar(r.Context(), authErrorVar, err)
		return caddyUser(auth.User{}), true, nil
	default:
		return caddyauth.User{}, false, err
	}
}

// caddyUser is the user as Caddy's placeholders show it. All of them are empty for a
// request without a session.
func caddyUser(u auth.User) caddyauth.User {
	return caddyauth.User{ID: u.ID, Metadata: map[string]string{"username": u.Username, "role": u.Role}}
}

// sessionGrant returns the grant of the session or of the access token that the request carries.
func sessionGrant(a *auth.Auth, r *http.Request, at *site.Address) (auth.Grant, error) {
	if secret, _, ok := site.AccessToken(r.Header, auth.TokenPrefix); ok {
		if !at.ForWorkspace() {
			return auth.Grant{}, auth.ErrBadToken // the API checks it itself
		}
		return a.Token(r.Context(), secret, auth.ScopeWorkspace, clientAddress(r))
	}
	token, err := at.Token(r.Header, site.SessionCookie)
	if err != nil || token == "" {
		return auth.Grant{}, auth.ErrNoSession // the handlers delete the cookies of those who have two
	}
	return a.Grant(r.Context(), token)
}

// sessionIdentity is [sessionGrant] for the gateway: it returns the zero Grant without a session.
func sessionIdentity(a *auth.Auth, r *http.Request, at *site.Address) (auth.Grant, error) {
	grant, err := sessionGrant(a, r, at)
	switch {
	case errors.Is(err, auth.ErrNoSession):
		return auth.Grant{}, nil
	case err != nil:
		return auth.Grant{}, err
	}
	offerUser(r.Context(), grant.User)
	return grant, nil
}

// tokenGrant is [auth.Auth.Token] for the gateway.
func tokenGrant(a *auth.Auth, r *http.Request, secret string) (auth.Grant, error) {
	grant, err := a.Token(r.Context(), secret, auth.ScopeWorkspace, clientAddress(r))
	if err == nil {
		offerUser(r.Context(), grant.User)
	}
	return grant, err
}

// offerUser offers the same placeholders as [SessionAuth]. They are built only if
// something, such as the access log, asks for them.
func offerUser(ctx context.Context, user auth.User) {
	repl, ok := ctx.Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return
	}
	repl.Map(func(key string) (any, bool) {
		switch key {
		case "http.auth.user.id":
			return user.ID, true
		case "http.auth.user.username":
			return user.Username, true
		case "http.auth.user.role":
			return user.Role, true
		}
		return nil, false
	})
}

// offeringSessions makes the placeholders of the user available on a workspace's own host, too. Otherwise a header
// whose value is such a placeholder would reach the workspace with the placeholder's text instead of the user's name.
type offeringSessions struct{ gateway.Sessions }

// WorkspaceSession implements [gateway.Sessions].
func (s offeringSessions) WorkspaceSession(ctx context.Context, token string, id workspace.ID) (auth.Grant, error) {
	grant, err := s.Sessions.WorkspaceSession(ctx, token, id)
	if err == nil {
		offerUser(ctx, grant.User)
	}
	return grant, err
}

// Interface guards.
var (
	_ caddy.Provisioner       = (*SessionAuth)(nil)
	_ caddyauth.Authenticator = (*SessionAuth)(nil)
	_ gateway.Sessions        = offeringSessions{}
)
