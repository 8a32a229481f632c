package coordinator

import (
	"context"
	"io"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// execUse is how often a running command counts as use. It is far shorter than the time for which a workspace may be
// idle.
const execUse = time.Second

// Exec runs a command in the container of a workspace, as defined by [backend.Executor]. While it runs, the workspace
// counts as used: nothing freezes or stops it. A terminal hangs up when ctx ends. The caller has checked the
// workspace's owner.
func (c *Coordinator) Exec(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (
	exitCode int, err error) {
	slot, by := c.Activity.Slot(id), audit.Of(ctx)
	running, ended := context.WithCancel(context.Background())
	defer ended()
	slot.TouchBy(metrics.ByCommand, by)
	go func() {
		_ = guard.Keep(running, c.log, "use by a command", 0, func(ctx context.Context) error {
			tick := time.NewTicker(execUse)
			defer tick.Stop()
			for {
				select {
				case <-tick.C:
					slot.TouchBy(metrics.ByCommand, by)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}()
	if command.Terminal != nil {
		return backend.ExecInTerminal(ctx, c.backend, id, command, stdout)
	}
	return c.backend.Exec(ctx, id, command, stdout, stderr)
}

// Logs returns the last lines that a workspace's container printed, as defined by [backend.Inspector].
func (c *Coordinator) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	return c.backend.Logs(ctx, id, lines)
}

// Follow writes what a workspace's container prints, as defined by [backend.Inspector].
func (c *Coordinator) Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error {
	return c.backend.Follow(ctx, id, lines, to)
}

// Stats returns the resource use of a workspace's container, as defined by [backend.Inspector]; it asks the
// backend at most once a second, regardless of the number of callers.
func (c *Coordinator) Stats(ctx context.Context, id workspace.ID) (backend.Stats, error) {
	return c.stats.Get(ctx, id, func(ctx context.Context) (backend.Stats, error) { return c.backend.Stats(ctx, id) })
}

// HomeDisk returns how many bytes are free on the disk of the homes, -1 if that is not known.
func (c *Coordinator) HomeDisk(ctx context.Context) int64 {
	d, err := c.homeDisk(ctx)
	if err != nil {
		return -1
	}
	return d.Free
}

// imageSizeWait is how long ImageSizes waits for the engine. After that, the list of images is shown without sizes.
const imageSizeWait = 500 * time.Millisecond

// ImageSizes returns how many bytes each image takes up on this process's engine, as of a short while ago. The map
// leaves out images that the engine does not have, or whose size is not known soon enough.
func (c *Coordinator) ImageSizes(ctx context.Context, references []string) map[string]int64 {
	if c.backend.Images == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, imageSizeWait)
	defer cancel()
	sizes := make(map[string]int64)
	for _, reference := range references {
		size, err := c.sizes.Get(ctx, reference, func(ctx context.Context) (int64, error) {
			return c.backend.Images.Size(ctx, reference)
		})
		if err == nil {
			sizes[reference] = size
		}
	}
	return sizes
}

// homeDisk returns how full the disk of the homes was a short while ago.
func (c *Coordinator) homeDisk(ctx context.Context) (backend.Disk, error) {
	return c.disk.Get(ctx, struct{}{}, c.backend.Disk)
}
