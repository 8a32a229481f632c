package codehub

import (
	"errors"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func init() {
	httpcaddyfile.RegisterGlobalOption("codehub", parseApp)
	httpcaddyfile.RegisterHandlerDirective("codehub_api", parseAPI)
	// What is not ours goes on to the handlers behind; requests for workspaces pass
	// whichever of the two directives comes first.
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

// UnmarshalCaddyfile reads the global option. Values may hold placeholders, which
// are replaced when Caddy starts; literals are checked here, where the line is
// known. Syntax:
//
//	codehub {
//		database                <dsn>
//		redis                   <url>
//		installation            <name>
//		admin_password          <password>
//		session_ttl             <duration>
//		activity_flush_interval <duration>
//		sse_heartbeat_interval  <duration>
//		s3 {
//			endpoint     <url>
//			region       <name>
//			bucket       <name>
//			prefix       <text>
//			path_style   true|false
//			access_key   <text>
//			secret_key   <text>
//			job_endpoint <url>
//		}
//		docker {
//			host            <address>
//			network         <name>
//			job_network     <name>
//			publish         none|loopback
//			workspace_image <reference>
//			workspace_port  <port>
//			job_image       <reference>
//			memory          <size>
//			cpus            <number>
//			pids            <number>
//		}
//		coordinator {
//			node_id         <name>
//			lock_id         <number>
//			retry_interval  <duration>
//			idle_interval   <duration>
//			active_interval <duration>
//			ttl_interval    <duration>
//			gc_interval     <duration>
//			gc_delay        <duration>
//			max_concurrent  <number>
//		}
//		ttl {
//			standby <duration>
//			archive <duration>
//		}
//		limits {
//			max_running_per_user <number>
//			max_running_global   <number>
//		}
//		redis_channels {
//			sse  <prefix>
//			wake <prefix>
//		}
//		timeouts {
//			create_empty_archive <duration>
//			provisioning         <duration>
//			restoring            <duration>
//			starting             <duration>
//			stopping             <duration>
//			archiving            <duration>
//			deleting             <duration>
//		}
//	}
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the option's name
	if d.NextArg() {
		return d.Errf("codehub takes no argument, only a block: remove %q", d.Val())
	}
	p := newOptionParser(d, "codehub")
	for _, s := range a.table(new(resolved)) {
		p.add(s)
	}
	return p.block("")
}

// optionParser reads blocks of options with one value each, and collects what is
// wrong instead of stopping at the first error.
type optionParser struct {
	d        *caddyfile.Dispenser
	what     string
	settings map[string]setting
	sections map[string][]string // options by section, in order; "" is the top
	seen     map[string]bool
	errs     []error
}

func newOptionParser(d *caddyfile.Dispenser, what string) *optionParser {
	return &optionParser{
		d: d, what: what,
		settings: make(map[string]setting),
		sections: make(map[string][]string),
		seen:     make(map[string]bool),
	}
}

func (p *optionParser) add(s setting) {
	p.settings[s.name] = s
	section, option, ok := strings.Cut(s.name, " ")
	if !ok {
		section, option = "", section
	} else if len(p.sections[section]) == 0 {
		p.sections[""] = append(p.sections[""], section)
	}
	p.sections[section] = append(p.sections[section], option)
}

// block reads the block that follows, for one section.
func (p *optionParser) block(section string) error {
	d := p.d
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		name := strings.TrimSpace(section + " " + d.Val())
		s, isOption := p.settings[name]
		_, isSection := p.sections[name]
		switch {
		case isOption:
			p.option(s)
		case isSection && section == "" && name != "":
			if d.NextArg() {
				p.errs = append(p.errs, d.Errf("%s %s takes no argument, only a block: remove %q", p.what, name, d.Val()))
				d.RemainingArgs()
			}
			_ = p.block(name) // reported by the outermost call
		default:
			p.errs = append(p.errs, d.Errf("%s has no option %q: write one of %s",
				strings.TrimSpace(p.what+" "+section), d.Val(), strings.Join(p.sections[section], ", ")))
			d.RemainingArgs()
			for inner := d.Nesting(); d.NextBlock(inner); { // skip what belongs to it
			}
		}
	}
	return errors.Join(p.errs...)
}

// option reads one value.
func (p *optionParser) option(s setting) {
	d := p.d
	args := d.RemainingArgs()
	switch {
	case len(args) != 1:
		p.errs = append(p.errs, d.Errf("%s %s takes exactly one value, not %d", p.what, s.name, len(args)))
		return
	case p.seen[s.name]:
		p.errs = append(p.errs, d.Errf("%s %s is given twice: remove one", p.what, s.name))
		return
	}
	p.seen[s.name] = true
	*s.text = Value(args[0])
	if s.text.literal() && args[0] != "" {
		if err := s.form(args[0]); err != nil {
			p.errs = append(p.errs, d.Errf("%s %s: %w", p.what, s.name, err))
		}
	}
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
//		workspace_url path|host
//	}
func (a *API) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.Errf("codehub_api takes no argument, only a block: remove %q", d.Val())
	}
	p := newOptionParser(d, "codehub_api")
	for _, s := range a.table() {
		p.add(s)
	}
	return p.block("")
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
