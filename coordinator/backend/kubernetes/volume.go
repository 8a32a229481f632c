package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// home returns the claim of the home volume, or nil if there is none. A claim of another owner is an error. So is a
// claim that is being deleted, because the deletion cannot be undone.
func (b *Backend) home(ctx context.Context, id workspace.ID) (*corev1.PersistentVolumeClaim, error) {
	c, exists, err := object.Live(ctx, b.api.Claims, "volume", id.VolumeName())
	switch {
	case err != nil || !exists:
		return nil, err
	case !b.owns(c, id, spec.KindHome):
		return nil, backend.NotOurs("volume", c.Name)
	case c.DeletionTimestamp != nil:
		return nil, beingDeleted(c)
	}
	return c, nil
}

// Provision implements [backend.Core]. It waits for a previous volume that is being deleted.
func (b *Backend) Provision(ctx context.Context, s backend.VolumeSpec) error {
	if err := s.Validate(); err != nil {
		return err
	}
	return retryChanged(ctx, "creating volume "+s.ID.VolumeName(), func() error { return b.provision(ctx, s) })
}

// provision is one attempt of Provision.
func (b *Backend) provision(ctx context.Context, s backend.VolumeSpec) error {
	id, opID, name := s.ID, s.OpID, s.ID.VolumeName()
	c, err := b.api.Claims.Create(ctx, spec.Claim(b.opts, s), metav1.CreateOptions{FieldManager: spec.Manager})
	if err == nil {
		return b.showClaim(ctx, c)
	}
	if !apierrors.IsAlreadyExists(err) {
		return refused("creating volume "+name, err)
	}
	c, exists, err := object.Live(ctx, b.api.Claims, "volume", name)
	switch {
	case err != nil:
		return err
	case !exists:
		return backend.ErrChanged
	case !b.owns(c, id, spec.KindHome):
		return backend.NotOurs("volume", name)
	case c.DeletionTimestamp != nil:
		return fmt.Errorf("%w: %w", backend.ErrChanged, beingDeleted(c))
	case c.Labels[spec.LabelOp] != opID:
		return workspace.Fail(workspace.ReasonConflict, fmt.Errorf(
			"creating volume %s: it exists and was made by operation %q, not %q; it is left alone", name,
			c.Labels[spec.LabelOp], opID))
	}
	return b.showClaim(ctx, c)
}

// showClaim returns once the cache shows the claim.
func (b *Backend) showClaim(ctx context.Context, c *corev1.PersistentVolumeClaim) error {
	return object.Shown(ctx, b.api.Claims, b.caches.Claims, "volume", c.Name, c.UID,
		func(*corev1.PersistentVolumeClaim) bool { return true })
}

// DeleteVolume implements [backend.Core].
func (b *Backend) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	return b.deleteVolume(ctx, id, func(c *corev1.PersistentVolumeClaim) bool { return c.Labels[spec.LabelOp] == opID })
}

// deleteVolume removes the home volume if meant accepts its claim, and returns once it is gone.
func (b *Backend) deleteVolume(ctx context.Context, id workspace.ID,
	meant func(*corev1.PersistentVolumeClaim) bool) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	name := id.VolumeName()
	doing := "deleting volume " + name
	return retryChanged(ctx, doing, func() error {
		c, exists, err := object.Live(ctx, b.api.Claims, "volume", name)
		if err != nil || !exists {
			return err
		}
		if !b.owns(c, id, spec.KindHome) {
			return backend.NotOurs("volume", name)
		}
		if !meant(c) {
			return nil
		}
		if c.DeletionTimestamp == nil {
			// Each user of the volume first creates its object and then changes the claim: see use. So either
			// checkUnused finds the object, or the claim has a newer version and the deletion fails.
			if err := b.checkUnused(ctx, id); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
			err := b.api.Claims.Delete(ctx, name, object.Incarnation(c.UID, c.ResourceVersion, nil, ""))
			if err != nil && !object.Missing(err) {
				return object.Changed(doing, err)
			}
		}
		err = object.Gone(ctx, b.api.Claims, b.caches.Claims, "volume", name, c.UID, nil)
		if errors.Is(err, object.ErrStays) {
			return b.whyStays(ctx, id, c.UID)
		}
		return err
	})
}

// checkUnused fails with [backend.ErrVolumeInUse] while any Pod mounts the volume, even if the Pod has ended. It also
// fails while an unfinished Job may mount the volume. It looks for Pods of any owner with the workspace's label. It
// removes a Job that has not started, because that Job would use the volume's replacement if it were started later.
func (b *Backend) checkUnused(ctx context.Context, id workspace.ID) error {
	pods, err := b.livePods(ctx, map[string]string{spec.LabelWorkspace: string(id)})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if mounts(&pods.Items[i], id.VolumeName()) {
			return fmt.Errorf("pod %s uses it: %w", pods.Items[i].Name, backend.ErrVolumeInUse)
		}
	}
	jobs, err := b.liveJobs(ctx, id)
	if err != nil {
		return err
	}
	for i := range jobs.Items {
		switch j := &jobs.Items[i]; {
		case !b.owns(j, id, spec.KindJob):
		case suspended(j):
			if err := b.removeUnstarted(ctx, j); err != nil {
				return err
			}
		case !over(j, podsOf(j, pods)):
			return fmt.Errorf("storage job %s uses it: %w", j.Name, backend.ErrVolumeInUse)
		}
	}
	return nil
}

// mounts reports whether the Pod has that volume.
func mounts(p *corev1.Pod, claim string) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim
	})
}

// whyStays returns the error for a deleted claim that does not disappear. The cluster keeps it while any Pod uses it.
func (b *Backend) whyStays(ctx context.Context, id workspace.ID, uid types.UID) error {
	doing := "deleting volume " + id.VolumeName()
	ctx, cancel := context.WithTimeout(ctx, object.ReadLimit)
	defer cancel()
	pods, err := b.api.Pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return cluster.Wrap("listing the pods that use volume "+id.VolumeName(), err)
	}
	for i := range pods.Items {
		if mounts(&pods.Items[i], id.VolumeName()) {
			return fmt.Errorf("%s: it is removed as soon as pod %s, which uses it, is gone: %w", doing,
				pods.Items[i].Name, backend.ErrVolumeInUse)
		}
	}
	c, exists, err := object.Live(ctx, b.api.Claims, "volume", id.VolumeName())
	if err != nil || !exists || c.UID != uid {
		return err
	}
	return fmt.Errorf("%s: it is still there after %s because of its finalizers %v", doing,
		object.GoneLimit, c.Finalizers)
}
