package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/status"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// goneLimit is how long an object may take to go after it was deleted; a node that is
	// there needs about two seconds for a Pod.
	goneLimit = 20 * time.Second
	// shownLimit is how long the watch may take to tell of a change of this process's own.
	shownLimit = 10 * time.Second
	// undoLimit bounds the removal of what must not stay, when the caller's time is over.
	undoLimit = 10 * time.Second
)

// object is what Kubernetes' objects have in common.
type object interface {
	runtime.Object
	metav1.Object
}

// resource makes requests for one kind of object.
type resource[T object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// cache is what the watches tell of one kind of object.
type cache[T object] interface {
	Await(ctx context.Context, name string, done func(obj T, exists bool) bool) error
}

// live returns the object as the cluster has stored it, and whether it exists.
func live[T object](ctx context.Context, r resource[T], what, name string) (obj T, exists bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	obj, err = r.Get(ctx, name, metav1.GetOptions{})
	if missing(err) {
		return obj, false, nil
	}
	if err != nil {
		return obj, false, cluster.Wrap("reading "+what+" "+name, err)
	}
	return obj, true, nil
}

// patch merges the change into that incarnation of the object.
func patch[T object](ctx context.Context, r resource[T], doing string, obj T, change map[string]any) (T, error) {
	meta, _ := change["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
		change["metadata"] = meta
	}
	meta["uid"] = obj.GetUID()
	data, err := json.Marshal(change)
	if err != nil {
		return obj, fmt.Errorf("%s: %w", doing, err)
	}
	next, err := r.Patch(ctx, obj.GetName(), types.MergePatchType, data, metav1.PatchOptions{FieldManager: spec.Manager})
	if err != nil {
		return obj, changed(doing, err)
	}
	return next, nil
}

// incarnation are the options to delete that incarnation and none that took its place; at
// that version only, if there is one.
func incarnation(uid types.UID, version string, grace *int64, how metav1.DeletionPropagation) metav1.DeleteOptions {
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: grace}
	if version != "" {
		o.Preconditions.ResourceVersion = &version
	}
	if how != "" {
		o.PropagationPolicy = &how
	}
	return o
}

// ask asks for the deletion of that incarnation. If it is gone, or another one has its
// name, there is nothing to do.
func ask[T object](ctx context.Context, r resource[T], doing, name string, o metav1.DeleteOptions) error {
	err := r.Delete(ctx, name, o)
	if missing(err) || apierrors.IsConflict(err) && o.Preconditions.ResourceVersion == nil {
		return nil
	}
	return cluster.Wrap(doing, err)
}

// gone returns when that incarnation does not exist any more, and the cache shows it. It
// returns earlier with the error of leave, if that is given, about a state of the object. The
// error after goneLimit wraps errStays.
func gone[T object](ctx context.Context, r resource[T], k cache[T], what, name string, uid types.UID, leave func(T) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, goneLimit, errStays)
	defer cancel()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	for {
		var left error
		err := k.Await(ctx, name, func(o T, exists bool) bool {
			there := exists && o.GetUID() == uid
			if there && leave != nil {
				left = leave(o)
			}
			return !there || left != nil
		})
		if left != nil {
			return left
		}
		if err == nil {
			// The cache may not have known of it yet.
			var now T
			var exists bool
			if now, exists, err = live(ctx, r, what, name); err == nil && (!exists || now.GetUID() != uid) {
				return nil
			}
		}
		if errors.Is(context.Cause(ctx), errStays) {
			return errStays
		}
		if err != nil {
			return cluster.Wrap("waiting until "+what+" "+name+" is gone", err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// errStays says that a deleted object did not go in time.
var errStays = errors.New("it was deleted and is still there")

// shown returns when the cache shows that incarnation as done wants it, or another one: a
// listing after an actuator knows what the actuator has done.
func shown[T object](ctx context.Context, r resource[T], k cache[T], what, name string, uid types.UID, done func(T) bool) error {
	limited, cancel := context.WithTimeout(ctx, shownLimit)
	defer cancel()
	other := false
	err := k.Await(limited, name, func(o T, exists bool) bool {
		other = exists && o.GetUID() != uid
		return other || exists && done(o)
	})
	if err == nil && other {
		// It may be one from before, which the cache still shows.
		if now, exists, readErr := live(ctx, r, what, name); readErr != nil || !exists || now.GetUID() != uid {
			return readErr
		}
		err = k.Await(limited, name, func(o T, exists bool) bool { return exists && o.GetUID() == uid && done(o) })
	}
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return cluster.Wrap("waiting for news of "+what+" "+name, err)
	}
	// Another process may have removed it before the cache has seen it.
	if now, exists, readErr := live(ctx, r, what, name); readErr != nil || !exists || now.GetUID() != uid {
		return readErr
	}
	return cluster.Wrap("waiting for news of "+what+" "+name, err)
}

// removePod kills the Pod and returns when it is gone. The grace period is not 0: that would
// tell the cluster that somebody knows that its containers do not run any more.
func (b *Backend) removePod(ctx context.Context, p *corev1.Pod) error {
	name, grace := p.Name, int64(1)
	if err := ask(ctx, b.api.Pods, "deleting pod "+name, name, incarnation(p.UID, "", &grace, "")); err != nil {
		return err
	}
	return b.awaitGone(ctx, p)
}

// stuck is the error for a Pod whose end nobody confirms: its containers may still write to
// the volume.
func (b *Backend) stuck(ctx context.Context, p *corev1.Pod) error {
	if now, exists, err := live(ctx, b.api.Pods, "pod", p.Name); err == nil && exists {
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
