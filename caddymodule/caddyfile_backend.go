package codehub

import (
	"github.com/codehub/gateway/coordinator"
)

// readBackend reads the option `backend`, whose name is the present token: the name of the
// backend, and the block of its settings. The one of Docker may also stand alone, as `docker`.
func (a *App) readBackend(p *optionParser) {
	args := p.d.RemainingArgs()
	switch {
	case len(args) != 1 || args[0] != coordinator.BackendDocker && args[0] != coordinator.BackendKubernetes:
		p.errf("%s backend takes one name, %s or %s, and a block", p.what, coordinator.BackendDocker, coordinator.BackendKubernetes)
		p.skip()
	case a.Backend != "":
		p.errf("%s backend is given twice: an installation has one", p.what)
		p.skip()
	default:
		a.Backend = args[0]
		p.block(a.Backend)
	}
}
