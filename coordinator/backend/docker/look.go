package docker

import (
	"context"
	"io"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/internal/glance"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// insideLimit bounds the time to look into a container.
const insideLimit = 5 * time.Second

// Look implements [backend.Core].
func (d *Docker) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	c, err := d.awake(ctx, id)
	if err != nil {
		return work.Sample{}, err
	}
	s, err := d.sampler.Sample(ctx, c)
	if err == nil && s.LookInside() {
		s.Inside = d.lookInside(ctx, id, c.ID)
	}
	return s, d.orFrozen(ctx, id, err)
}

// lookInside collects [work.Inside] with a command in the container. It returns nil if the command does not run there.
func (d *Docker) lookInside(ctx context.Context, id workspace.ID, container string) *work.Inside {
	ctx, cancel := context.WithTimeout(ctx, insideLimit)
	defer cancel()
	out := backend.Limited{Max: glance.MaxOutput}
	command := []string{"sh", "-c", work.InsideScript}
	if _, err := d.exec(ctx, id, container, "looking into container "+id.ContainerName(), backend.Command{Words: command}, &out, io.Discard); err != nil {
		return nil
	}
	return work.ParseInside(out.Bytes())
}
