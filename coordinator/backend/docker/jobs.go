package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/workspace"
)

// The storage job's exit codes that have a meaning of their own.
const (
	exitCorrupted   = 10
	exitMissing     = 11
	exitUnreachable = 12
	exitDiskFull    = 13
)

// Bounds of a job's output that is read, and of the message made from it.
const (
	jobLines      = "50"
	jobMessageMax = 1000
)

// outcome is how a job ended.
type outcome struct {
	state   workspace.JobState
	reason  workspace.ErrorReason
	message string
	size    int64
}

// listJobs lists the storage jobs of these workspaces, in any state.
func (d *Docker) listJobs(ctx context.Context, ids ...workspace.ID) ([]container.Summary, error) {
	list, err := d.api.ContainerList(ctx, container.ListOptions{All: true, Filters: d.listed(KindJob, ids,
		func(id workspace.ID) string { return "^/?" + id.ContainerName() + "-" })})
	if err != nil {
		return nil, wrap("listing storage jobs", err)
	}
	wanted, ours := chosen(ids), list[:0]
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[LabelWorkspace])
		if err == nil && wanted(id) && d.ours(s.Labels, id, KindJob) && len(s.Names) > 0 {
			ours = append(ours, s)
		}
	}
	return ours, nil
}

// Jobs implements [backend.Backend]. A job whose container was made and never
// started is not there yet: StartJob starts it.
func (d *Docker) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	list, err := d.listJobs(ctx, ids...)
	if err != nil {
		return nil, err
	}
	found := make(map[workspace.ID][]workspace.Job, len(list))
	seen := make(map[string]struct{}, len(list))
	var mu sync.Mutex // guards found
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(inspections)
	for _, s := range list {
		seen[s.ID] = struct{}{}
		id := workspace.ID(s.Labels[LabelWorkspace])
		job := workspace.Job{Kind: workspace.JobKind(s.Labels[LabelJob]), OpID: s.Labels[LabelOp], State: workspace.JobRunning}
		add := func() {
			mu.Lock()
			defer mu.Unlock()
			found[id] = append(found[id], job)
		}
		switch s.State {
		case container.StateCreated, container.StateRemoving:
		case container.StateExited, container.StateDead:
			g.Go(func() error {
				o, gone, err := d.outcomeOf(gctx, s.ID)
				if err != nil || gone {
					return err
				}
				job.State, job.Reason, job.Message, job.Size = o.state, o.reason, o.message, o.size
				add()
				return nil
			})
		default:
			add()
		}
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		d.outcomes.keep(seen)
	}
	return found, nil
}

func (d *Docker) outcomeOf(ctx context.Context, containerID string) (o outcome, gone bool, err error) {
	if o, ok := d.outcomes.get(containerID); ok {
		return o, false, nil
	}
	c, err := d.inspect(ctx, containerID)
	if err != nil || c == nil {
		return outcome{}, c == nil && err == nil, err
	}
	stdout, stderr, err := d.output(ctx, containerID, jobLines)
	if errdefs.IsNotFound(err) {
		return outcome{}, true, nil
	}
	if err != nil {
		err = wrap("reading a storage job's output", err)
		if ctx.Err() != nil || workspace.ReasonOf(err) == workspace.ReasonUnreachable {
			return outcome{}, false, err
		}
		// A log that cannot be read must not blind the sensor for everybody else.
		return outcome{state: workspace.JobFailed, reason: workspace.ReasonActionFailed, message: plain(err.Error(), jobMessageMax)}, false, nil
	}
	o = judgeJob(c.State.ExitCode, c.State.OOMKilled, stdout, stderr)
	d.outcomes.put(containerID, o)
	return o, false, nil
}

// judgeJob tells from a job's exit code and output how it ended.
func judgeJob(code int, outOfMemory bool, stdout, stderr []byte) outcome {
	var result struct {
		Event string `json:"event"`
		OK    bool   `json:"ok"`
		Size  int64  `json:"size"`
		Error string `json:"error"`
	}
	last := lastLine(stdout)
	told := json.Unmarshal(last, &result) == nil && result.Event == "result"
	if code == 0 && told && result.OK {
		return outcome{state: workspace.JobSucceeded, size: result.Size}
	}
	o := outcome{state: workspace.JobFailed, reason: workspace.ReasonActionFailed}
	switch code {
	case exitCorrupted:
		o.reason = workspace.ReasonArchiveCorrupted
	case exitMissing:
		o.reason = workspace.ReasonDataLost
	case exitUnreachable:
		o.reason = workspace.ReasonUnreachable
	}
	switch text := string(lastLine(stderr)); {
	case outOfMemory:
		o.message = "it ran out of memory"
	case told && result.Error != "":
		o.message = result.Error
	case text != "":
		o.message = fmt.Sprintf("exit code %d: %s", code, text)
	case code == 0:
		o.message = "it ended without a result"
	default:
		o.message = fmt.Sprintf("exit code %d", code)
	}
	if code == exitDiskFull {
		o.message = "the disk is full: " + o.message
	}
	o.message = plain(o.message, jobMessageMax)
	return o
}

func lastLine(b []byte) []byte {
	b = bytes.TrimSpace(b)
	return bytes.TrimSpace(b[bytes.LastIndexByte(b, '\n')+1:])
}

// plain makes output fit for a database and a page: valid UTF-8 without NUL, at
// most limit bytes, the first ones.
func plain(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
