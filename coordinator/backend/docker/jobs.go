package docker

import (
	"context"
	"fmt"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// jobLines is how many lines are read at the end of the output of a job that has ended: the last line is the result,
// and the others explain a failure. reportLines is how many are read while the job runs, because the job's own messages
// may follow the latest report. maxMessage bounds the message about unreadable output, in bytes.
const (
	jobLines    = "50"
	reportLines = "20"
	maxMessage  = 1000
)

// listJobs lists the storage jobs of these workspaces in any state, or of all workspaces if no ids are given.
func (d *Docker) listJobs(ctx context.Context, ids ...workspace.ID) ([]container.Summary, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: d.opts.Filter(spec.KindJob, ids,
		func(id workspace.ID) string { return "^/?" + id.ContainerName() + "-" })})
	if err != nil {
		return nil, engine.Wrap("listing storage jobs", err)
	}
	wanted, own := spec.Selector(ids), list[:0]
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[spec.LabelWorkspace])
		if err == nil && wanted(id) && d.opts.Owns(s.Labels, id, spec.KindJob) && len(s.Names) > 0 {
			own = append(own, s)
		}
	}
	return own, nil
}

// Jobs implements [backend.Core]. It makes one call to the engine, and two more for each job that has ended since the
// last call. It makes at most one call a second for each running job: see [backend.ReportInterval]. It omits a job
// whose container was created but not started: for the caller it does not exist yet, and StartJob starts it.
func (d *Docker) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	list, err := d.listJobs(ctx, ids...)
	if err != nil {
		return nil, err
	}
	found := make(map[workspace.ID][]workspace.Job, len(list))
	every := backend.ReportInterval(len(list))
	seen := make(map[string]struct{}, len(list))
	var mu sync.Mutex // guards found
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	for _, s := range list {
		seen[s.ID] = struct{}{}
		id := workspace.ID(s.Labels[spec.LabelWorkspace])
		job := workspace.Job{Kind: workspace.JobKind(s.Labels[spec.LabelJob]), OpID: s.Labels[spec.LabelOp],
			State: workspace.JobRunning}
		add := func() {
			mu.Lock()
			defer mu.Unlock()
			found[id] = append(found[id], job)
		}
		switch s.State {
		// It has not started yet, or is being removed: there is no job to report.
		case container.StateCreated, container.StateRemoving:
		case container.StateExited, container.StateDead:
			guard.Go(g, func() error {
				var end workspace.Job
				var gone bool
				err := guard.Call(guard.Workspace, func() (err error) {
					end, gone, err = d.outcomeOf(gctx, id, s.ID)
					return err
				})
				switch {
				case gone:
					return nil
				case err != nil && alone(ctx, err):
					job.Unknown = backend.ErrorText(err)
				case err != nil:
					return err
				default:
					end.Kind, end.OpID = job.Kind, job.OpID
					job = end
				}
				add()
				return nil
			})
		default:
			guard.Go(g, func() error {
				job.Progress = d.reports.Progress(gctx, id, s.ID, every, func(ctx context.Context) ([]byte, error) {
					stdout, _, err := d.output(ctx, s.ID, reportLines)
					return stdout, err
				})
				add()
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	d.outcomes.Retain(ids, seen)
	d.reports.Retain(ids, seen)
	return found, nil
}

// imageOf returns the reference that a container was created from.
func imageOf(c *container.InspectResponse) string {
	if c.Config == nil {
		return ""
	}
	return c.Config.Image
}

// outcomeOf returns how a job ended, without its kind and operation. gone means that its container was removed in the
// meantime. See [backend.Outcomes] for unreadable output.
func (d *Docker) outcomeOf(ctx context.Context, id workspace.ID, containerID string) (
	o workspace.Job, gone bool, err error) {
	return d.outcomes.Read(ctx, id, containerID, func(ctx context.Context) (*backend.JobEnd, error) {
		c, err := d.api.Inspect(ctx, containerID)
		if err != nil || c == nil {
			return nil, err
		}
		if c.State == nil {
			return nil, fmt.Errorf("inspecting container %s: the engine reports no state", containerID)
		}
		stdout, stderr, err := d.output(ctx, containerID, jobLines)
		if errdefs.IsNotFound(err) { // the container, or only its log
			if c, unknown := d.api.Inspect(ctx, containerID); unknown == nil && c == nil {
				return nil, nil
			}
		}
		if err != nil {
			return nil, engine.Wrap("reading a storage job's output", err)
		}
		return &backend.JobEnd{
			Image: imageOf(c), ExitCode: c.State.ExitCode, OutOfMemory: c.State.OOMKilled, Stdout: stdout,
			Stderr: stderr,
		}, nil
	})
}
