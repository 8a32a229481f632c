package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/sampler"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// annotationUser is the uid of the last Pod or Job that began to use a volume. Nothing reads it: its purpose is that
// each new user changes the version of the claim (see use).
const annotationUser = "codehub.dev/used-by"

// Start implements [backend.Core]. It replaces a Pod that has ended, and one that has never begun to run and was
// created from another spec or other settings. A running Pod stays as it is, unless its image hides folders of the
// home: see [Backend.see]. Start also releases a Pod that a dead process created from the same spec and never released.
func (b *Backend) Start(ctx context.Context, s backend.StartSpec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return retryChanged(ctx, "starting pod "+s.ID.ContainerName(), func() error { return b.start(ctx, s) })
}

// start is one attempt of Start. It creates the Pod with a scheduling gate, and then marks the claim of the volume. It
// checks that no job uses the volume, and only then removes the gate. A job does the same from the other side, so that
// at least one of the two sees the other and gives way (SPEC 12.4). A Pod that fails a check is removed without having
// run.
func (b *Backend) start(ctx context.Context, s backend.StartSpec) error {
	id, name := s.ID, s.ID.ContainerName()
	var pod *corev1.Pod
	var exists bool
	var home *corev1.PersistentVolumeClaim
	g, gctx := errgroup.WithContext(ctx)
	guard.Go(g, func() (err error) { pod, exists, err = object.Live(gctx, b.api.Pods, "pod", name); return })
	guard.Go(g, func() (err error) { home, err = b.home(gctx, id); return })
	err := g.Wait()
	want, wrong := spec.Pod(b.opts, s)
	replaces := exists && wrong == nil && differs(pod, want)
	if exists {
		if !b.owns(pod, id, spec.KindWorkspace) {
			return backend.NotOurs("pod", name)
		}
		if runs(pod) && !replaces {
			if pod.Annotations[spec.AnnotationUnseen] == "" || !sampler.Running(pod) || err == nil && home == nil {
				return b.showPod(ctx, pod)
			}
			if err != nil {
				return err
			}
			var removed bool
			if home, removed, err = b.see(ctx, pod, home); err != nil || !removed {
				return err
			}
			exists = false
		}
	}
	if err == nil {
		err = wrong
	}
	if err != nil {
		return err
	}
	if home == nil {
		return noHome(id)
	}
	if err := b.checkIsolated(ctx); err != nil {
		return err
	}
	if exists && (pod.DeletionTimestamp != nil || !gated(pod) ||
		pod.Annotations[spec.AnnotationSpec] != want.Annotations[spec.AnnotationSpec]) {
		// The Pod has ended, is being deleted, or was created from another spec. Its changes outside the home are not
		// kept. A Pod that has not begun to run is removed only if it still has not begun.
		remove := b.removePod
		if replaces {
			remove = b.removeUnrun
		}
		if err := remove(ctx, pod); err != nil {
			return err
		}
		exists = false
	}
	if !exists {
		spec.MountFolders(want, spec.FoldersOf(home, want.Annotations[spec.AnnotationUnseen]))
		pod, err = b.api.Pods.Create(ctx, want, metav1.CreateOptions{FieldManager: spec.Manager})
		if apierrors.IsAlreadyExists(err) {
			return backend.ErrChanged
		}
		if err != nil {
			return refused("creating pod "+name, err)
		}
	}
	g, gctx = errgroup.WithContext(ctx)
	guard.Go(g, func() error { return b.use(gctx, home, s.Owner, pod.UID) })
	guard.Go(g, func() error { return b.checkNoJob(gctx, id, "") })
	if err := g.Wait(); err != nil {
		return b.undo(ctx, pod, err)
	}
	gates := slices.DeleteFunc(slices.Clone(pod.Spec.SchedulingGates), func(g corev1.PodSchedulingGate) bool {
		return g.Name == spec.Gate
	})
	released, err := object.Patch(ctx, b.api.Pods, "releasing pod "+name, pod, map[string]any{
		"spec": map[string]any{"schedulingGates": gates},
	})
	switch {
	case err == nil:
		return b.showPod(ctx, released)
	// The Pod may have been released nevertheless. It stays. The next call finds it starting, or releases it.
	case errors.Is(err, backend.ErrChanged), ctx.Err() != nil, workspace.ReasonOf(err) == workspace.ReasonUnreachable:
		return err
	}
	return b.undo(ctx, pod, err)
}

