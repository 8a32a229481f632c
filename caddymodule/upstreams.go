package codehub

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/coordinator/dataplane/route"
)

func init() {
	caddy.RegisterModule(new(Upstreams))
}

// upstreamVar is the request variable in which the codehub handler passes the workspace's state, and thus its address,
// to its proxy.
const upstreamVar = "codehub.upstream"

// Upstreams is a source of upstreams for reverse_proxy: the address that the `codehub`
// handler in front of it has found in memory. Requests that have not passed that
// handler have no upstream and get status 503.
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
	st, _ := caddyhttp.GetVar(r.Context(), upstreamVar).(*route.State)
	if st == nil {
		return nil, nil
	}
	// The upstream is new each time, because reverse_proxy writes into it. It and the list share one allocation.
	u := &struct {
		upstream reverseproxy.Upstream
		list     [1]*reverseproxy.Upstream
	}{upstream: reverseproxy.Upstream{Dial: st.Route.Endpoint}}
	u.list[0] = &u.upstream
	return u.list[:], nil
}

// Interface guards.
var _ reverseproxy.UpstreamSource = (*Upstreams)(nil)
