package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// RemoveFinalizers removes this backend's finalizer from Pods in which nothing runs any more. It looks at the Pods of
// these workspaces, or of all workspaces if there are no ids. As long as a Pod has the finalizer, its deletion, for
// example by the drain of a node, does not finish. It calls may before it changes anything. It costs one request for
// each such Pod, and no others. Any number of processes may call it.
func (b *Backend) RemoveFinalizers(ctx context.Context, may func(context.Context) error, ids ...workspace.ID) error {
	pods, err := list(ctx, b.caches.Pods, "listing pods", ids)
	if err != nil {
		return err
	}
	pods = slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return !status.Releasable(p) })
	if len(pods) == 0 {
		return nil
	}
	if err := may(ctx); err != nil {
		return fmt.Errorf("letting pods go: %w", err)
	}
	var errs []error
	for _, p := range pods {
		errs = append(errs, b.removeFinalizer(ctx, p))
	}
	return errors.Join(errs...)
}

// removeFinalizer removes our finalizer from the Pod, which must be releasable. Nothing else removes it. The request
// fails unless the Pod still has the version that was judged.
func (b *Backend) removeFinalizer(ctx context.Context, p *corev1.Pod) error {
	doing := "letting pod " + p.Name + " go"
	return retryChanged(ctx, doing, func() error {
		others := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == spec.Finalizer })
		_, err := object.Patch(ctx, b.api.Pods, doing, p, map[string]any{
			"metadata": map[string]any{"finalizers": others, "resourceVersion": p.ResourceVersion},
		})
		if !errors.Is(err, backend.ErrChanged) {
			return err
		}
		now, exists, readErr := object.Live(ctx, b.api.Pods, "pod", p.Name)
		if readErr != nil || !exists || now.UID != p.UID || !status.Releasable(now) {
			return readErr
		}
		p = now
		return err
	})
}

// awaitGone returns once that deleted Pod is gone, and removes its finalizer when nothing of it runs any more. It waits
// for at most [object.GoneLimit] after the grace period. It does not wait for a node that does not report.
func (b *Backend) awaitGone(ctx context.Context, p *corev1.Pod, grace time.Duration) error {
	var ended *corev1.Pod // as it was when it was released
	lost := false
	for {
		err := object.Gone(ctx, b.api.Pods, b.caches.Pods, "pod", p.Name, p.UID, func(now *corev1.Pod) error {
			switch {
			case status.Releasable(now) && (ended == nil || ended.ResourceVersion != now.ResourceVersion):
				ended = now
				return errEnded
			case status.NodeLost(now):
				lost = true
				return object.ErrStays
			}
			return nil
		})
		switch {
		case errors.Is(err, errEnded):
			if err := b.removeFinalizer(ctx, ended); err != nil {
				return err
			}
		case errors.Is(err, object.ErrStays) && !lost && grace > object.GoneLimit/2:
			grace -= object.GoneLimit
		case errors.Is(err, object.ErrStays):
			return b.stuck(ctx, p)
		default:
			return err
		}
	}
}

// errEnded means that a deleted object waits until this backend removes its finalizer.
var errEnded = errors.New("it has ended")
