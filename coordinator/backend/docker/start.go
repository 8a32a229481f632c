package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/go-connections/nat"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// homePath is where the home volume is mounted in a workspace's container.
	homePath = "/home/coder"
	loopback = "127.0.0.1"
	// While another process creates or removes the same container, a start is retried
	// at this interval and for this long: the engine reserves a name before it can be
	// inspected.
	retryFor   = 15 * time.Second
	retryEvery = 25 * time.Millisecond
)

// Start implements [backend.Backend]. It replaces a container that has exited, and
// starts one that a dead process created from the same spec and never started.
func (d *Docker) Start(ctx context.Context, s backend.StartSpec) error {
	if err := backend.CheckID(s.ID); err != nil {
		return err
	}
	return retryChanged(ctx, "starting container "+s.ID.ContainerName(), retryFor, func() error { return d.start(ctx, s) })
}

// retryChanged calls f until it returns anything but [backend.ErrChanged], for at most so long.
func retryChanged(ctx context.Context, doing string, atMost time.Duration, f func() error) error {
	return backend.RetryChanged(ctx, doing, retryEvery, atMost, f)
}

// start is one attempt of Start. It creates the container, then checks that the volume
// exists and that no job uses it, and only then starts the container. While a container
// exists, its volume cannot be removed and a new job gives way, so what the checks find
// stays true. A container that fails a check is removed without having run.
func (d *Docker) start(ctx context.Context, s backend.StartSpec) error {
	id, name := s.ID, s.ID.ContainerName()
	var present *container.InspectResponse
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { present, err = d.inspect(gctx, name); return })
	var home *volume.Volume
	g.Go(func() (err error) { home, err = d.home(gctx, id); return })
	if err := g.Wait(); err != nil {
		return err
	}
	if present != nil {
		if !d.owns(present.Config.Labels, id, KindWorkspace) {
			return engine.NotOurs("container", name)
		}
		if present.State.Paused {
			return engine.Wrap("unpausing container "+name, d.api.ContainerUnpause(ctx, present.ID))
		}
		if present.State.Running {
			return nil
		}
	}
	// Check before anything is created: creating the container would create the volume.
	if home == nil {
		return noHome(id)
	}
	netID, subnet, err := d.net.Ensure(ctx)
	if err != nil {
		return err
	}
	if err := d.guard.BeforeStart(ctx, netID); err != nil {
		return err
	}
	if err := d.checkDiskDriver(ctx); err != nil {
		return err
	}
	at, err := d.address(s.Slot, subnet)
	if err != nil {
		return err
	}
	want := d.workspaceSpec(s, netID, at)
	containerID := ""
	switch {
	case present == nil:
	case present.State.Status == container.StateCreated && present.Config.Labels[labelSpec] == want.config.Labels[labelSpec]:
		// Another process created it and is about to start it, or died in between.
		containerID = present.ID
	default:
		// It has exited, or was created from another spec. What it wrote outside the home
		// is not kept.
		if err := d.remove(ctx, present.ID); err != nil {
			return engine.Wrap("removing the stopped container "+name, err)
		}
	}
	if containerID == "" {
		containerID, err = d.create(ctx, name, want)
		if errors.Is(err, errNameTaken) {
			return backend.ErrChanged
		}
		if err != nil {
			return err
		}
	}
	// From here on the container uses its volume, and a job that starts sees it: what
	// these checks find stays true until the container is removed.
	g, gctx = errgroup.WithContext(ctx)
	g.Go(func() error { return d.checkHome(gctx, id) })
	g.Go(func() error { return d.checkNoJob(gctx, id, "") })
	if err := g.Wait(); err != nil {
		return d.undo(ctx, id, containerID, err)
	}
	d.ownHome(ctx, id, containerID, want.config.Image, home.Labels[LabelOp])
	err = d.api.ContainerStart(ctx, containerID, container.StartOptions{})
	switch {
	// When ctx ended, the start may have succeeded. The container stays: the next call
	// finds it running, or starts it.
	case err == nil || ctx.Err() != nil:
		return engine.Wrap("starting container "+name, err)
	// The network was removed, or two processes created it at once. Find it again.
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "network"), strings.Contains(err.Error(), "is ambiguous"):
		d.net.Forget(ctx, netID)
		return d.undo(ctx, id, containerID, fmt.Errorf("%w: %w", backend.ErrChanged, err))
	case removedMeanwhile(err):
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	}
	return d.undo(ctx, id, containerID, engine.Wrap("starting container "+name, explainAddress(err)))
}

// removedMeanwhile reports whether a container could not be started because another
// process has removed it, or is removing it, since it was found or created.
func removedMeanwhile(err error) bool {
	return errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such container") ||
		strings.Contains(err.Error(), "marked for removal")
}

