package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// StartJob implements [backend.Core]. It also starts a job whose container was created but not started, because a
// process died in between.
func (d *Docker) StartJob(ctx context.Context, s backend.JobSpec) error {
	// Check the environment here: if it is malformed, the engine's own error would repeat it.
	if err := s.Validate(); err != nil {
		return err
	}
	return engine.RetryChanged(ctx, "starting storage job "+s.Name(), func() error { return d.startJob(ctx, s) })
}

// startJob is one attempt of StartJob. A workspace's container and a job that start at the same time exclude each other
// without a lock (SPEC 12.4). Each creates its own container first and then looks for the other one. So at least one of
// them sees both and gives way. The method start does the same from the other side. Two jobs exclude each other in the
// same way: a job of the previous leader may start late, when the present leader does not know of it.
func (d *Docker) startJob(ctx context.Context, s backend.JobSpec) error {
	name := s.Name()
	var present *container.InspectResponse
	g, gctx := errgroup.WithContext(ctx)
	guard.Go(g, func() (err error) { present, err = d.api.Inspect(gctx, name); return })
	guard.Go(g, func() error { return d.homes.Check(gctx, s.ID) })
	guard.Go(g, func() error { return d.checkNoContainer(gctx, s.ID) })
	refused := g.Wait()
	containerID := ""
	if present != nil {
		if !d.opts.Owns(present.Config.Labels, s.ID, spec.KindJob) {
			return backend.NotOurs("container", name)
		}
		if present.State.Status != container.StateCreated {
			return nil
		}
		containerID = present.ID // another process created it and has not started it yet
	}
	if refused != nil {
		return refused
	}
	netID, err := d.jobNetwork(ctx)
	if err != nil {
		return err
	}
	if containerID == "" {
		if err := d.images.CheckJobs(ctx, d.opts.JobImage); err != nil {
			return err
		}
		containerID, err = d.create(ctx, name, spec.Job(d.opts, s, netID))
		if errors.Is(err, errNameTaken) {
			return backend.ErrChanged
		}
		if err != nil {
			return err
		}
	}
	// Check again, now that the job's container exists and uses the volume: see start.
	g, gctx = errgroup.WithContext(ctx)
	guard.Go(g, func() error { return d.homes.Check(gctx, s.ID) })
	guard.Go(g, func() error { return d.checkNoContainer(gctx, s.ID) })
	guard.Go(g, func() error { return d.checkNoJob(gctx, s.ID, containerID) })
	if err := g.Wait(); err != nil {
		return d.undo(ctx, s.ID, containerID, err)
	}
	switch err := d.deliver(ctx, containerID, s.Grant); {
	case errors.Is(err, backend.ErrChanged), err != nil && ctx.Err() != nil:
		return err
	case err != nil:
		return d.undo(ctx, s.ID, containerID, err)
	}
	err = d.api.ContainerStart(ctx, containerID, container.StartOptions{})
	switch {
	// When ctx ended, the start may have succeeded. The container stays: the next call
	// finds it running, or starts it.
	case err == nil || ctx.Err() != nil:
		return engine.Wrap("starting storage job "+name, err)
	// The network was removed, or two processes created it at once. Find it again.
	case d.jobs != nil && engine.NetworkGone(err):
		d.jobs.Forget(ctx, netID)
		return d.undo(ctx, s.ID, containerID, fmt.Errorf("%w: %w", backend.ErrChanged, err))
	// Another process removed the container because a workspace starts. Try again.
	case engine.RemovedMeanwhile(err):
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	}
	return d.undo(ctx, s.ID, containerID, engine.Wrap("starting storage job "+name, err))
}

// jobNetwork returns the network of storage jobs. If jobs have a network of their own, jobNetwork returns it only if
// its rules are in force or not required.
func (d *Docker) jobNetwork(ctx context.Context) (string, error) {
	if d.jobs == nil {
		return d.opts.JobNetwork, nil
	}
	id, _, err := d.jobs.Ensure(ctx)
	if err != nil {
		return "", err
	}
	return id, d.guard.BeforeStart(ctx, id)
}

// checkNoContainer fails while the workspace's container exists. This includes a container that does not run, because
// it may be about to start (SPEC 12.4).
func (d *Docker) checkNoContainer(ctx context.Context, id workspace.ID) error {
	c, err := d.api.Inspect(ctx, id.ContainerName())
	if err == nil && c != nil {
		err = fmt.Errorf("container %s exists; a storage job must be the only user of the volume", id.ContainerName())
	}
	return err
}

// DeleteJobs implements [backend.Core]. It kills jobs that run, and removes all jobs with their scratch volumes.
func (d *Docker) DeleteJobs(ctx context.Context, id workspace.ID) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	list, err := d.listJobs(ctx, id)
	if err != nil {
		return err
	}
	var g errgroup.Group
	for _, s := range list {
		guard.Go(&g, func() error {
			return engine.Wrap("removing storage job "+strings.Join(s.Names, ","), d.remove(ctx, s.ID))
		})
	}
	return g.Wait()
}
