package docker

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/backend/internal/glance"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Stats implements [backend.Core]. The engine counts processor time and memory. One small command in the container
// counts processes and ports; if the command does not run, they are unknown. While the container is frozen, the engine
// refuses the command immediately.
func (d *Docker) Stats(ctx context.Context, id workspace.ID) (backend.Stats, error) {
	var none backend.Stats
	c, err := d.running(ctx, id)
	if err != nil {
		return none, err
	}
	name := id.ContainerName()
	doing := "reading what container " + name + " uses"
	used, err := d.api.Usage(ctx, c.ID)
	if err != nil {
		return none, engine.Wrap(doing, err)
	}
	if used.Read.IsZero() { // it has ended in the meantime
		return none, fmt.Errorf("container %s: %w", name, backend.ErrNotFound)
	}
	s := backend.Stats{
		At: time.Now(), CPU: time.Duration(used.CPUStats.CPUUsage.TotalUsage), Cores: status.Cores(c.HostConfig),
		Memory: status.InUse(used.MemoryStats), Processes: -1,
	}
	if c.HostConfig != nil {
		s.MemoryLimit = c.HostConfig.Memory
	}
	if image, err := d.images.Declared(ctx, c.Image); err == nil { // otherwise its ports are unknown
		s.Declared = image.Ports
	}
	out := backend.Limited{Max: glance.MaxOutput}
	if _, err := d.exec(ctx, id, c.ID, doing, backend.Command{Words: glance.Command}, &out, io.Discard); err == nil {
		seen := glance.Parse(out.Bytes())
		s.Processes, s.Ports, s.Local = seen.Processes, seen.Ports, seen.Local
	}
	return s, nil
}
