// Package sandbox keeps the networks of workspaces that went to sleep recently. Setting up the network takes half of
// the time that an engine needs to start a container. A sandbox is a container whose program does nothing. A sandbox
// has the address, the name, the host name and the ports of the workspace's container, and the workspace's next
// container joins it.
//
// It owns the containers of the kind [spec.KindSandbox], from their creation to their removal. It keeps its state on
// the engine alone: labels say which workspace a sandbox belongs to, and its name says when the workspace went to
// sleep. It must not touch a workspace's container, nor decide when one starts. Without a sandbox a start only takes
// longer.
package sandbox

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Sandbox is a container that keeps a workspace's network.
type Sandbox struct {
	// ID is the container's id.
	ID string

	of        workspace.ID
	hash      string // a hash of its network
	network   string // the network's id
	addresses []netip.Addr
	ports     []uint16 // ports of the host
	running   bool
	created   time.Time
	slept     time.Time // when the workspace last went to sleep
	retired   bool      // it is being removed, and nothing may join it
}

// Fits reports whether a container with that description may join the sandbox, and would get the same network there.
func (b Sandbox) Fits(c spec.Container) bool {
	return !b.retired && b.hash == spec.NetworkHash(c) && time.Since(b.created) < renewAfter
}

// has reports whether the sandbox holds an address or a port that the description asks for.
func (b Sandbox) has(c spec.Container) bool {
	if slices.Contains(b.addresses, c.Address()) {
		return true
	}
	for _, bindings := range c.Host.PortBindings {
		for _, to := range bindings {
			if port, err := strconv.ParseUint(to.HostPort, 10, 16); err == nil && slices.Contains(b.ports, uint16(port)) {
				return true
			}
		}
	}
	return false
}

// Joins returns the id of the container whose network the container joins, or "".
func Joins(mode container.NetworkMode) string {
	if !mode.IsContainer() {
		return ""
	}
	return mode.ConnectedContainer()
}

// Stands reports whether a container still has its network. box is the running sandbox of the container's workspace, if
// there is one.
func Stands(c *container.InspectResponse, box *Sandbox) bool {
	if c.HostConfig == nil {
		return true
	}
	joined := Joins(c.HostConfig.NetworkMode)
	return joined == "" || box != nil && box.ID == joined
}

// Running are the running sandboxes, by container id.
type Running map[string]container.Summary

// Networks returns the installation's running sandboxes that are in a listing of containers.
func Networks(list []container.Summary, o spec.Options) Running {
	found := Running{}
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[spec.LabelWorkspace])
		if err == nil && s.State == container.StateRunning && o.Owns(s.Labels, id, spec.KindSandbox) {
			found[s.ID] = s
		}
	}
	return found
}

// Of returns the container that owns the network of a workspace's container: that container itself, or its sandbox.
// lost means that the workspace's container still runs but the sandbox that it joined does not: the container is
// unreachable and stays so.
func (r Running) Of(s container.Summary) (network container.Summary, lost bool) {
	joined := Joins(container.NetworkMode(s.HostConfig.NetworkMode))
	if joined == "" {
		return s, false
	}
	network, ok := r[joined]
	return network, !ok && (s.State == container.StateRunning || s.State == container.StatePaused)
}

// view is the result of one listing.
type view struct {
	boxes []Sandbox
	used  map[string]bool // the ids of the sandboxes that a workspace's container has joined
}

// of returns the sandboxes of a workspace.
func (v view) of(id workspace.ID) (own []Sandbox) {
	for _, b := range v.boxes {
		if b.of == id {
			own = append(own, b)
		}
	}
	return own
}

// sleeping returns the sandboxes that no container has joined, the newest first.
func (v view) sleeping() (all []Sandbox) {
	for _, b := range v.boxes {
		if !v.used[b.ID] {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b Sandbox) int {
		return cmp.Or(b.slept.Compare(a.slept), strings.Compare(a.ID, b.ID))
	})
	return all
}

// look lists the sandboxes of these workspaces, or all sandboxes if there are no ids. It also finds out which of them
// containers have joined.
func (s *Sandboxes) look(ctx context.Context, ids ...workspace.ID) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := s.api.ContainerList(ctx, container.ListOptions{All: true, Filters: s.opts.Filter("", ids, nil)})
	if err != nil {
		return view{}, engine.Wrap("listing sandboxes", err)
	}
	v := view{used: map[string]bool{}}
	for _, c := range list {
		id, err := workspace.ParseID(c.Labels[spec.LabelWorkspace])
		switch {
		case err != nil:
		case s.opts.Owns(c.Labels, id, spec.KindSandbox) && len(c.Names) > 0:
			v.boxes = append(v.boxes, described(c, id))
		case s.opts.Owns(c.Labels, id, spec.KindWorkspace) && c.State != container.StateExited && c.State != container.StateDead:
			if joined := Joins(container.NetworkMode(c.HostConfig.NetworkMode)); joined != "" {
				v.used[joined] = true
			}
		}
	}
	return v, nil
}

func described(c container.Summary, id workspace.ID) Sandbox {
	b := Sandbox{
		ID: c.ID, of: id, hash: c.Labels[spec.LabelSpec], network: c.HostConfig.NetworkMode,
		running: c.State == container.StateRunning, created: time.Unix(c.Created, 0),
	}
	if slept, ok := spec.SandboxSlept(id, strings.TrimPrefix(c.Names[0], "/")); ok {
		b.slept = slept
	} else {
		b.retired = true
	}
	if c.NetworkSettings != nil {
		for _, n := range c.NetworkSettings.Networks {
			if n == nil {
				continue
			}
			if ip, err := netip.ParseAddr(n.IPAddress); err == nil {
				b.addresses = append(b.addresses, ip)
			}
		}
	}
	for _, p := range c.Ports {
		if p.PublicPort != 0 {
			b.ports = append(b.ports, p.PublicPort)
		}
	}
	return b
}

// retire removes a sandbox, unless a container has joined it. Another process may be about to let a container join. So
// retire first renames the sandbox to mark it, and only then looks for containers that have joined it. A process that
// lets a container join creates the container first and then reads the name ([Sandboxes.Gone]). So at least one of the
// two processes notices the other.
func (s *Sandboxes) retire(ctx context.Context, b Sandbox) (removed bool, err error) {
	if !b.retired {
		err := s.api.ContainerRename(ctx, b.ID, spec.RetiredSandbox(b.of, b.ID))
		if errdefs.IsNotFound(err) {
			return true, nil
		}
		if err != nil {
			return false, engine.Wrap("marking a sandbox for removal", err)
		}
	}
	v, err := s.look(ctx, b.of)
	if err != nil || v.used[b.ID] {
		return false, err
	}
	return true, s.remove(ctx, b.ID)
}

// remove kills and removes a sandbox.
func (s *Sandboxes) remove(ctx context.Context, id string) error {
	err := s.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsNotFound(err) || errdefs.IsConflict(err) { // another call is already removing it
		return nil
	}
	return engine.Wrap("removing a sandbox", err)
}
