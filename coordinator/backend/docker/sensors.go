package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

// inspections is how many ended containers are inspected at the same time.
const inspections = 8

// exit is how a container ended.
type exit struct {
	code              int
	started, finished time.Time
}

// Containers implements [backend.Backend]. It is one call to the engine, and one more
// for each container that has ended since the last call.
func (d *Docker) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	listing, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := d.api.ContainerList(listing, container.ListOptions{All: true, Filters: d.filter(KindWorkspace, ids,
		func(id workspace.ID) string { return "^/?" + id.ContainerName() + "$" })})
	if err != nil {
		return nil, engine.Wrap("listing containers", err)
	}
	wanted := selector(ids)
	found := make(map[workspace.ID]workspace.Container, len(list))
	seen := make(map[string]struct{})
	var mu sync.Mutex // guards found
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[LabelWorkspace])
		if err != nil || !wanted(id) || !d.owns(s.Labels, id, KindWorkspace) || !named(s, id.ContainerName()) {
			continue
		}
		seen[s.ID] = struct{}{}
		c := d.describe(s, id)
		if s.State != container.StateExited && s.State != container.StateDead {
			// A container that was restarted by hand has no end any more.
			d.exits.Drop(s.ID)
			mu.Lock()
			found[id] = c
			mu.Unlock()
			continue
		}
		g.Go(func() error {
			e, gone, err := d.exitOf(gctx, s.ID)
			switch {
			case gone:
				return nil
			case err != nil && answered(ctx, err):
				c = workspace.Container{Unknown: oneLine(err)}
			case err != nil:
				return err
			default:
				c.ExitCode, c.StartedAt, c.FinishedAt = e.code, e.started, e.finished
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
	// Only a full listing shows which containers no longer exist.
	if len(ids) == 0 {
		d.exits.Retain(seen)
		d.asked.Retain(seen)
	}
	return found, nil
}

// answered reports whether err concerns one object alone: the engine did answer. Then
// only what is known of that object is missing (SPEC 2).
func answered(ctx context.Context, err error) bool {
	return ctx.Err() == nil && !errors.Is(err, context.Canceled) && workspace.ReasonOf(err) != workspace.ReasonUnreachable
}

// oneLine is an error as a text of bounded length.
func oneLine(err error) string { return backend.CleanText(err.Error(), maxMessage) }

// describe returns what a listing tells about a container. A paused container counts
// as running and not as ready. Exit code and times are not in a listing.
func (d *Docker) describe(s container.Summary, id workspace.ID) workspace.Container {
	c := workspace.Container{Running: s.State == container.StateRunning || s.State == container.StatePaused}
	for _, m := range s.Mounts {
		if m.Type == mount.TypeVolume && m.Destination == homePath && m.Name == id.VolumeName() {
			c.Volume = true
		}
	}
	if c.Running {
		// One without an address cannot be reached, so it is not ready either.
		c.Endpoint, c.Health = d.endpoint(s), health(s.State, s.Status)
		c.BasePath = s.Labels[labelBasePath]
		c.Ready = c.Endpoint != "" && c.Health == ""
	}
	return c
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

// endpoint returns the address, host:port, at which the gateway reaches a running
// container; "" while the engine reports none.
func (d *Docker) endpoint(s container.Summary) string {
	port := cmp.Or(s.Labels[labelPort], strconv.Itoa(d.opts.Port))
	if d.opts.Publish == PublishLoopback {
		for _, p := range s.Ports {
			if strconv.Itoa(int(p.PrivatePort)) == port && p.Type == "tcp" && p.PublicPort != 0 {
				return net.JoinHostPort(loopback, strconv.Itoa(int(p.PublicPort)))
			}
		}
		return ""
	}
	if s.NetworkSettings == nil {
		return ""
	}
	for _, n := range s.NetworkSettings.Networks { // there is exactly one
		if n != nil && n.IPAddress != "" {
			return net.JoinHostPort(n.IPAddress, port)
		}
	}
	return ""
}

// exitOf returns how a container ended. gone means that it was removed in the
// meantime.
func (d *Docker) exitOf(ctx context.Context, containerID string) (e exit, gone bool, err error) {
	if e, ok := d.exits.Get(containerID); ok {
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
	e = exit{code: c.State.ExitCode, started: engineTime(c.State.StartedAt), finished: engineTime(c.State.FinishedAt)}
	d.exits.Put(containerID, e)
	return e, false, nil
}

// engineTime parses a time of the engine, whose zero value is in the year 1. A time
// that cannot be parsed counts as unknown, like zero.
func engineTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
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
