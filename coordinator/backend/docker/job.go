package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// jobPids bounds a job's threads.
const jobPids = 256

// jobCapabilities let a restore set owners, modes and attributes of files, and an
// archive read files without read permission.
var jobCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"}

// StartJob implements [backend.Backend].
func (d *Docker) StartJob(ctx context.Context, s backend.JobSpec) error {
	// The engine would repeat a malformed environment, credentials included, in its
	// own error.
	if err := s.Validate(); err != nil {
		return err
	}
	return retryChanged(ctx, "starting storage job "+s.Name(), func() error { return d.startJob(ctx, s) })
}

// startJob is one attempt of StartJob. A container and a job that start at the same
// time exclude each other without a lock: each creates its own container first and
// then checks for the other one, so at least one of them sees both and gives way.
func (d *Docker) startJob(ctx context.Context, s backend.JobSpec) error {
	name := s.Name()
	var present *container.InspectResponse
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { present, err = d.inspect(gctx, name); return })
	g.Go(func() error { return d.checkHome(gctx, s.ID) })
	g.Go(func() error { return d.checkNoContainer(gctx, s.ID) })
	refused := g.Wait()
	containerID := ""
	if present != nil {
		if !d.owns(present.Config.Labels, s.ID, KindJob) {
			return nameTaken("container", name)
		}
		if present.State.Status != container.StateCreated {
			return nil
		}
		containerID = present.ID // another process created it and did not start it yet
	}
	if refused != nil {
		return refused
	}
	if containerID == "" {
		var err error
		containerID, err = d.create(ctx, name, d.jobSpec(s))
		if errors.Is(err, errNameTaken) {
			return errChanged
		}
		if err != nil {
			return err
		}
	}
	// Check again, now that the job's container exists: see start.
	g, gctx = errgroup.WithContext(ctx)
	g.Go(func() error { return d.checkHome(gctx, s.ID) })
	g.Go(func() error { return d.checkNoContainer(gctx, s.ID) })
	if err := g.Wait(); err != nil {
		err = d.undo(ctx, containerID, err)
		if workspace.ReasonOf(err) == workspace.ReasonContainerWithoutVolume {
			_, _ = d.homeExists(ctx, s.ID)
		}
		return err
	}
	err := d.api.ContainerStart(ctx, containerID, container.StartOptions{})
	switch {
	case err == nil || ctx.Err() != nil:
		return wrap("starting storage job "+name, err)
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such container"):
		return fmt.Errorf("%w: %w", errChanged, err)
	}
	return d.undo(ctx, containerID, wrap("starting storage job "+name, err))
}

// checkNoContainer fails while the workspace's container exists, running or not: it
// may be about to run (SPEC 12.4).
func (d *Docker) checkNoContainer(ctx context.Context, id workspace.ID) error {
	c, err := d.inspect(ctx, id.ContainerName())
	if err == nil && c != nil {
		err = fmt.Errorf("container %s exists; a storage job must be the only user of the volume", id.ContainerName())
	}
	return err
}

// jobSpec describes the container of a storage job.
func (d *Docker) jobSpec(s backend.JobSpec) spec {
	labels := d.labels(s.ID, KindJob)
	labels[LabelOp], labels[LabelJob] = s.OpID, string(s.Kind)
	pids, initProcess := int64(jobPids), true
	return spec{
		config: &container.Config{
			Image: d.opts.JobImage, Cmd: []string{s.Command()}, Env: s.Env,
			User: "0:0", Labels: labels, // root, because a home's files have any owner
		},
		host: &container.HostConfig{
			Init:           &initProcess,
			NetworkMode:    container.NetworkMode(d.opts.JobNetwork),
			CapDrop:        []string{"ALL"},
			CapAdd:         jobCapabilities,
			SecurityOpt:    []string{"no-new-privileges"},
			ReadonlyRootfs: true,
			Resources:      container.Resources{Memory: d.opts.JobMemoryBytes, PidsLimit: &pids},
			LogConfig:      logging(),
			Mounts: []mount.Mount{
				d.homeMount(s.ID, contract.DataPath, true), // an image's own files must never get into a home
				{Type: mount.TypeVolume, Target: contract.ScratchPath, VolumeOptions: &mount.VolumeOptions{Labels: d.labels(s.ID, kindScratch)}},
			},
		},
	}
}

// DeleteJobs implements [backend.Backend].
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
		g.Go(func() error { return wrap("removing storage job "+strings.Join(s.Names, ","), d.remove(ctx, s.ID)) })
	}
	return g.Wait()
}
