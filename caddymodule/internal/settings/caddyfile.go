package settings

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/codehub/gateway/coordinator"
)

// UnmarshalCaddyfile reads the global option. Values may hold placeholders, which are replaced when
// Caddy starts; literals are checked here, where the line is known. A configuration has either
// docker or backend, never both backends. docs/settings.md lists the options.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	p := NewOptionParser(d, "codehub", a.Table(new(Resolved)))
	p.removed = removed
	p.custom("images", a.readImages)
	p.custom("backend", a.readBackend, coordinator.BackendKubernetes)
	if err := p.Read(); err != nil {
		return err
	}
	for _, w := range p.warnings {
		caddy.Log().Named("codehub").Warn(w)
	}
	if err := a.checkBackend(); err != nil {
		return d.Errf("codehub: %w", err)
	}
	return nil
}

// readBackend reads the option `backend`, which is the current token: the name of the backend and
// the block of its settings. Docker's block may also stand alone, as `docker`.
func (a *App) readBackend(p *OptionParser) {
	args := p.d.RemainingArgs()
	switch {
	case len(args) != 1 || args[0] != coordinator.BackendDocker && args[0] != coordinator.BackendKubernetes:
		p.Errorf("%s backend takes one name, %s or %s, and a block",
			p.what, coordinator.BackendDocker, coordinator.BackendKubernetes)
		p.skip()
	case a.Backend != "":
		p.Errorf("%s backend is given twice: an installation has one", p.what)
		p.skip()
	default:
		a.Backend = args[0]
		p.block(a.Backend)
	}
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*App)(nil)
