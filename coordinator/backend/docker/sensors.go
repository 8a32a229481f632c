package docker

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/sandbox"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// inspections is how many ended containers are inspected at the same time.
const inspections = 8

// Containers implements [backend.Core]. It makes one call to the engine, and one more for each container that has
// started, ended or become unhealthy since the last call.
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
	networks := sandbox.Networks(list, d.opts)
	found := make(map[workspace.ID]workspace.Container, len(list))
	seen := make(map[string]struct{})
	var mu sync.Mutex // guards found
	put := func(id workspace.ID, c workspace.Container) {
		mu.Lock()
		defer mu.Unlock()
		found[id] = c
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	// After a restart, many containers have ended. The engine is asked once for all of them.
	since := sync.OnceValues(func() (time.Time, error) { return d.api.Since(gctx) })
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[spec.LabelWorkspace])
		if err != nil || !wanted(id) || !d.opts.Owns(s.Labels, id, spec.KindWorkspace) ||
			!named(s, id.ContainerName()) {
			continue
		}
		seen[s.ID] = struct{}{}
		network, lost := networks.Of(s)
		if lost {
			put(id, workspace.Container{Disrupted: true, Volume: mountsHome(s, id)})
			continue
		}
		c := d.describe(s, network, id)
		if s.State != container.StateExited && s.State != container.StateDead {
			if !c.Running || d.inspector.KnowsRunning(id, s.ID, &c) {
				put(id, c)
				continue
			}
			guard.Go(g, func() error {
				err := guard.Call(guard.Workspace, func() error { return d.inspector.Running(gctx, id, s.ID, &c) })
				if err != nil && alone(ctx, err) {
					c, err = workspace.Container{Unknown: backend.ErrorText(err)}, nil
				}
				put(id, c)
				return err
			})
			continue
		}
		guard.Go(g, func() error {
			var gone bool
			err := guard.Call(guard.Workspace, func() (err error) {
				gone, err = d.inspector.Ended(gctx, id, s.ID, since, &c)
				return err
			})
			switch {
			case gone:
				return nil
			case err != nil && alone(ctx, err):
				c = workspace.Container{Unknown: backend.ErrorText(err)}
			case err != nil:
				return err
			}
			put(id, c)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	d.inspector.Retain(ids, seen)
	d.sampler.Retain(ids, seen)
	return found, nil
}

// alone reports whether err concerns only one container: the engine has answered, or this program has failed to handle
// that container.
func alone(ctx context.Context, err error) bool {
	return engine.Answered(ctx, err) || guard.Panicked(err)
}

// describe returns what a listing shows about a container. A paused container counts as running and not ready. A
// listing contains neither exit codes nor times. network is the container that owns the network: the container itself,
// or its sandbox.
func (d *Docker) describe(s, network container.Summary, id workspace.ID) workspace.Container {
	c := workspace.Container{
		Running: s.State == container.StateRunning || s.State == container.StatePaused, Volume: mountsHome(s, id),
	}
	if c.Running {
		// A container without an address cannot be reached, so it is not ready.
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

// named reports whether a container has exactly that name. The engine prefixes names with a slash, and a listing's name
// filter is a regular expression.
func named(s container.Summary, name string) bool {
	for _, n := range s.Names {
		if strings.TrimPrefix(n, "/") == name {
			return true
		}
	}
	return false
}