// showPod returns once the cache shows the Pod released.
func (b *Backend) showPod(ctx context.Context, p *corev1.Pod) error {
	return object.Shown(ctx, b.api.Pods, b.caches.Pods, "pod", p.Name, p.UID, func(p *corev1.Pod) bool {
		return !gated(p)
	})
}

// gated reports whether the Pod has not been released yet.
func gated(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool {
		return g.Name == spec.Gate
	})
}

// runs reports whether the Pod is running or starting, as listings show it.
func runs(p *corev1.Pod) bool {
	return p.DeletionTimestamp == nil && !gated(p) && status.Container(p).Running
}

// noHome is the error for a missing home volume (SPEC 1, contract 6).
func noHome(id workspace.ID) error {
	return workspace.Fail(workspace.ReasonContainerWithoutVolume,
		fmt.Errorf("volume %s does not exist, and no container may run without it", id.VolumeName()))
}

// use marks the claim as one that the Pod or Job with this uid begins to use. A process that looked earlier and saw no
// user can no longer remove the volume after that, because its request names the version of the claim that it saw. use
// also adds the owner's label to a claim of an earlier release.
func (b *Backend) use(ctx context.Context, home *corev1.PersistentVolumeClaim, owner string, user types.UID) error {
	meta := map[string]any{"annotations": map[string]any{annotationUser: user}}
	if owner != "" && home.Labels[spec.LabelOwner] != owner {
		meta["labels"] = map[string]any{spec.LabelOwner: owner}
	}
	now, err := object.Patch(ctx, b.api.Claims, "marking volume "+home.Name+" as used", home, map[string]any{
		"metadata": meta,
	})
	if err == nil && now.DeletionTimestamp != nil {
		return beingDeleted(now)
	}
	if err == nil {
		b.grow(ctx, now)
	}
	if why := status.Refused(err); why != nil { // every change of a claim is checked against the LimitRange
		return &workspace.PendingError{Pending: *why, Err: err}
	}
	return err
}

// grow enlarges a home to the configured size. If the storage does not support that, the home stays as it is.
func (b *Backend) grow(ctx context.Context, home *corev1.PersistentVolumeClaim) {
	if change := spec.Grow(b.opts, home); change != nil {
		_, _ = b.api.Claims.Patch(ctx, home.Name, types.MergePatchType, change, metav1.PatchOptions{
			FieldManager: spec.Manager,
		})
	}
}

// beingDeleted is the error for a volume that is being deleted.
func beingDeleted(c *corev1.PersistentVolumeClaim) error {
	return fmt.Errorf("volume %s is being deleted since %s", c.Name, c.DeletionTimestamp.UTC().Format("15:04:05"))
}

// checkNoJob fails while a storage job uses the volume (SPEC 7). It ignores the job with the uid own. It removes a job
// that has not started. A job's Pod counts even if its Job is gone.
func (b *Backend) checkNoJob(ctx context.Context, id workspace.ID, own types.UID) error {
	var jobs *batchv1.JobList
	var pods *corev1.PodList
	g, gctx := errgroup.WithContext(ctx)
	guard.Go(g, func() (err error) { jobs, err = b.liveJobs(gctx, id); return })
	guard.Go(g, func() (err error) { pods, err = b.livePods(gctx, b.labels(id, spec.KindJob)); return })
	if err := g.Wait(); err != nil {
		return err
	}
	busy := func(name string) error {
		return fmt.Errorf("workspace %s: storage job %s uses its volume", id, name)
	}
	for i := range jobs.Items {
		j := &jobs.Items[i]
		if j.UID == own || !b.owns(j, id, spec.KindJob) {
			continue
		}
		if suspended(j) {
			if err := b.removeUnstarted(ctx, j); err != nil {
				return err
			}
			continue
		}
		if !over(j, podsOf(j, pods)) {
			return busy(j.Name)
		}
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if owner := metav1.GetControllerOf(p); owner != nil && owner.UID == own || !status.InUse(p) ||
			!b.owns(p, id, spec.KindJob) {
			continue
		}
		return busy(p.Name)
	}
	return nil
}

