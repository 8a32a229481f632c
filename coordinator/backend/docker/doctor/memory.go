package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/reclaim"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// errRemote says that the engine is on a host whose kernel this process does not see.
var errRemote = errors.New("the engine is not reached through a Unix socket of this host")

// Reclaims returns why the memory of frozen containers stays in use, or nil. The second error says that
// nothing is known.
func (d *Doctor) Reclaims(ctx context.Context) (why, err error) {
	if !strings.HasPrefix(d.api.DaemonHost(), "unix://") {
		return errRemote, nil
	}
	if why := reclaim.This.Able(); why != nil {
		return why, nil
	}
	const doing = "listing the running workspaces"
	list, err := d.api.ContainerList(ctx, container.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", spec.LabelInstallation+"="+d.opts.Installation), filters.Arg("status", "running"))})
	if err != nil {
		return nil, engine.Wrap(doing, err)
	}
	for _, one := range list {
		c, err := d.api.Inspect(ctx, one.ID)
		if err != nil {
			return nil, err
		}
		if c != nil && c.State != nil && c.State.Running {
			return reclaim.This.May(c.ID, c.State.Pid), nil
		}
	}
	return nil, nil
}

func (c checks) checkMemory(ctx context.Context) ([]check.Finding, error) {
	why, err := c.Reclaims(ctx)
	if err != nil {
		return nil, err
	}
	return []check.Finding{memory(why)}, nil
}

// memory says what becomes of the memory of a workspace that dozes. That it stays in use is no fault.
func memory(why error) check.Finding {
	if why != nil {
		return check.OK("dozing workspaces keep their memory, as far as this command can see: %v", why)
	}
	return check.OK("the memory of dozing workspaces goes to compressed swap, if the gateway has the rights of this command")
}
