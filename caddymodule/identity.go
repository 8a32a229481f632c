package codehub

import (
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/oidc"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// namedGrant returns a function that makes the grant for the user whom Caddy's authentication names. It returns nil if
// people sign in here.
func namedGrant(i settings.ResolvedIdentity, a *auth.Auth) func(*http.Request) (auth.Grant, error) {
	if i.Placeholder == "" {
		return nil
	}
	return func(r *http.Request) (auth.Grant, error) {
		repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
		name, _ := repl.GetString(i.Placeholder)
		return a.Named(audit.WithLater(r.Context(), func() audit.Actor { return auditClient(r) }), name, i.CreateUsers)
	}
}

// carriesAuthorization reports whether people may sign in with the Authorization header. If so, workspaces must not see
// that header.
func carriesAuthorization(i settings.ResolvedIdentity) bool {
	return strings.HasPrefix(i.Placeholder, "http.auth.user.")
}

// oidcHandler returns the handler for sign-ins through the OpenID Connect provider, or nil if there is no provider.
func (a *App) oidcHandler(log *zap.Logger) *oidc.Handler {
	if a.oidc.Issuer == "" {
		return nil
	}
	return oidc.New(oidc.Options{Settings: a.oidc, Auth: a.Coordinator().Auth, ClientAddress: clientAddress, Log: log})
}

// auditClient returns the origin of a request for the audit.
func auditClient(r *http.Request) audit.Actor {
	return audit.Actor{Kind: audit.Anonymous, Address: clientAddress(r), Request: requestID(r)}
}

// clientAddress returns the address of the client according to the trusted proxies.
func clientAddress(r *http.Request) string {
	address, _ := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string)
	return address
}
