package docker

import (
	"context"

	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Look implements [backend.Core].
func (d *Docker) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	c, err := d.awake(ctx, id)
	if err != nil {
		return work.Sample{}, err
	}
	s, err := d.sampler.Sample(ctx, c)
	return s, d.orFrozen(ctx, id, err)
}
