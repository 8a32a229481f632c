package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// StartJob implements [backend.Core]. It also starts a Job that another process created and did not start, because it
// died in between.
func (b *Backend) StartJob(ctx context.Context, s backend.JobSpec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return retryChanged(ctx, "starting storage job "+spec.JobName(s), func() error { return b.startJob(ctx, s) })
}

// startJob is one attempt of StartJob. It creates the Job suspended. The Job then has no Pod yet, but every start of a
// Pod or of another job sees it. Then it marks the claim of the volume, checks for other users, delivers the grant, and
// only then resumes the Job: see start.
func (b *Backend) startJob(ctx context.Context, s backend.JobSpec) error {
	name := spec.JobName(s)
	var job *batchv1.Job
	var exists bool
	var home *corev1.PersistentVolumeClaim
	g, gctx := errgroup.WithContext(ctx)
	guard.Go(g, func() (err error) { job, exists, err = object.Live(gctx, b.api.Jobs, "storage job", name); return })
	guard.Go(g, func() (err error) { home, err = b.checkHome(ctx, s.ID); return })
	guard.Go(g, func() error { return b.checkNoContainer(gctx, s.ID) })
	refusal := g.Wait()
	if exists {
		if !b.owns(job, s.ID, spec.KindJob) {
			return backend.NotOurs("storage job", name)
		}
		if !suspended(job) && job.DeletionTimestamp == nil {
			return b.showJob(ctx, job)
		}
	}
	if refusal != nil {
		return refusal
	}
	if exists && job.DeletionTimestamp != nil {
		return fmt.Errorf("%w: storage job %s is being deleted", backend.ErrChanged, name)
	}
	if !exists {
		var err error
		want := spec.Job(b.opts, s)
		spec.Near(&want.Spec.Template.Spec, home)
		if limit := b.jobCPU.Load(); limit != nil {
			spec.LimitCPU(&want.Spec.Template.Spec, *limit)
		}
		job, err = b.api.Jobs.Create(ctx, want, metav1.CreateOptions{FieldManager: spec.Manager})
		if apierrors.IsAlreadyExists(err) {
			return backend.ErrChanged
		}
		if err != nil {
			return refused("creating storage job "+name, err)
		}
	}
	g, gctx = errgroup.WithContext(ctx)
	guard.Go(g, func() error { return b.use(gctx, home, s.Owner, job.UID) })
	guard.Go(g, func() error { return b.checkNoContainer(gctx, s.ID) })
	guard.Go(g, func() error { return b.checkNoJob(gctx, s.ID, job.UID) })
	if err := g.Wait(); err != nil {
		return b.undoJob(ctx, job, err)
	}
	if err := b.deliver(ctx, s, job); err != nil {
		if errors.Is(err, backend.ErrChanged) || ctx.Err() != nil {
			return err
		}
		return b.undoJob(ctx, job, err)
	}
	resumed, err := object.Patch(ctx, b.api.Jobs, "starting storage job "+name, job, map[string]any{
		"spec": map[string]any{"suspend": false},
	})
	switch {
	case err == nil:
		return b.showJob(ctx, resumed)
	// The Job may have started nevertheless. It stays, and the next call finds out.
	case errors.Is(err, backend.ErrChanged), ctx.Err() != nil, workspace.ReasonOf(err) == workspace.ReasonUnreachable:
		return err
	}
	return b.undoJob(ctx, job, err)
}

// showJob returns once the cache shows the Job started.
func (b *Backend) showJob(ctx context.Context, j *batchv1.Job) error {
	return object.Shown(ctx, b.api.Jobs, b.caches.Jobs, "storage job", j.Name, j.UID, func(j *batchv1.Job) bool {
		return !suspended(j)
	})
}

// checkHome returns the claim of the home volume, and fails if there is none.
func (b *Backend) checkHome(ctx context.Context, id workspace.ID) (*corev1.PersistentVolumeClaim, error) {
	home, err := b.home(ctx, id)
	if err == nil && home == nil {
		err = noHome(id)
	}
	return home, err
}

// checkNoContainer fails while the workspace's Pod exists. A Pod that does not run yet may be about to run (SPEC 12.4).
func (b *Backend) checkNoContainer(ctx context.Context, id workspace.ID) error {
	_, exists, err := object.Live(ctx, b.api.Pods, "pod", id.ContainerName())
	if err == nil && exists {
		err = fmt.Errorf("pod %s exists; a storage job must be the only user of the volume", id.ContainerName())
	}
	return err
}

// deliver creates the Job's Secret, which the cluster removes together with the Job. A second grant replaces the first,
// which may have expired.
func (b *Backend) deliver(ctx context.Context, s backend.JobSpec, job *batchv1.Job) error {
	if len(s.Grant) == 0 {
		return nil
	}
	want := spec.Grant(b.opts, s, job)
	const doing = "giving the storage job its grant"
	_, err := b.api.Secrets.Create(ctx, want, metav1.CreateOptions{FieldManager: spec.Manager})
	if !apierrors.IsAlreadyExists(err) {
		return cluster.Wrap(doing, err)
	}
	have, exists, err := object.Live(ctx, b.api.Secrets, "secret", want.Name)
	switch {
	case err != nil:
		return err
	case !exists:
		return backend.ErrChanged
	case !b.owns(have, s.ID, spec.KindJob):
		return backend.NotOurs("secret", want.Name)
	case !metav1.IsControlledBy(have, job):
		// The Secret of an earlier Job of the same name.
		if err := object.Delete(ctx, b.api.Secrets, doing, have.Name,
			object.Incarnation(have.UID, "", nil, "")); err != nil {
			return err
		}
		return backend.ErrChanged
	}
	_, err = object.Patch(ctx, b.api.Secrets, doing, have, map[string]any{"data": want.Data})
	return err
}

