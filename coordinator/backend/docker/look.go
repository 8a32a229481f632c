package docker

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Look implements [backend.Core].
func (d *Docker) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	if err := backend.CheckID(id); err != nil {
		return work.Sample{}, err
	}
	name := id.ContainerName()
	c, err := d.inspect(ctx, name)
	if err != nil {
		return work.Sample{}, err
	}
	if c == nil || !d.opts.Owns(c.Config.Labels, id, spec.KindWorkspace) || c.State == nil || !c.State.Running {
		return work.Sample{}, fmt.Errorf("container %s: %w", name, backend.ErrNotFound)
	}
	return d.sampler.Sample(ctx, c)
}