// removeUnstarted removes a Job that has not started, if its object still has this version. With a newer version it may
// have started in the meantime. The process that created it can then no longer start it.
func (b *Backend) removeUnstarted(ctx context.Context, j *batchv1.Job) error {
	err := b.api.Jobs.Delete(ctx, j.Name, object.Incarnation(j.UID, j.ResourceVersion, nil,
		metav1.DeletePropagationBackground))
	if err != nil && !object.Missing(err) {
		return object.Changed("removing storage job "+j.Name+", which was never started", err)
	}
	return nil
}

// suspended reports whether the Job has not started yet.
func suspended(j *batchv1.Job) bool { return j.Spec.Suspend != nil && *j.Spec.Suspend }

// over reports whether the Job has ended or never started. Its Pods may still exist, but no more will be created.
func over(j *batchv1.Job, pods []*corev1.Pod) bool {
	job, pod := status.Job(j, pods)
	return pod != nil || job.State != workspace.JobRunning
}

// podsOf returns the Pods of the Job.
func podsOf(j *batchv1.Job, all *corev1.PodList) (own []*corev1.Pod) {
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], j) {
			own = append(own, &all.Items[i])
		}
	}
	return own
}

// labels returns the labels of the workspace's objects of that kind.
func (b *Backend) labels(id workspace.ID, kind string) map[string]string {
	return spec.Labels(b.opts.Installation, id, kind)
}

// livePods lists the Pods with these labels, as the cluster has stored them.
func (b *Backend) livePods(ctx context.Context, labels map[string]string) (*corev1.PodList, error) {
	ctx, cancel := context.WithTimeout(ctx, object.ReadLimit)
	defer cancel()
	list, err := b.api.Pods.List(ctx, metav1.ListOptions{LabelSelector: selectorOf(labels)})
	return list, cluster.Wrap("listing pods", err)
}

// liveJobs lists the storage jobs of the workspace, as the cluster has stored them.
func (b *Backend) liveJobs(ctx context.Context, id workspace.ID) (*batchv1.JobList, error) {
	ctx, cancel := context.WithTimeout(ctx, object.ReadLimit)
	defer cancel()
	list, err := b.api.Jobs.List(ctx, metav1.ListOptions{LabelSelector: selectorOf(b.labels(id, spec.KindJob))})
	return list, cluster.Wrap("listing storage jobs", err)
}

// refused returns the error for an object that the cluster refuses. Reasons that pass, such as a used-up quota, make it
// pending.
func refused(doing string, err error) error {
	why := status.Refused(err)
	err = cluster.Wrap(doing, err)
	if why != nil {
		return &workspace.PendingError{Pending: *why, Err: err}
	}
	return err
}

// Delete implements [backend.Core].
func (b *Backend) Delete(ctx context.Context, id workspace.ID) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	name := id.ContainerName()
	p, exists, err := object.Live(ctx, b.api.Pods, "pod", name)
	if err != nil || !exists {
		return err
	}
	if !b.owns(p, id, spec.KindWorkspace) {
		return backend.NotOurs("pod", name)
	}
	if p.Spec.NodeName != "" {
		b.lastUsed(ctx, id, p.Spec.NodeName)
	}
	return b.endPod(ctx, p, spec.GraceOf(p))
}

// lastUsed records on the home where it was last used. It is a preference, so a failure does not matter.
func (b *Backend) lastUsed(ctx context.Context, id workspace.ID, node string) {
	homes, err := list(ctx, b.caches.Claims, "listing volumes", []workspace.ID{id})
	if err != nil {
		return
	}
	for _, c := range homes {
		if c.Name == id.VolumeName() && b.owns(c, id, spec.KindHome) && c.Annotations[spec.AnnotationNode] != node {
			_, _ = object.Patch(ctx, b.api.Claims, "recording the node of volume "+c.Name, c,
				map[string]any{"metadata": map[string]any{"annotations": map[string]any{spec.AnnotationNode: node}}})
		}
	}
}