// noHome is the error for a home volume that does not exist (SPEC 1, contract 6).
func noHome(id workspace.ID) error {
	return workspace.Fail(workspace.ReasonContainerWithoutVolume,
		fmt.Errorf("volume %s does not exist, and no container may run without it", id.VolumeName()))
}

// checkHome fails unless the home volume exists. A volume that the engine created in
// its place does not count.
func (d *Docker) checkHome(ctx context.Context, id workspace.ID) error {
	v, err := d.home(ctx, id)
	if err == nil && v == nil {
		err = noHome(id)
	}
	return err
}

// checkNoJob fails while a storage job uses the volume (SPEC 7), other than the one in
// the container own. It removes a job that was not started yet, so that the process that
// created it cannot start it.
func (d *Docker) checkNoJob(ctx context.Context, id workspace.ID, own string) error {
	list, err := d.listJobs(ctx, id)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.ID == own {
			continue
		}
		switch s.State {
		case container.StateExited, container.StateDead, container.StateRemoving:
			continue
		case container.StateCreated:
			err := d.api.ContainerRemove(ctx, s.ID, container.RemoveOptions{RemoveVolumes: true})
			if err == nil || errdefs.IsNotFound(err) {
				continue
			}
			if !errdefs.IsConflict(err) {
				return engine.Wrap("removing a storage job that was never started", err)
			}
		}
		return fmt.Errorf("workspace %s: storage job %s uses its volume", id, strings.TrimPrefix(s.Names[0], "/"))
	}
	return nil
}

// workspaceSpec describes the container of a workspace: without capabilities, without
// new privileges, with the configured limits. It sets no restart policy, because only
// the coordinator decides what runs.
func (d *Docker) workspaceSpec(s backend.StartSpec, netID string, at address) spec {
	initProcess := true
	port := strconv.Itoa(cmp.Or(s.Port, d.opts.Port))
	c := &container.Config{
		Image: cmp.Or(s.Image, d.opts.Image), Cmd: s.Command, Env: s.Env,
		Hostname: cmp.Or(s.Hostname, s.ID.ContainerName()), Labels: d.labels(s.ID, KindWorkspace),
	}
	c.Labels[labelPort] = port
	if s.BasePath != "" {
		c.Labels[labelBasePath] = s.BasePath
	}
	h := &container.HostConfig{
		Init:        &initProcess, // workspaces run several processes, which must be reaped
		NetworkMode: container.NetworkMode(netID),
		CapDrop:     []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges"},
		Resources:   container.Resources{Memory: d.opts.MemoryBytes, NanoCPUs: d.opts.NanoCPUs, PidsLimit: orNil(d.opts.PidsLimit)},
		LogConfig:   logging(),
		Mounts:      []mount.Mount{d.homeMount(s.ID, homePath, false)},
		StorageOpt:  sizeOption(d.opts.DiskBytes),
	}
	if d.opts.Publish == PublishLoopback {
		inside := nat.Port(port + "/tcp")
		c.ExposedPorts = nat.PortSet{inside: {}}
		h.PortBindings = nat.PortMap{inside: {{HostIP: loopback, HostPort: at.port}}}
	}
	made := withSpecHash(spec{c, h, at.network(netID)})
	made.config.Labels[LabelTerm] = s.Term // not a part of the hash: any term's container will do
	return made
}

// homeMount mounts the home volume. If the volume does not exist, the engine creates
// one with the given labels, by which home recognises that it is not a home.
func (d *Docker) homeMount(id workspace.ID, at string, noCopy bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: id.VolumeName(), Target: at,
		VolumeOptions: &mount.VolumeOptions{NoCopy: noCopy, Labels: d.labels(id, kindAutoCreated)}}
}

// logging bounds the disk space of a container's output to about 2 MiB. It names the
// driver, because the output of an engine's default driver may not be readable.
func logging() container.LogConfig {
	return container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "2"}}
}

// withSpecHash adds a label by which start recognises a container that was created from
// the same spec. After an upgrade or a change of settings the hash differs, and start
// replaces the container.
func withSpecHash(s spec) spec {
	b, err := json.Marshal([]any{s.config, s.host, s.network})
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	sum := sha256.Sum256(b)
	s.config.Labels[labelSpec] = hex.EncodeToString(sum[:8])
	return s
}

// orNil returns nil for 0: the engine takes a nil limit as none.
func orNil(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// Delete implements [backend.Backend]. It kills the container without a grace period,
// so that a workspace falls asleep quickly: its data is on the volume.
func (d *Docker) Delete(ctx context.Context, id workspace.ID) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	name := id.ContainerName()
	c, err := d.inspect(ctx, name)
	if err != nil || c == nil {
		return err
	}
	if !d.owns(c.Config.Labels, id, KindWorkspace) {
		return engine.NotOurs("container", name)
	}
	return engine.Wrap("removing container "+name, d.remove(ctx, c.ID))
}
