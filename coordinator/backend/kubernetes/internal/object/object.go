// Package object reads and changes single objects of a Kubernetes cluster. It touches one incarnation of an object, and
// never its replacement.
//
// It owns the meaning of the cluster's answers about an object. It also waits until the caches show a change. It must
// not know what the objects are for, nor which of them may be changed.
package object

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

const (
	// ReadLimit bounds a read request, so that a hanging cluster counts as one that does not answer.
	ReadLimit = 15 * time.Second
	// GoneLimit is how long an object may take to disappear after its deletion. A working node needs about two seconds
	// for a Pod.
	GoneLimit = 20 * time.Second
	// shownLimit bounds the time until the watch shows this process's own change.
	shownLimit = 10 * time.Second
	// goneEvery is the interval at which to check whether an object has disappeared.
	goneEvery = 50 * time.Millisecond
)

// Object is the common interface of Kubernetes' objects.
type Object interface {
	runtime.Object
	metav1.Object
}

// Resource makes requests for one kind of object.
type Resource[T Object] interface {
	Get(ctx context.Context, name string, o metav1.GetOptions) (T, error)
	Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions,
		subresources ...string) (T, error)
	Delete(ctx context.Context, name string, o metav1.DeleteOptions) error
}

// Cache shows one kind of object as the watches report it.
type Cache[T Object] interface {
	Await(ctx context.Context, name string, done func(obj T, exists bool) bool) error
}

// Live returns the object as it is stored in the cluster, and whether it exists.
func Live[T Object](ctx context.Context, r Resource[T], what, name string) (obj T, exists bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, ReadLimit)
	defer cancel()
	obj, err = r.Get(ctx, name, metav1.GetOptions{})
	if Missing(err) {
		return obj, false, nil
	}
	if err != nil {
		return obj, false, cluster.Wrap("reading "+what+" "+name, err)
	}
	return obj, true, nil
}

// Patch merges the change into that incarnation of the object.
func Patch[T Object](ctx context.Context, r Resource[T], doing string, obj T, change map[string]any) (T, error) {
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
	next, err := r.Patch(ctx, obj.GetName(), types.MergePatchType, data, metav1.PatchOptions{
		FieldManager: spec.Manager,
	})
	if err != nil {
		return obj, Changed(doing, err)
	}
	return next, nil
}

// Incarnation returns the options to delete that incarnation, and never its replacement. If version is given, the
// deletion fails unless the object still has that version.
func Incarnation(uid types.UID, version string, grace *int64, how metav1.DeletionPropagation) metav1.DeleteOptions {
	o := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: grace}
	if version != "" {
		o.Preconditions.ResourceVersion = &version
	}
	if how != "" {
		o.PropagationPolicy = &how
	}
	return o
}

// Delete requests the deletion of an incarnation, with options from [Incarnation]. If it is gone, or another object has
// its name, Delete returns nil.
func Delete[T Object](ctx context.Context, r Resource[T], doing, name string, o metav1.DeleteOptions) error {
	err := r.Delete(ctx, name, o)
	if Missing(err) || apierrors.IsConflict(err) && o.Preconditions.ResourceVersion == nil {
		return nil
	}
	return cluster.Wrap(doing, err)
}

// Gone returns once that incarnation no longer exists and the cache shows that. If leave is given, Gone calls it with
// each state of the object that it sees meanwhile; the first error of leave ends the wait. The error after GoneLimit
// wraps ErrStays.
func Gone[T Object](ctx context.Context, r Resource[T], k Cache[T], what, name string, uid types.UID,
	leave func(T) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, GoneLimit, ErrStays)
	defer cancel()
	tick := time.NewTicker(goneEvery)
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
			// The cache may not have known it yet.
			var now T
			var exists bool
			if now, exists, err = Live(ctx, r, what, name); err == nil && (!exists || now.GetUID() != uid) {
				return nil
			}
		}
		if errors.Is(context.Cause(ctx), ErrStays) {
			return ErrStays
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

// Shown returns once the cache shows that incarnation in a state that done accepts, or shows another incarnation. So a
// listing after an actuator shows the actuator's effect.
func Shown[T Object](ctx context.Context, r Resource[T], k Cache[T], what, name string, uid types.UID,
	done func(T) bool) error {
	limited, cancel := context.WithTimeout(ctx, shownLimit)
	defer cancel()
	other := false
	err := k.Await(limited, name, func(o T, exists bool) bool {
		other = exists && o.GetUID() != uid
		return other || exists && done(o)
	})
	if err == nil && other {
		// The cache may still show an earlier incarnation.
		if now, exists, readErr := Live(ctx, r, what, name); readErr != nil || !exists || now.GetUID() != uid {
			return readErr
		}
		err = k.Await(limited, name, func(o T, exists bool) bool { return exists && o.GetUID() == uid && done(o) })
	}
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return cluster.Wrap("waiting for news of "+what+" "+name, err)
	}
	// Another process may have removed it before the cache saw it.
	if now, exists, readErr := Live(ctx, r, what, name); readErr != nil || !exists || now.GetUID() != uid {
		return readErr
	}
	return cluster.Wrap("waiting for news of "+what+" "+name, err)
}
