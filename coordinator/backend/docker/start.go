package docker

import (
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
	"github.com/docker/go-connections/nat"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// homePath is where a workspace finds its home volume.
	homePath = "/home/coder"
	loopback = "127.0.0.1"
	// A start is tried over for this long, at this pace, while somebody else makes or
	// removes the same container: the engine takes a name before it shows its owner.
	againFor   = 15 * time.Second
	againEvery = 25 * time.Millisecond
)

// errAgain says that the world changed during a start, and that it is worth
// another look.
var errAgain = errors.New("it was changed by somebody else at the same time")

// Start implements [backend.Backend].
func (d *Docker) Start(ctx context.Context, s backend.StartSpec) error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	return again(ctx, "starting container "+s.ID.ContainerName(), func() error { return d.start(ctx, s) })
}

// again calls f as long as it returns errAgain.
func again(ctx context.Context, doing string, f func() error) error {
	limit := time.NewTimer(againFor)
	defer limit.Stop()
	tick := time.NewTicker(againEvery)
	defer tick.Stop()
	for {
		err := f()
		if !errors.Is(err, errAgain) {
			return err
		}
		select {
		case <-tick.C:
		case <-limit.C:
			return fmt.Errorf("%s: %w", doing, err)
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", doing, ctx.Err())
		}
	}
}

func (d *Docker) start(ctx context.Context, s backend.StartSpec) error {
	id, name := s.ID, s.ID.ContainerName()
	var present *container.InspectResponse
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { present, err = d.inspect(gctx, name); return })
	var home bool
	g.Go(func() (err error) { home, err = d.home(gctx, id); return })
	if err := g.Wait(); err != nil {
		return err
	}
	if present != nil {
		if !d.ours(present.Config.Labels, id, KindWorkspace) {
			return taken("container", name)
		}
		if present.State.Paused {
			return wrap("unpausing container "+name, d.api.ContainerUnpause(ctx, present.ID))
		}
		if present.State.Running {
			return nil
		}
	}
	if !home {
		return withoutHome(id)
	}
	netID, err := d.ensureNetwork(ctx)
	if err != nil {
		return err
	}
	want := d.workspaceSpec(s, netID)
	containerID := ""
	switch {
	case present == nil:
	case present.State.Status == container.StateCreated && present.Config.Labels[labelSpec] == want.config.Labels[labelSpec]:
		// Another caller is between creating and starting it, or died there.
		containerID = present.ID
	default:
		if err := d.remove(ctx, present.ID); err != nil {
			return wrap("removing the stopped container "+name, err)
		}
	}
	if containerID == "" {
		containerID, err = d.create(ctx, name, want)
		if errors.Is(err, errNameTaken) {
			return errAgain
		}
		if err != nil {
			return err
		}
	}
	// From here the container holds its volume, and whoever starts a job sees it. So
	// what is found now holds until the container goes.
	g, gctx = errgroup.WithContext(ctx)
	g.Go(func() error { return d.checkHome(gctx, id) })
	g.Go(func() error { return d.checkNoJob(gctx, id) })
	if err := g.Wait(); err != nil {
		err = d.undo(ctx, containerID, err)
		if workspace.ReasonOf(err) == workspace.ReasonContainerWithoutVolume {
			_, _ = d.home(ctx, id) // takes the engine's volume away; if not now, then at the next look
		}
		return err
	}
	err = d.api.ContainerStart(ctx, containerID, container.StartOptions{})
	switch {
	case err == nil || ctx.Err() != nil:
		return wrap("starting container "+name, err)
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "network"), strings.Contains(err.Error(), "is ambiguous"):
		d.forgetNetwork(ctx, netID)
		return d.undo(ctx, containerID, fmt.Errorf("%w: %w", errAgain, err))
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such container"):
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return d.undo(ctx, containerID, wrap("starting container "+name, err))
}

