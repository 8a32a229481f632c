package codehub

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func init() {
	caddy.RegisterModule(new(Upstreams))
}

// upstreamVar is the request variable that holds the address of the workspace
// that the codehub handler has let the request through to.
const upstreamVar = "codehub.upstream"

// Upstreams is a source of upstreams for reverse_proxy: the address of the
// workspace that the `codehub` handler, which must stand in front of it, has
// found. It comes from memory. Requests that did not pass the handler have no
// upstream and get status 503.
type Upstreams struct{}

// CaddyModule returns the Caddy module information.
func (*Upstreams) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "http.reverse_proxy.upstreams.codehub",
		New: func() caddy.Module { return new(Upstreams) },
	}
}

// GetUpstreams returns the workspace's address. It never returns an error: that
// would make reverse_proxy fall back to static upstreams.
func (*Upstreams) GetUpstreams(r *http.Request) ([]*reverseproxy.Upstream, error) {
	address, _ := caddyhttp.GetVar(r.Context(), upstreamVar).(string)
	if address == "" {
		return nil, nil
	}
	// A fresh one each time: reverse_proxy fills it in.
	return []*reverseproxy.Upstream{{Dial: address}}, nil
}

// Interface guards.
var _ reverseproxy.UpstreamSource = (*Upstreams)(nil)
