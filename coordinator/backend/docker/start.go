package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/ending"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/home"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/image"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/sandbox"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Start implements [backend.Core]. It replaces a container that has exited. If a process died after it had created a
// container from the same spec, Start starts that container.
func (d *Docker) Start(ctx context.Context, s backend.StartSpec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return engine.RetryChanged(ctx, "starting container "+s.ID.ContainerName(), func() error { return d.start(ctx, s) })
}

// start is one attempt of Start. It creates the container, then checks that the volume exists and that no job uses it,
// and only then starts the container. While a container exists, its volume cannot be removed, and a new job gives way
// to it. So the result of the checks stays valid. A container that fails a check is removed without having run.
func (d *Docker) start(ctx context.Context, s backend.StartSpec) error {
	id, name := s.ID, s.ID.ContainerName()
	var present *container.InspectResponse
	g, gctx := errgroup.WithContext(ctx)
	guard.Go(g, func() (err error) { present, err = d.api.Inspect(gctx, name); return })
	var there *volume.Volume
	guard.Go(g, func() (err error) { there, err = d.homes.Find(gctx, id); return })
	var box *sandbox.Sandbox
	guard.Go(g, func() (err error) { box, err = d.sandboxes.Find(gctx, id); return })
	var from image.Workspace
	var unfit error // why no container can be created; an existing one does not need it
	guard.Go(g, func() error { from, unfit = d.images.ForWorkspace(gctx, s.Image); return nil })
	if err := g.Wait(); err != nil {
		return err
	}
	// A container that has lost the network it joined is replaced, as is one that has exited.
	lost := present != nil && !sandbox.Stands(present, box)
	if present != nil {
		if !d.opts.Owns(present.Config.Labels, id, spec.KindWorkspace) {
			return backend.NotOurs("container", name)
		}
		if present.State.Paused && !lost {
			return d.freezer.Thaw(ctx, id)
		}
		if present.State.Running && !lost {
			return nil
		}
	}
	// Check before creating anything: creating the container would create the volume.
	if there == nil {
		return home.Missing(id)
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
	if unfit != nil {
		return unfit
	}
	s.Image = from.Reference
	at, err := d.opts.Address(s.Slot, subnet)
	if err != nil {
		return err
	}
	memory := d.opts.MemoryBytes
	if memory == 0 {
		if memory, err = d.memory.Size(ctx); err != nil {
			return err
		}
	}
	alone := spec.Workspace(d.opts, s, netID, at, memory) // without a sandbox
	want := alone
	// A container that has ended gets a new network: the old one may have caused the end.
	join := d.opts.Warm > 0 && box != nil && box.Fits(alone) && (present == nil || present.State.Status == container.StateCreated)
	if join {
		want = alone.In(box.ID)
	}
	containerID := ""
	switch {
	case present == nil:
	case present.State.Status == container.StateCreated &&
		present.Config.Labels[spec.LabelSpec] == want.Config.Labels[spec.LabelSpec]:
		// Another process has created the container and is about to start it, or has died before it could.
		containerID = present.ID
	default:
		// It has exited, or was created from another spec. Its changes outside the home are not kept.
		if err := d.remove(ctx, present.ID); err != nil {
			return engine.Wrap("removing the stopped container "+name, err)
		}
	}
	if box != nil && !join {
		if err := d.sandboxes.Discard(ctx, id); err != nil {
			return err
		}
	}
	if containerID == "" {
		containerID, err = d.create(ctx, name, want)
		if errors.Is(err, errNameTaken) || from.Vanished(err) || err != nil && join && d.sandboxGone(ctx, id, box) {
			return backend.ErrChanged
		}
		if err != nil {
			return err
		}
	}
	// From here on the container uses its volume, and a job that starts sees that. So the result of these checks stays
	// valid until the container is removed.
	g, gctx = errgroup.WithContext(ctx)
	guard.Go(g, func() error { return d.homes.Check(gctx, id) })
	guard.Go(g, func() error { return d.checkNoJob(gctx, id, "") })
	guard.Go(g, func() error { return d.images.CheckMounted(gctx, containerID, from) })
	if join {
		guard.Go(g, func() error {
			gone, err := d.sandboxes.Gone(gctx, id, box)
			if gone {
				err = backend.ErrChanged
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return d.undo(ctx, id, containerID, err)
	}
	d.homes.Own(ctx, id, containerID, want.Config.Image, there.Labels[spec.LabelOp], from.Folders)
	err = d.api.ContainerStart(ctx, containerID, container.StartOptions{})
	switch {
	// When ctx ended, the start may have succeeded. The container stays: the next call
	// finds it running, or starts it.
	case err == nil || ctx.Err() != nil:
		return engine.Wrap("starting container "+name, err)
	// The network was removed, or two processes created it at once. Find it again.
	case engine.NetworkGone(err):
		d.net.Forget(ctx, netID)
		return d.undo(ctx, id, containerID, fmt.Errorf("%w: %w", backend.ErrChanged, err))
	case engine.RemovedMeanwhile(err):
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	case join && d.sandboxGone(ctx, id, box), !join && d.sandboxes.Vacate(ctx, alone, err):
		return d.undo(ctx, id, containerID, fmt.Errorf("%w: %w", backend.ErrChanged, err))
	}
	return d.undo(ctx, id, containerID, engine.Wrap("starting container "+name, status.ExplainAddress(err)))
}

// sandboxGone reports whether a container could not join a sandbox because the sandbox is gone.
func (d *Docker) sandboxGone(ctx context.Context, id workspace.ID, box *sandbox.Sandbox) bool {
	gone, err := d.sandboxes.Gone(ctx, id, box)
	return err == nil && gone
}

// checkNoJob fails while a storage job uses the volume (SPEC 7). It ignores the job whose container is own. It removes
// a job that has not started, so that the process that created the job cannot start it.
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

// checkDiskDriver fails if the engine would ignore the limit of a container.
func (d *Docker) checkDiskDriver(ctx context.Context) error {
	if d.opts.DiskBytes == 0 {
		return nil
	}
	driver, err := d.api.StorageDriver(ctx)
	if err != nil {
		return err
	}
	return d.opts.CheckDriver(driver)
}

// Delete implements [backend.Core].
func (d *Docker) Delete(ctx context.Context, id workspace.ID) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	name := id.ContainerName()
	c, err := d.api.Inspect(ctx, name)
	if err != nil || c == nil {
		return err
	}
	if !d.opts.Owns(c.Config.Labels, id, spec.KindWorkspace) {
		return backend.NotOurs("container", name)
	}
	if grace := d.opts.StopGrace; grace > 0 && c.State != nil && c.State.Running {
		if c.State.Paused {
			_ = d.freezer.Thaw(ctx, id) // if it stays frozen, it is killed after the grace period
		}
		ending.New(d.api).Ask(ctx, c, grace)
	}
	if err := d.remove(ctx, c.ID); err != nil {
		return engine.Wrap("removing container "+name, err)
	}
	d.sandboxes.Slept(ctx, id, c)
	return nil
}

// DeleteVolume implements [backend.Core]. A workspace without a home does not wake soon, so its network is removed,
// too.
func (d *Docker) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	// If the sandbox cannot be removed now, it is removed when the next workspace goes to sleep, because its workspace has
	// no home.
	_ = d.sandboxes.Discard(ctx, id)
	return d.homes.DeleteVolume(ctx, id, opID)
}