func withoutHome(id workspace.ID) error {
	return workspace.Fail(workspace.ReasonContainerWithoutVolume,
		fmt.Errorf("volume %s does not exist, and nothing may run without it", id.VolumeName()))
}

// checkHome looks, once a container holds the volume, whether it is the home.
func (d *Docker) checkHome(ctx context.Context, id workspace.ID) error {
	there, err := d.home(ctx, id)
	if err == nil && !there {
		err = withoutHome(id)
	}
	return err
}

// checkNoJob refuses while a storage job uses the volume (SPEC 7). A job that was
// not started yet is removed: whoever made it fails to start it.
func (d *Docker) checkNoJob(ctx context.Context, id workspace.ID) error {
	list, err := d.listJobs(ctx, id)
	if err != nil {
		return err
	}
	for _, s := range list {
		switch s.State {
		case container.StateExited, container.StateDead, container.StateRemoving:
			continue
		case container.StateCreated:
			err := d.api.ContainerRemove(ctx, s.ID, container.RemoveOptions{RemoveVolumes: true})
			if err == nil || errdefs.IsNotFound(err) {
				continue
			}
			if !errdefs.IsConflict(err) {
				return wrap("removing a storage job that was never started", err)
			}
		}
		return fmt.Errorf("workspace %s: storage job %s uses its volume", id, strings.TrimPrefix(s.Names[0], "/"))
	}
	return nil
}

// workspaceSpec is the container of a workspace.
func (d *Docker) workspaceSpec(s backend.StartSpec, netID string) spec {
	image := s.Image
	if image == "" {
		image = d.opts.Image
	}
	initProcess := true
	c := &container.Config{Image: image, Hostname: s.ID.ContainerName(), Labels: d.labels(s.ID, KindWorkspace)}
	h := &container.HostConfig{
		Init:        &initProcess, // several processes run there; someone must reap them
		NetworkMode: container.NetworkMode(netID),
		CapDrop:     []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges"},
		Resources:   container.Resources{Memory: d.opts.MemoryBytes, NanoCPUs: d.opts.NanoCPUs, PidsLimit: limit(d.opts.PidsLimit)},
		LogConfig:   logging(),
		Mounts:      []mount.Mount{d.homeMount(s.ID, homePath, false)},
	}
	if d.opts.Publish == PublishLoopback {
		port := nat.Port(strconv.Itoa(d.opts.Port) + "/tcp")
		c.ExposedPorts = nat.PortSet{port: {}}
		h.PortBindings = nat.PortMap{port: {{HostIP: loopback}}}
	}
	return signed(spec{c, h})
}

// homeMount mounts the home volume. Should the engine make the volume because
// it is missing, it gets the labels of an accident and is never taken for one.
func (d *Docker) homeMount(id workspace.ID, at string, noCopy bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: id.VolumeName(), Target: at,
		VolumeOptions: &mount.VolumeOptions{NoCopy: noCopy, Labels: d.labels(id, kindAccident)}}
}

// logging bounds what a container's output takes on disk, in a form that can be
// read back whatever the engine's default is.
func logging() container.LogConfig {
	return container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "2"}}
}

// signed adds the label that tells whether a container was made from the same spec.
func signed(s spec) spec {
	b, err := json.Marshal([]any{s.config, s.host})
	if err != nil {
		panic(err) // plain data
	}
	sum := sha256.Sum256(b)
	s.config.Labels[labelSpec] = hex.EncodeToString(sum[:8])
	return s
}

// limit is nil for none.
func limit(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}

// Delete implements [backend.Backend].
func (d *Docker) Delete(ctx context.Context, id workspace.ID) error {
	if err := checkID(id); err != nil {
		return err
	}
	name := id.ContainerName()
	c, err := d.inspect(ctx, name)
	if err != nil || c == nil {
		return err
	}
	if !d.ours(c.Config.Labels, id, KindWorkspace) {
		return taken("container", name)
	}
	return wrap("removing container "+name, d.remove(ctx, c.ID))
}
