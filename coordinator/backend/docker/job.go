package docker

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// jobPids bounds a job's threads.
const jobPids = 256

// jobCapabilities are what a restore needs to give files their owners, modes and
// attributes back, and an archive to read files that are closed to everybody.
var jobCapabilities = []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"}

var opIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// StartJob implements [backend.Backend].
func (d *Docker) StartJob(ctx context.Context, s backend.JobSpec) error {
	if err := checkJob(s); err != nil {
		return err
	}
	return again(ctx, "starting storage job "+jobName(s), func() error { return d.startJob(ctx, s) })
}

func jobName(s backend.JobSpec) string {
	return fmt.Sprintf("%s-%s-%s", s.ID.ContainerName(), s.Kind, s.OpID)
}

// checkJob refuses what the engine would repeat in its own error: the environment
// holds credentials.
func checkJob(s backend.JobSpec) error {
	if err := checkID(s.ID); err != nil {
		return err
	}
	if s.Kind != workspace.JobArchive && s.Kind != workspace.JobRestore {
		return fmt.Errorf("unknown kind of storage job %q", s.Kind)
	}
	if !opIDForm.MatchString(s.OpID) {
		return fmt.Errorf("operation id %q is not letters and digits", s.OpID)
	}
	for i, entry := range s.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.ContainsRune(entry, 0) {
			return fmt.Errorf("environment of the storage job: entry %d is not NAME=value", i)
		}
	}
	return nil
}

func (d *Docker) startJob(ctx context.Context, s backend.JobSpec) error {
	name := jobName(s)
	var present *container.InspectResponse
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() (err error) { present, err = d.inspect(gctx, name); return })
	g.Go(func() error { return d.checkHome(gctx, s.ID) })
	g.Go(func() error { return d.checkNoContainer(gctx, s.ID) })
	refused := g.Wait()
	containerID := ""
	if present != nil {
		if !d.ours(present.Config.Labels, s.ID, KindJob) {
			return taken("container", name)
		}
		if present.State.Status != container.StateCreated {
			return nil
		}
		containerID = present.ID // made by somebody who did not come to start it
	}
	if refused != nil {
		return refused
	}
	if containerID == "" {
		var err error
		containerID, err = d.create(ctx, name, d.jobSpec(s))
		if errors.Is(err, errNameTaken) {
			return errAgain
		}
		if err != nil {
			return err
		}
	}
	// The same looks again, now that the job's container exists: see start.
	g, gctx = errgroup.WithContext(ctx)
	g.Go(func() error { return d.checkHome(gctx, s.ID) })
	g.Go(func() error { return d.checkNoContainer(gctx, s.ID) })
	if err := g.Wait(); err != nil {
		err = d.undo(ctx, containerID, err)
		if workspace.ReasonOf(err) == workspace.ReasonContainerWithoutVolume {
			_, _ = d.home(ctx, s.ID)
		}
		return err
	}
	err := d.api.ContainerStart(ctx, containerID, container.StartOptions{})
	switch {
	case err == nil || ctx.Err() != nil:
		return wrap("starting storage job "+name, err)
	case errdefs.IsNotFound(err) && strings.Contains(err.Error(), "No such container"):
		return fmt.Errorf("%w: %w", errAgain, err)
	}
	return d.undo(ctx, containerID, wrap("starting storage job "+name, err))
}

// checkNoContainer refuses while the workspace's container exists, running or not:
// it may be about to run (SPEC 12.4).
func (d *Docker) checkNoContainer(ctx context.Context, id workspace.ID) error {
	c, err := d.inspect(ctx, id.ContainerName())
	if err == nil && c != nil {
		err = fmt.Errorf("container %s exists: a storage job must be alone with the volume", id.ContainerName())
	}
	return err
}

// jobSpec is the container of a storage job.
func (d *Docker) jobSpec(s backend.JobSpec) spec {
	labels := d.labels(s.ID, KindJob)
	labels[LabelOp], labels[LabelJob] = s.OpID, string(s.Kind)
	pids, initProcess := int64(jobPids), true
	return spec{
		config: &container.Config{
			Image: d.opts.JobImage, Cmd: []string{string(s.Kind)}, Env: s.Env,
			User: "0:0", Labels: labels, // root, because files have any owner
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
				d.homeMount(s.ID, "/data", true), // an image's own /data must never get into a home
				{Type: mount.TypeVolume, Target: "/tmp", VolumeOptions: &mount.VolumeOptions{Labels: d.labels(s.ID, kindScratch)}},
			},
		},
	}
}

// DeleteJobs implements [backend.Backend].
func (d *Docker) DeleteJobs(ctx context.Context, id workspace.ID) error {
	if err := checkID(id); err != nil {
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
