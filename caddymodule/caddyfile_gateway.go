package codehub

import (
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/codehub/gateway/caddymodule/internal/settings"
)

// parseGateway reads the directive `codehub`, which configures both the handler and its reverse_proxy. Syntax:
//
//	codehub [<matcher>] {
//		identity            <placeholder>
//		domain              <name>
//		main_host           <host>
//		workspace_url       host|path
//		wake_timeout        <duration>
//		page_wait           <duration>
//		page_status         502|503|200
//		strip_authorization
//		...
//	}
//
// Every other option is an option of reverse_proxy. Options that say where to proxy to are not allowed. With identity,
// an earlier handler must set the placeholder to the user. Without identity, the user is taken from CodeHub's own
// session.
func parseGateway(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	if !h.Next() {
		return nil, h.ArgErr()
	}
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	gateway := new(Gateway)
	proxy := new(reverseproxy.Handler)
	d := h.NewFromNextSegment()
	if err := gateway.takeOptions(d); err != nil {
		return nil, err
	}
	d.Reset()
	d.Next()
	if err := proxy.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	if err := proxy.FinalizeUnmarshalCaddyfile(h); err != nil {
		return nil, err
	}
	gateway.ProxyRaw = proxyJSON(proxy)
	return h.NewRoute(matcher, gateway), nil
}

// takeOptions reads the handler's own options and deletes them from d. The options of reverse_proxy stay in d.
func (g *Gateway) takeOptions(d *caddyfile.Dispenser) error {
	p := settings.NewOptionParser(d, "codehub", g.table())
	for d.Next() {
		if d.CountRemainingArgs() > 0 {
			return d.Err("codehub takes no arguments: it finds the workspaces itself")
		}
		for d.NextBlock(0) {
			if d.Nesting() != 1 {
				continue
			}
			name := d.Val()
			switch {
			case p.Knows(name):
				d.DeleteN(1 + p.Option(name))
			case name == "identity":
				args := d.RemainingArgs()
				if len(args) != 1 {
					p.Errorf("codehub identity takes one placeholder, for example {http.auth.user.id}")
				} else if g.Identity != "" {
					p.Errorf("codehub identity is given twice: remove one")
				} else {
					g.Identity = args[0]
				}
				d.DeleteN(1 + len(args))
			case name == "strip_authorization":
				args := d.RemainingArgs()
				if len(args) > 0 {
					p.Errorf("codehub strip_authorization takes no value: remove %q", args[0])
				}
				g.StripAuthorization = true
				d.DeleteN(1 + len(args))
			case name == "dynamic", name == "to":
				return d.Errf("codehub has no option %q: it finds the workspaces itself", name)
			}
		}
	}
	return p.Err()
}
