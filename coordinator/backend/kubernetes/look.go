package kubernetes

import (
	"context"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/sampler"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Look implements [backend.Core]. It runs one small command in the container.
func (b *Backend) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	p, err := b.workspacePod(ctx, id)
	if err != nil {
		return work.Sample{}, err
	}
	return sampler.Sample(ctx, b.api, p)
}

// Stats implements [backend.Core]. It runs one small command in the container.
func (b *Backend) Stats(ctx context.Context, id workspace.ID) (backend.Stats, error) {
	p, err := b.workspacePod(ctx, id)
	if err != nil {
		return backend.Stats{}, err
	}
	return sampler.Stats(ctx, b.api, p)
}
