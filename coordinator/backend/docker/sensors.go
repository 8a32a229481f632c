package docker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
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

// run is what a listing does not tell about a container that runs: when it was started, and whether
// its health check is known to fail.
type run struct {
	started time.Time
	fails   bool
}

// Containers implements [backend.Core]. It is one call to the engine, and one more
// for each container that was started, has ended or has become unhealthy since the last call.
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
	since := sync.OnceValues(func() (time.Time, error) { return d.api.Since(gctx) })
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
			if !c.Running || d.knowsRun(id, s.ID, &c) {
				mu.Lock()
				found[id] = c
				mu.Unlock()
				continue
			}
			g.Go(func() error {
				err := d.addRun(gctx, id, s.ID, &c)
				mu.Lock()
				defer mu.Unlock()
				found[id] = c
				return err
			})
			continue
		}
		d.runs.Drop(id, s.ID)
		g.Go(func() error {
			e, gone, err := d.exitOf(gctx, id, s.ID, since)
			switch {
			case gone:
				return nil
			case err != nil && engine.Answered(ctx, err):
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
	d.runs.Retain(ids, seen)
	d.sampler.Retain(ids, seen)
	return found, nil
}

// oneLine is an error as a text of bounded length.
func oneLine(err error) string { return backend.CleanText(err.Error(), maxMessage) }

// runLimit is how long the engine may take to tell about a container that runs. While it starts or
// ends one, it does not answer about that one. Then its start is not known, and only freezing needs it.
const runLimit = 2 * time.Second

// knowsRun adds to c what earlier listings have found out about a container that runs. It reports
// whether that is all.
func (d *Docker) knowsRun(id workspace.ID, containerID string, c *workspace.Container) bool {
	known, ok := d.runs.Get(id, containerID)
	unhealthy := c.Health == workspace.HealthUnhealthy
	if known.fails && !unhealthy {
		known.fails = false
		d.runs.Put(id, containerID, known)
	}
	c.StartedAt = known.started
	return ok && (!unhealthy || known.fails)
}

// addRun adds to c what the listing does not tell about a container that runs. The error says that
// the engine does not answer.
func (d *Docker) addRun(ctx context.Context, id workspace.ID, containerID string, c *workspace.Container) error {
	bounded, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	full, err := d.api.Inspect(bounded, containerID)
	switch {
	case err != nil && bounded.Err() == nil && !engine.Answered(ctx, err), ctx.Err() != nil:
		return err
	case err != nil || full == nil || full.State == nil || !full.State.Running:
		return nil
	}
	c.StartedAt = engine.Time(full.State.StartedAt)
	if c.Health == workspace.HealthUnhealthy {
		c.Health = status.Probed(full)
		c.Ready = c.Endpoint != "" && c.Health == ""
	}
	d.runs.Put(id, containerID, run{started: c.StartedAt, fails: c.Health == workspace.HealthUnhealthy})
	return nil
}

// describe returns what a listing tells about a container. A paused container counts
// as running and not as ready. Exit code and times are not in a listing.
// network is the container that has its network: itself, or its sandbox.
func (d *Docker) describe(s, network container.Summary, id workspace.ID) workspace.Container {
	c := workspace.Container{
		Running: s.State == container.StateRunning || s.State == container.StatePaused, Volume: mountsHome(s, id),
	}
	if c.Running {
		// One without an address cannot be reached, so it is not ready either.
		c.Endpoint, c.Health = d.opts.Endpoint(s, network), status.Health(s.State, s.Status)
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

// exitOf returns how a container ended. gone means that it was removed in the
// meantime. engineSince is asked only for a container that was not inspected before.
func (d *Docker) exitOf(ctx context.Context, id workspace.ID, containerID string,
	engineSince func() (time.Time, error),
) (e exit, gone bool, err error) {
	if e, ok := d.exits.Get(id, containerID); ok {
		return e, false, nil
	}
	c, err := d.api.Inspect(ctx, containerID)
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
		code: c.State.ExitCode, disrupted: status.Disrupted(c, since), started: engine.Time(c.State.StartedAt),
		finished: engine.Time(c.State.FinishedAt),
	}
	d.exits.Put(id, containerID, e)
	return e, false, nil
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
