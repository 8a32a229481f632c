package kubernetes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// jobLines is how many lines at the end of an ended job's output are read: its last line is the result, the others
	// explain a failure. reportLines are read while the job runs.
	jobLines    = 50
	reportLines = 20
	// maxMessage bounds the message about unreadable output, and maxOutput the output, in bytes.
	maxMessage = 1000
	maxOutput  = 2 << 20
	// readings is how many outputs are read concurrently.
	readings = 8
)

// Jobs implements [backend.Core]. It makes requests only to read the output of jobs. It reads the output of a job once
// when the job has ended, and repeats that while it fails. It reads the output of each running job at most about once a
// second: see [backend.ReportInterval]. It omits a Job that was created but not started. For the caller such a job does
// not exist yet, and StartJob starts it.
func (b *Backend) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	jobs, err := list(ctx, b.caches.Jobs, "listing storage jobs", ids)
	if err != nil {
		return nil, err
	}
	pods, err := list(ctx, b.caches.Pods, "listing pods", ids)
	if err != nil {
		return nil, err
	}
	byJob := make(map[types.UID][]*corev1.Pod)
	seen := make(map[string]struct{}, 2*len(jobs))
	for _, p := range pods {
		if owner := metav1.GetControllerOf(p); owner != nil && p.Labels[spec.LabelKind] == spec.KindJob {
			byJob[owner.UID] = append(byJob[owner.UID], p)
			seen[string(p.UID)] = struct{}{}
		}
	}
	every := backend.ReportInterval(len(jobs))
	found := make(map[workspace.ID][]workspace.Job, len(jobs))
	var mu sync.Mutex // guards found
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(readings)
	for _, j := range jobs {
		id, err := workspace.ParseID(j.Labels[spec.LabelWorkspace])
		if err != nil || !b.owns(j, id, spec.KindJob) || suspended(j) {
			continue
		}
		seen[string(j.UID)] = struct{}{}
		guard.Go(g, func() error {
			var job workspace.Job
			there := true
			err := guard.Call(guard.Workspace, func() (err error) {
				job, there, err = b.describeJob(gctx, j, byJob[j.UID], every)
				return err
			})
			if err != nil && (answered(ctx, err) || guard.Panicked(err)) {
				job.Unknown, err = backend.ErrorText(err), nil
			}
			if err != nil || !there {
				return err
			}
			job.Kind, job.OpID = workspace.JobKind(j.Labels[spec.LabelJob]), j.Labels[spec.LabelOp]
			mu.Lock()
			defer mu.Unlock()
			found[id] = append(found[id], job)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	b.outcomes.Retain(ids, seen)
	b.reports.Retain(ids, seen)
	b.refusals.Retain(ids, seen)
	return found, nil
}

// workspaceOf returns the workspace that an object of this installation belongs to.
func workspaceOf(o metav1.Object) workspace.ID {
	return workspace.ID(o.GetLabels()[spec.LabelWorkspace])
}

// describeJob returns the state of the Job, without its kind and operation. there is false if the Job was removed in
// the meantime.
func (b *Backend) describeJob(ctx context.Context, j *batchv1.Job, pods []*corev1.Pod, every time.Duration) (
	job workspace.Job, there bool, err error) {
	job, last := status.Job(j, pods)
	if last == nil && job.State != workspace.JobRunning {
		if job, last, err = b.withoutPod(ctx, j, job); err != nil {
			return workspace.Job{}, true, err
		}
	}
	if w := job.Pending; w != nil && len(pods) > 0 {
		w.Outdated = !slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return !b.outdated(p) })
	}
	switch {
	case last != nil:
		job, gone, err := b.outcomeOf(ctx, last)
		return job, !gone, err
	case job.State != workspace.JobRunning:
	case len(pods) == 0:
		if job.Pending != nil && job.Pending.Reason == workspace.WaitContainer {
			job.Pending = cmp.Or(b.whyNoPod(ctx, j), job.Pending)
		}
	case job.Pending == nil:
		p := pods[len(pods)-1]
		job.Progress = b.reports.Progress(ctx, workspaceOf(p), string(p.UID), every,
			func(ctx context.Context) ([]byte, error) {
				stdout, _, err := b.output(ctx, p, reportLines)
				return stdout, err
			})
	}
	return job, true, nil
}

// withoutPod confirms that a job has failed and has no Pod that shows why. That must be confirmed because the cache of
// Pods may lag behind the cache of Jobs.
func (b *Backend) withoutPod(ctx context.Context, j *batchv1.Job, job workspace.Job) (
	workspace.Job, *corev1.Pod, error) {
	if known, ok := b.outcomes.Get(workspaceOf(j), string(j.UID)); ok {
		return known, nil, nil
	}
	pods, err := b.livePods(ctx, b.labels(workspaceOf(j), spec.KindJob))
	if err != nil {
		return workspace.Job{}, nil, err
	}
	job, last := status.Job(j, podsOf(j, pods))
	if last == nil && job.State != workspace.JobRunning {
		b.outcomes.Put(workspaceOf(j), string(j.UID), job)
	}
	return job, last, nil
}

// outcomeOf returns how the job of the Pod ended, without its kind and operation. gone means that the Pod was removed
// in the meantime. See [backend.Outcomes] for unreadable output.
func (b *Backend) outcomeOf(ctx context.Context, p *corev1.Pod) (o workspace.Job, gone bool, err error) {
	return b.outcomes.Read(ctx, workspaceOf(p), string(p.UID), func(limited context.Context) (*backend.JobEnd, error) {
		end := status.End(p)
		var err error
		if end.Stdout, end.Stderr, err = b.output(limited, p, jobLines); err == nil {
			return &end, nil
		}
		now, exists, away := object.Live(ctx, b.api.Pods, "pod", p.Name) // perhaps only the log is missing
		switch {
		case away != nil:
			return nil, &backend.AwayError{Err: away}
		case !exists || now.UID != p.UID:
			return nil, nil
		}
		return nil, cluster.Wrap("reading the output of storage job "+p.Name, err)
	})
}

// output returns the last lines that the Pod has printed. The cluster merges the job's two output streams. The form of
// a line shows whether it is a report or a message.
func (b *Backend) output(ctx context.Context, p *corev1.Pod, lines int64) (reports, messages []byte, err error) {
	body, err := b.api.Logs(ctx, p.Name, &corev1.PodLogOptions{Container: spec.JobContainer, TailLines: &lines})
	if err != nil {
		return nil, nil, err
	}
	defer body.Close()
	all, err := io.ReadAll(io.LimitReader(body, maxOutput))
	if err != nil {
		return nil, nil, err
	}
	reports, messages = separate(all)
	return reports, messages, nil
}

// separate separates a storage job's reports, which are JSON objects that name an event, from its messages.
func separate(all []byte) (reports, messages []byte) {
	for line := range bytes.Lines(all) {
		var event struct{ Event string }
		if json.Unmarshal(line, &event) == nil && event.Event != "" {
			reports = append(reports, line...)
		} else {
			messages = append(messages, line...)
		}
	}
	return reports, messages
}
