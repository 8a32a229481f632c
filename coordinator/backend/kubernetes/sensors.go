package kubernetes

import (
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// list returns the cached objects of the workspaces in ids, or of all workspaces if ids is empty.
func list[T object.Object](ctx context.Context, k interface {
	List(ctx context.Context, ids ...workspace.ID) ([]T, error)
}, doing string, ids []workspace.ID) ([]T, error) {
	if err := ctx.Err(); err != nil {
		return nil, cluster.Wrap(doing, err)
	}
	found, err := k.List(ctx, ids...)
	return found, cluster.Wrap(doing, err)
}

// Containers implements [backend.Core]. It sends no request.
func (b *Backend) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	pods, err := list(ctx, b.caches.Pods, "listing pods", ids)
	if err != nil {
		return nil, err
	}
	found := make(map[workspace.ID]workspace.Container, len(pods))
	for _, p := range pods {
		id, err := workspace.ParseID(p.Labels[spec.LabelWorkspace])
		if err == nil && b.owns(p, id, spec.KindWorkspace) && p.Name == id.ContainerName() {
			var c workspace.Container
			if err := guard.Call(guard.Workspace, func() error {
				if c = status.Container(p); c.Pending != nil {
					c.Pending.Outdated = b.outdated(p)
				}
				return nil
			}); err != nil {
				c = workspace.Container{Unknown: backend.ErrorText(err)}
			}
			found[id] = c
		}
	}
	return found, nil
}

// Outdated implements [backend.Backend].
func (b *Backend) Outdated(ctx context.Context, s backend.StartSpec) bool {
	want, err := spec.Pod(b.opts, s)
	if err != nil {
		return false
	}
	pods, err := list(ctx, b.caches.Pods, "listing pods", []workspace.ID{s.ID})
	return err == nil && slices.ContainsFunc(pods, func(p *corev1.Pod) bool {
		return b.owns(p, s.ID, spec.KindWorkspace) && p.Name == want.Name && differs(p, want)
	})
}

// differs reports whether the Pod was created from another spec than want, and was released but has never begun to run.
func differs(p, want *corev1.Pod) bool {
	return status.NeverRan(p) && p.Annotations[spec.AnnotationSpec] != want.Annotations[spec.AnnotationSpec]
}

// outdated reports whether the Pod has never begun to run and was created from settings other than the current ones.
// The earlier settings may be what blocks the Pod, and a change of the settings does not reach an existing Pod.
func (b *Backend) outdated(p *corev1.Pod) bool {
	return status.NeverRan(p) && p.Annotations[spec.AnnotationSettings] != b.settings
}

// Volumes implements [backend.Core]. It sends no request.
func (b *Backend) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	claims, err := list(ctx, b.caches.Claims, "listing volumes", ids)
	if err != nil {
		return nil, err
	}
	found := make(map[workspace.ID]workspace.Volume, len(claims))
	for _, c := range claims {
		id, err := workspace.ParseID(c.Labels[spec.LabelWorkspace])
		if err == nil && b.owns(c, id, spec.KindHome) && c.Name == id.VolumeName() {
			var v workspace.Volume
			if err := guard.Call(guard.Workspace, func() error { v = status.Volume(c); return nil }); err != nil {
				v = workspace.Volume{Unknown: backend.ErrorText(err)}
			}
			found[id] = v
		}
	}
	return found, nil
}

// answered reports whether err concerns only one object. The cluster has then answered, even if a node has not. Only
// the state of that object is unknown (SPEC 2).
func answered(ctx context.Context, err error) bool {
	var status apierrors.APIStatus
	return ctx.Err() == nil && !errors.Is(err, context.Canceled) &&
		(workspace.ReasonOf(err) != workspace.ReasonUnreachable || errors.As(err, &status))
}
