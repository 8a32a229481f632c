package docker

import (
	"context"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Look implements [backend.Core].
func (d *Docker) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	c, err := d.running(ctx, id)
	if err != nil {
		return work.Sample{}, err
	}
	return d.sampler.Sample(ctx, c)
}
