package codehub

import (
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/caddyauth"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

func init() {
	httpcaddyfile.RegisterDirective("codehub", parseGateway)
	// It must come before codehub_api: on the host of a workspace all paths are the
	// workspace's, /api and / too.
	httpcaddyfile.RegisterDirectiveOrder("codehub", httpcaddyfile.Before, "metrics")
}

// streamCloseDelay is how long a WebSocket lives on after a reload of the
// configuration. By itself reverse_proxy closes them at once.
const streamCloseDelay = 24 * time.Hour

// parseGateway reads the directive `codehub`, which puts together the handler,
// the sign-in in front of it and the reverse_proxy behind it. Syntax:
//
//	codehub [<matcher>] {
//		identity            <placeholder>
//		domain              <domain>
//		main_host           <host>
//		wake_timeout        <duration>
//		max_held            <number>
//		page_wait           <duration>
//		strip_authorization
//		...
//	}
//
// Every other option is one of reverse_proxy, except those that say where to
// proxy to. Giving identity leaves out the authentication by CodeHub's own
// session: another handler in front of this one must set the placeholder.
func parseGateway(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	if !h.Next() {
		return nil, h.ArgErr()
	}
	matcher, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	gateway := new(Gateway)
	proxy := &reverseproxy.Handler{
		DynamicUpstreamsRaw: caddyconfig.JSONModuleObject(new(Upstreams), "source", "codehub", nil),
	}

	// What is read here is taken out; reverse_proxy reads the rest.
	d := h.NewFromNextSegment()
	for d.Next() {
		if d.CountRemainingArgs() > 0 {
			return nil, d.Err("codehub takes no arguments: it finds the workspaces by itself")
		}
		for d.NextBlock(0) {
			if d.Nesting() != 1 {
				continue
			}
			name := d.Val()
			switch name {
			case "identity":
				if gateway.Identity != "" {
					return nil, d.Err("identity is given twice")
				}
				if !d.AllArgs(&gateway.Identity) {
					return nil, d.Err("identity takes one placeholder, for example {http.auth.user.id}")
				}
				d.DeleteN(2)
			case "strip_authorization":
				if d.CountRemainingArgs() > 0 {
					return nil, d.ArgErr()
				}
				gateway.StripAuthorization = true
				d.Delete()
			case "dynamic", "to":
				return nil, d.Errf("%s cannot be given: codehub finds the workspaces by itself", name)
			default:
				if err := readSetting(d, gateway, name); err != nil {
					return nil, err
				}
			}
		}
	}
	d.Reset()
	d.Next()
	if err := proxy.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	if err := proxy.FinalizeUnmarshalCaddyfile(h); err != nil {
		return nil, err
	}
	if proxy.StreamCloseDelay == 0 {
		proxy.StreamCloseDelay = caddy.Duration(streamCloseDelay)
	}
	return gatewayRoutes(h, matcher, gateway, proxy), nil
}

// readSetting reads a setting of the handler, and takes it out. It leaves options
// of reverse_proxy alone.
func readSetting(d *caddyfile.Dispenser, gateway *Gateway, name string) error {
	text := gateway.setting(name)
	if text == nil {
		return nil
	}
	if *text != "" {
		return d.Errf("%s is given twice", name)
	}
	var value string
	if !d.AllArgs(&value) || value == "" {
		return d.Errf("%s takes one value", name)
	}
	*text = Value(value)
	if text.literal() {
		var alone Gateway
		*alone.setting(name) = *text
		if err := alone.resolve(caddy.NewReplacer()); err != nil {
			return d.Err(err.Error())
		}
	}
	d.DeleteN(2)
	return nil
}

// setting returns the setting of that name, nil if there is none.
func (g *Gateway) setting(name string) *Value {
	switch name {
	case "domain":
		return &g.Domain
	case "main_host":
		return &g.MainHost
	case "wake_timeout":
		return &g.WakeTimeout
	case "max_held":
		return &g.MaxHeld
	case "page_wait":
		return &g.PageWait
	}
	return nil
}

// gatewayRoutes puts the handlers behind a matcher, so that other requests pass
// by untouched, and cost nothing.
func gatewayRoutes(h httpcaddyfile.Helper, user caddy.ModuleMap, gateway *Gateway, proxy *reverseproxy.Handler) []httpcaddyfile.ConfigValue {
	inner := caddyhttp.Route{MatcherSetsRaw: []caddy.ModuleMap{{
		"codehub_workspace": h.JSON(MatchWorkspace{Domain: gateway.Domain}),
	}}}
	if gateway.Identity == "" {
		inner.HandlersRaw = append(inner.HandlersRaw, caddyconfig.JSONModuleObject(caddyauth.Authentication{
			ProvidersRaw: caddy.ModuleMap{"codehub": h.JSON(SessionAuth{Optional: true})},
		}, "handler", "authentication", nil))
	}
	inner.HandlersRaw = append(inner.HandlersRaw,
		caddyconfig.JSONModuleObject(gateway, "handler", "codehub", nil),
		caddyconfig.JSONModuleObject(proxy, "handler", "reverse_proxy", nil))
	return h.NewRoute(user, &caddyhttp.Subroute{Routes: caddyhttp.RouteList{inner}})
}