// undoJob removes a Job that was not started, even if ctx has ended, and returns cause.
func (b *Backend) undoJob(ctx context.Context, j *batchv1.Job, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	err := object.Delete(ctx, b.api.Jobs, "deleting storage job "+j.Name, j.Name,
		object.Incarnation(j.UID, "", nil, metav1.DeletePropagationBackground))
	if err == nil {
		err = object.Gone(ctx, b.api.Jobs, b.caches.Jobs, "storage job", j.Name, j.UID, nil)
	}
	if err != nil {
		return fmt.Errorf("%w (and removing the job failed: %w)", cause, err)
	}
	return cause
}

// DeleteJobs implements [backend.Core].
func (b *Backend) DeleteJobs(ctx context.Context, id workspace.ID) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	// The cluster may not have created the Job's objects yet: look again.
	for {
		jobs, err := b.liveJobs(ctx, id)
		if err != nil {
			return err
		}
		pods, err := b.livePods(ctx, b.labels(id, spec.KindJob))
		if err != nil {
			return err
		}
		g, gctx := errgroup.WithContext(ctx)
		for i := range jobs.Items {
			if j := &jobs.Items[i]; b.owns(j, id, spec.KindJob) {
				guard.Go(g, func() error { return b.removeJob(gctx, j) })
			}
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; b.owns(p, id, spec.KindJob) {
				guard.Go(g, func() error { return b.removePod(gctx, p) })
			}
		}
		if err := g.Wait(); err != nil || len(jobs.Items)+len(pods.Items) == 0 {
			return err
		}
	}
}

// removeJob removes a Job and all its objects, and returns once it is gone. It removes the Secret first. The cluster
// may be creating a Pod that no listing shows yet, and without the Secret that Pod does not start.
func (b *Backend) removeJob(ctx context.Context, j *batchv1.Job) error {
	doing := "deleting storage job " + j.Name
	grant, exists, err := object.Live(ctx, b.api.Secrets, "secret", j.Name)
	if err != nil {
		return err
	}
	if exists && metav1.IsControlledBy(grant, j) {
		if err := object.Delete(ctx, b.api.Secrets, doing, grant.Name,
			object.Incarnation(grant.UID, "", nil, "")); err != nil {
			return err
		}
	}
	// In the foreground: the Job stays until its Pods are gone.
	if err := object.Delete(ctx, b.api.Jobs, doing, j.Name,
		object.Incarnation(j.UID, "", nil, metav1.DeletePropagationForeground)); err != nil {
		return err
	}
	// From now on the cluster creates no Pod for the Job. The Job stays in existence while a Pod that it created a
	// moment ago still exists.
	pods, err := b.livePods(ctx, b.labels(workspaceOf(j), spec.KindJob))
	if err != nil {
		return err
	}
	for _, p := range podsOf(j, pods) {
		if err := b.removePod(ctx, p); err != nil {
			return err
		}
	}
	err = object.Gone(ctx, b.api.Jobs, b.caches.Jobs, "storage job", j.Name, j.UID, nil)
	if errors.Is(err, object.ErrStays) {
		return fmt.Errorf("%s: it is still there after %s; look at it with kubectl describe job %s", doing,
			object.GoneLimit, j.Name)
	}
	return err
}

// refusal is why the cluster refused the Pod of a Job, and when.
type refusal struct {
	at  time.Time
	why *workspace.Pending
}

// refusalEvery is the time between two dry runs for one Job, and refusalLimit bounds each of them.
const (
	refusalEvery = 10 * time.Second
	refusalLimit = 2 * time.Second
)

// whyNoPod finds out why the cluster creates no Pod for the Job. It makes a dry run of the same request, because
// otherwise only events show the reason. It returns nil if the reason is unknown. If a CPU limit would help, all jobs
// get that limit from now on, and this Job is outdated.
func (b *Backend) whyNoPod(ctx context.Context, j *batchv1.Job) *workspace.Pending {
	of, uid := workspaceOf(j), string(j.UID)
	if last, ok := b.refusals.Get(of, uid); ok && time.Since(last.at) < refusalEvery {
		return last.why
	}
	ctx, cancel := context.WithTimeout(ctx, refusalLimit)
	defer cancel()
	next := refusal{at: time.Now()}
	if full, exists, err := object.Live(ctx, b.api.Jobs, "storage job", j.Name); err == nil && exists {
		p := &corev1.Pod{ObjectMeta: *full.Spec.Template.ObjectMeta.DeepCopy(), Spec: full.Spec.Template.Spec}
		p.Name, p.GenerateName = "", j.Name+"-"
		_, err := b.api.Pods.Create(ctx, p, metav1.CreateOptions{
			FieldManager: spec.Manager, DryRun: []string{metav1.DryRunAll},
		})
		next.why = status.Refused(err)
		limit := status.LimitOfCPU(err, *p.Spec.Containers[0].Resources.Limits.Cpu())
		if next.why != nil && b.opts.JobNanoCPUs == 0 && !limit.IsZero() {
			b.jobCPU.Store(&limit)
			next.why.Outdated = true
		}
	}
	b.refusals.Put(of, uid, next)
	return next.why
}
