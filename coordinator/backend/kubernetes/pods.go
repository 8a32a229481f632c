package kubernetes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/workspace"
)

// undoLimit bounds a removal after the caller's time has ended.
const undoLimit = 10 * time.Second

// leastGrace is the shortest grace period, in seconds. A period of 0 would tell the cluster that the Pod's containers
// no longer run.
const leastGrace = 1

// removePod kills the Pod and returns once it is gone.
func (b *Backend) removePod(ctx context.Context, p *corev1.Pod) error {
	return b.endPod(ctx, p, leastGrace)
}

// endPod removes the Pod and returns once it is gone. The Pod's containers get the grace period, in seconds, to end.
func (b *Backend) endPod(ctx context.Context, p *corev1.Pod, grace int64) error {
	if err := object.Delete(ctx, b.api.Pods, "deleting pod "+p.Name, p.Name,
		object.Incarnation(p.UID, "", &grace, "")); err != nil {
		return err
	}
	return b.awaitGone(ctx, p, time.Duration(grace)*time.Second)
}

// removeUnrun removes a Pod that has not begun to run, if its object still has this version. A newer version means that
// the Pod may have begun to run, and the caller must look again.
func (b *Backend) removeUnrun(ctx context.Context, p *corev1.Pod) error {
	doing := "replacing pod " + p.Name + ", which has not begun to run"
	err := b.api.Pods.Delete(ctx, p.Name, object.Incarnation(p.UID, p.ResourceVersion, new(int64(leastGrace)), ""))
	if err != nil && !object.Missing(err) {
		return object.Changed(doing, err)
	}
	return b.awaitGone(ctx, p, 0)
}

// stuck is the error for a Pod whose end is not confirmed: its containers may still write to the volume.
func (b *Backend) stuck(ctx context.Context, p *corev1.Pod) error {
	if now, exists, err := object.Live(ctx, b.api.Pods, "pod", p.Name); err == nil && exists {
		p = now
	}
	err := fmt.Errorf("deleting pod %s: its node %q has not confirmed that it has ended", p.Name, p.Spec.NodeName)
	if why := status.Container(p).Pending; why != nil {
		return &workspace.PendingError{Pending: *why, Err: fmt.Errorf("%w: %s", err, why.Message)}
	}
	return err
}

// undo removes a Pod that was never released, even if ctx has ended, and returns cause. If the removal fails too, the
// error contains both causes, and the next attempt finds the Pod.
func (b *Backend) undo(ctx context.Context, p *corev1.Pod, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if err := b.removePod(ctx, p); err != nil {
		return fmt.Errorf("%w (and removing the pod failed: %w)", cause, err)
	}
	return cause
}
