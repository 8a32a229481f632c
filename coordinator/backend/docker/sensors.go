package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// inspections is how many ended containers are inspected at the same time.
const inspections = 8

// exit is how a container ended.
type exit struct {
	code              int
	disrupted         bool
	started, finished time.Time
}

// Containers implements [backend.Core]. It is one call to the engine, and one more
// for each container that has ended since the last call.
func (d *Docker) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	listing, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := d.api.ContainerList(listing,
		container.ListOptions{All: true, Filters: d.opts.Filter("", ids,
			func(id workspace.ID) string { return "^/?(" + id.ContainerName() + "$|" + spec.SandboxPrefix(id) + ")" })})
	if err != nil {
		return nil, engine.Wrap("listing containers", err)
	}
	wanted := spec.Selector(ids)
	networks := d.sandboxNetworks(list)
	found := make(map[workspace.ID]workspace.Container, len(list))
	seen := make(map[string]struct{})
	var mu sync.Mutex // guards found
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	// After a restart many containers have ended. The engine is asked once for all of them.
	since := sync.OnceValues(func() (time.Time, error) { return d.engineSince(gctx) })
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[spec.LabelWorkspace])
		if err != nil || !wanted(id) || !d.opts.Owns(s.Labels, id, spec.KindWorkspace) ||
			!named(s, id.ContainerName()) {
			continue
		}
		seen[s.ID] = struct{}{}
		network, lost := networks.of(s)
		if lost {
			mu.Lock()
			found[id] = workspace.Container{Disrupted: true, Volume: mountsHome(s, id)}
			mu.Unlock()
			continue
		}
		c := d.describe(s, network, id)
		if s.State != container.StateExited && s.State != container.StateDead {
			// A container that was restarted by hand has no end any more.
			d.exits.Drop(id, s.ID)
			mu.Lock()
			found[id] = c
			mu.Unlock()
			continue
		}
		g.Go(func() error {
			e, gone, err := d.exitOf(gctx, id, s.ID, since)
			switch {
			case gone:
				return nil
			case err != nil && answered(ctx, err):
				c = workspace.Container{Unknown: oneLine(err)}
			case err != nil:
				return err
			default:
				c.ExitCode, c.Disrupted, c.StartedAt, c.FinishedAt = e.code, e.disrupted, e.started, e.finished
			}
			mu.Lock()
			defer mu.Unlock()
			found[id] = c
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	d.exits.Retain(ids, seen)
	d.sampler.Retain(ids, seen)
	return found, nil
}

// answered reports whether err concerns one object alone: the engine did answer. Then
// only what is known of that object is missing (SPEC 2).
func answered(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.Canceled) &&
		workspace.ReasonOf(err) != workspace.ReasonUnreachable
}

// oneLine is an error as a text of bounded length.
func oneLine(err error) string { return backend.CleanText(err.Error(), maxMessage) }

// describe returns what a listing tells about a container. A paused container counts
// as running and not as ready. Exit code and times are not in a listing.
// network is the container that has its network: itself, or its sandbox.
func (d *Docker) describe(s, network container.Summary, id workspace.ID) workspace.Container {
	c := workspace.Container{
		Running: s.State == container.StateRunning || s.State == container.StatePaused, Volume: mountsHome(s, id),
	}
	if c.Running {
		// One without an address cannot be reached, so it is not ready either.
		c.Endpoint, c.Health = d.opts.Endpoint(s, network), health(s.State, s.Status)
		c.BasePath = s.Labels[spec.LabelBasePath]
		c.Ready = c.Endpoint != "" && c.Health == ""
	}
	return c
}

// mountsHome reports whether the container has the workspace's own home.
func mountsHome(s container.Summary, id workspace.ID) bool {
	for _, m := range s.Mounts {
		if m.Type == mount.TypeVolume && m.Destination == spec.HomePath && m.Name == id.VolumeName() {
			return true
		}
	}
	return false
}

// health returns why a running container is not ready, or "". A listing shows the result
// of a health check only as the end of its status line.
func health(state container.ContainerState, status string) workspace.Health {
	switch {
	case state == container.StatePaused:
		return workspace.HealthPaused
	case strings.HasSuffix(status, "(health: starting)"):
		return workspace.HealthStarting
	case strings.HasSuffix(status, "(unhealthy)"):
		return workspace.HealthUnhealthy
	}
	return ""
}

// exitOf returns how a container ended. gone means that it was removed in the
// meantime. engineSince is asked only for a container that was not inspected before.
func (d *Docker) exitOf(ctx context.Context, id workspace.ID, containerID string,
	engineSince func() (time.Time, error),
) (e exit, gone bool, err error) {
	if e, ok := d.exits.Get(id, containerID); ok {
		return e, false, nil
	}
	c, err := d.inspect(ctx, containerID)
	switch {
	case err != nil:
		return exit{}, false, err
	case c == nil:
		return exit{}, true, nil
	case c.State == nil:
		return exit{}, false, fmt.Errorf("inspecting container %s: the engine reports no state", containerID)
	}
	since, err := engineSince()
	if err != nil {
		return exit{}, false, err
	}
	e = exit{
		code: c.State.ExitCode, disrupted: disrupted(c, since), started: engine.Time(c.State.StartedAt),
		finished: engine.Time(c.State.FinishedAt),
	}
	d.exits.Put(id, containerID, e)
	return e, false, nil
}

// engineSince returns since when the engine runs: when it starts, it makes its default network anew.
// It returns the zero time for an engine without that network, and for one that does not show it.
func (d *Docker) engineSince(ctx context.Context) (time.Time, error) {
	n, err := d.api.NetworkInspect(ctx, network.NetworkBridge, network.InspectOptions{})
	if errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking since when the engine runs: %w", err)
	}
	return n.Created, nil
}

// disrupted reports whether something else has ended the container. That is an administrator who
// killed or stopped it, an engine that was stopped, or a host that ran out of memory. One that runs
// into its own limit of memory has ended by itself. An engine that runs only since the container has ended
// may have ended it: programs that are asked to stop end with any code.
func disrupted(c *container.InspectResponse, engineSince time.Time) bool {
	limited := c.HostConfig == nil || c.HostConfig.Memory > 0
	if c.State.OOMKilled && limited {
		return false
	}
	return backend.Signalled(c.State.ExitCode) || engine.Time(c.State.FinishedAt).Before(engineSince)
}

// named reports whether a container has that name. The engine adds a slash to names,
// and the name filter of a listing is a regular expression.
func named(s container.Summary, name string) bool {
	for _, n := range s.Names {
		if strings.TrimPrefix(n, "/") == name {
			return true
		}
	}
	return false
}
