package codehub

import (
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/internal/settings"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("codehub", parseApp)
	httpcaddyfile.RegisterDirective("codehub", parseGateway)
	httpcaddyfile.RegisterHandlerDirective("codehub_api", parseAPI)
	// The directive metrics comes before reverse_proxy. Requests for workspaces are handled first, because on a
	// workspace's own host all paths belong to the workspace, even /api and /. Both directives pass other requests on
	// to later handlers.
	httpcaddyfile.RegisterDirectiveOrder("codehub", httpcaddyfile.Before, "metrics")
	httpcaddyfile.RegisterDirectiveOrder("codehub_api", httpcaddyfile.Before, "reverse_proxy")
}

// parseApp reads the global option `codehub`.
func parseApp(d *caddyfile.Dispenser, existing any) (any, error) {
	if existing != nil {
		d.Next()
		return nil, d.Err("the global option codehub is given twice: merge both blocks")
	}
	app := new(App)
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "codehub", Value: caddyconfig.JSON(app, nil)}, nil
}

// parseAPI reads the directive `codehub_api`.
func parseAPI(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	api := new(API)
	return api, api.UnmarshalCaddyfile(h.Dispenser)
}

// UnmarshalCaddyfile reads the directive. Syntax:
//
//	codehub_api [<matcher>] {
//		domain        <name>
//		main_host     <host>
//		workspace_url host|path
//	}
func (a *API) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	return settings.NewOptionParser(d, "codehub_api", a.table()).Read()
}

// UnmarshalCaddyfile reads the provider inside an authentication block. Syntax:
//
//	codehub {
//		optional
//	}
func (s *SessionAuth) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the provider's name
	for d.NextBlock(0) {
		if d.Val() != "optional" {
			return d.Errf("the codehub authentication provider has no option %q: write optional", d.Val())
		}
		if d.NextArg() {
			return d.Errf("optional takes no value: remove %q", d.Val())
		}
		s.Optional = true
	}
	return nil
}

// Interface guards.
var (
	_ caddyfile.Unmarshaler = (*App)(nil)
	_ caddyfile.Unmarshaler = (*API)(nil)
	_ caddyfile.Unmarshaler = (*SessionAuth)(nil)
)
