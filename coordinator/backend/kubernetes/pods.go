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

// undoLimit bounds the removal of what must not stay, when the caller's time is over.
const undoLimit = 10 * time.Second

// removePod kills the Pod and returns when it is gone. The grace period is not 0: that would
// tell the cluster that it is known that its containers do not run any more.
func (b *Backend) removePod(ctx context.Context, p *corev1.Pod) error {
	name, grace := p.Name, int64(1)
	if err := object.Delete(ctx, b.api.Pods, "deleting pod "+name, name,
		object.Incarnation(p.UID, "", &grace, "")); err != nil {
		return err
	}
	return b.awaitGone(ctx, p)
}

// removeUnrun removes a Pod that has not begun to run, at this version only: when its node has said
// more of it, it may have, and is looked at again.
func (b *Backend) removeUnrun(ctx context.Context, p *corev1.Pod) error {
	doing := "replacing pod " + p.Name + ", which has not begun to run"
	err := b.api.Pods.Delete(ctx, p.Name, object.Incarnation(p.UID, p.ResourceVersion, new(int64(1)), ""))
	if err != nil && !object.Missing(err) {
		return object.Changed(doing, err)
	}
	return b.awaitGone(ctx, p)
}

// stuck is the error for a Pod whose end is not confirmed: its containers may still write to
// the volume.
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

// undo removes a Pod that was never released, even if ctx has ended, and returns cause. If
// the removal fails too, the error names both: the next attempt finds the Pod.
func (b *Backend) undo(ctx context.Context, p *corev1.Pod, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoLimit)
	defer cancel()
	if err := b.removePod(ctx, p); err != nil {
		return fmt.Errorf("%w (and removing the pod failed: %w)", cause, err)
	}
	return cause
}
