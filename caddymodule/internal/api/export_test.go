package api

import (
	"net/http"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// RouteScopes returns the scope that an access token needs for each path and method.
func RouteScopes() map[string]auth.Scope {
	scopes := make(map[string]auth.Scope)
	for _, r := range apiRoutes() {
		scopes[r.pattern] = r.scope
	}
	return scopes
}

// LocalTransport is a transport of [Local] for any handler.
func LocalTransport(h http.HandlerFunc) http.RoundTripper { return localTransport{h} }
