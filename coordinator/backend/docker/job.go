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
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// jobPids bounds the processes and threads of a job.
const jobPids = 256

// jobCapabilities are all that a job keeps of root's capabilities. An archive reads files
// and folders without read permission, and changes nothing. A restore also sets owners
// (CHOWN), writes in folders of any owner (DAC_OVERRIDE), sets modes, times and attributes of
// what it has given away (FOWNER), keeps the setgid bit of a group that is not its own
// (FSETID), and sets the capabilities of programs (SETFCAP).
var jobCapabilities = map[workspace.JobKind][]string{
	workspace.JobArchive: {"DAC_READ_SEARCH"},
	workspace.JobRestore: {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"},
}

// StartJob implements [backend.Backend]. A job whose container exists and was not
// started yet, because a process died in between, is started.
func (d *Docker) StartJob(ctx context.Context, s backend.JobSpec) error {
	// The engine would repeat a malformed environment in its own error.
	if err := s.Validate(); err != nil {
		return err
	}
	return retryChanged(ctx, "starting storage job "+s.Name(), retryFor, func() error { return d.startJob(ctx, s) })
}

// startJob is one attempt of StartJob. A workspace's container and a job that start at
// the same time exclude each other without a lock (SPEC 12.4): each creates its own
// container first and checks for the other one afterwards, so at least one of the two
// sees both and gives way. start does the same from the other side, and so do two jobs: a
// former leader's, which the next leader does not know of, may start late.
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
			return engine.NotOurs("container", name)
		}
		if present.State.Status != container.StateCreated {
			return nil
		}
		containerID = present.ID // another process created it and did not start it yet
	}
	if refused != nil {
		return refused
	}
	netID, err := d.jobNetwork(ctx)
	if err != nil {
		return err
	}
	if containerID == "" {
		containerID, err = d.create(ctx, name, d.jobSpec(s, netID))
		if errors.Is(err, errNameTaken) {
			return backend.ErrChanged
		}
		if err != nil {
			return err
		}
	}
	// Check again, now that the job's container exists and uses the volume: see start.
	g, gctx = errgroup.WithContext(ctx)
	g.Go(func() error { return d.checkHome(gctx, s.ID) })
	g.Go(func() error { return d.checkNoContainer(gctx, s.ID) })
	g.Go(func() error { return d.checkNoJob(gctx, s.ID, containerID) })
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
	case d.jobs != nil && (errdefs.IsNotFound(err) && strings.Contains(err.Error(), "network") || strings.Contains(err.Error(), "is ambiguous")):
		d.jobs.Forget(ctx, netID)
		return d.undo(ctx, s.ID, containerID, fmt.Errorf("%w: %w", backend.ErrChanged, err))
	// Another process removed the container, because a workspace starts. Look again.
	case removedMeanwhile(err):
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	}
	return d.undo(ctx, s.ID, containerID, engine.Wrap("starting storage job "+name, err))
}

// jobNetwork returns the network of storage jobs. Where it is their own, its rules stand, or
// need not.
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

// checkNoContainer fails while the workspace's container exists. One that does not run
// may be about to (SPEC 12.4).
func (d *Docker) checkNoContainer(ctx context.Context, id workspace.ID) error {
	c, err := d.inspect(ctx, id.ContainerName())
	if err == nil && c != nil {
		err = fmt.Errorf("container %s exists; a storage job must be the only user of the volume", id.ContainerName())
	}
	return err
}

// jobSpec describes the container of a storage job. It has no more rights than a job
// needs: a read-only root file system, a few capabilities, bounded memory and threads,
// nothing writable but a scratch volume and, for a restore, the home, and no secret: see deliver.
func (d *Docker) jobSpec(s backend.JobSpec, network string) spec {
	labels := d.labels(s.ID, KindJob)
	labels[LabelOp], labels[LabelJob], labels[LabelTerm] = s.OpID, string(s.Kind), s.Term
	pids, initProcess := int64(jobPids), true
	home := d.homeMount(s.ID, contract.DataPath, true) // no copy: the image's own files must never get into a home
	home.ReadOnly = s.Kind == workspace.JobArchive
	return spec{
		config: &container.Config{
			Image: d.opts.JobImage, Cmd: []string{s.Command()}, Env: s.Env,
			User: "0:0", Labels: labels, // root, because a home's files may have any owner
		},
		host: &container.HostConfig{
			Init:           &initProcess,
			NetworkMode:    container.NetworkMode(network),
			CapDrop:        []string{"ALL"},
			CapAdd:         jobCapabilities[s.Kind],
			SecurityOpt:    []string{"no-new-privileges"},
			ReadonlyRootfs: true,
			Resources:      container.Resources{Memory: d.opts.JobMemoryBytes, PidsLimit: &pids},
			LogConfig:      logging(),
			Mounts: []mount.Mount{
				home,
				{Type: mount.TypeVolume, Target: contract.ScratchPath, VolumeOptions: &mount.VolumeOptions{Labels: d.labels(s.ID, kindScratch)}},
			},
		},
	}
}

// DeleteJobs implements [backend.Backend]. It kills running jobs and removes their
// scratch volumes with them.
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
		g.Go(func() error {
			return engine.Wrap("removing storage job "+strings.Join(s.Names, ","), d.remove(ctx, s.ID))
		})
	}
	return g.Wait()
}
