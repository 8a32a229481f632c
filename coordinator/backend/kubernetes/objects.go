package kubernetes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Objects implements [backend.Core]. It omits the Pods of a Job and its Secret, which go with the Job. It lists the
// Pods of a Job that is gone.
func (b *Backend) Objects(ctx context.Context) ([]backend.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*object.ReadLimit)
	defer cancel()
	own := metav1.ListOptions{LabelSelector: selectorOf(map[string]string{spec.LabelInstallation: b.opts.Installation})}
	pods, err := b.api.Pods.List(ctx, own)
	if err != nil {
		return nil, cluster.Wrap("listing pods", err)
	}
	claims, err := b.api.Claims.List(ctx, own)
	if err != nil {
		return nil, cluster.Wrap("listing volumes", err)
	}
	jobs, err := b.api.Jobs.List(ctx, own)
	if err != nil {
		return nil, cluster.Wrap("listing storage jobs", err)
	}
	var all []backend.Object
	add := func(kind backend.ObjectKind, o metav1.Object) {
		labels := o.GetLabels()
		all = append(all, backend.Object{
			Kind: kind, Name: o.GetName(), Workspace: workspace.ID(labels[spec.LabelWorkspace]),
			OpID:    labels[spec.LabelOp],
			Created: o.GetCreationTimestamp().Time, UID: string(o.GetUID()),
		})
	}
	there := make(map[types.UID]bool, len(jobs.Items))
	for i := range jobs.Items {
		if j := &jobs.Items[i]; j.Labels[spec.LabelKind] == spec.KindJob {
			there[j.UID] = true
			add(backend.ObjectJob, j)
		}
	}
	for i := range pods.Items {
		switch p := &pods.Items[i]; p.Labels[spec.LabelKind] {
		case spec.KindWorkspace:
			add(backend.ObjectContainer, p)
		case spec.KindJob:
			if owner := metav1.GetControllerOf(p); owner == nil || !there[owner.UID] {
				add(backend.ObjectJob, p)
			}
		}
	}
	for i := range claims.Items {
		if c := &claims.Items[i]; c.Labels[spec.LabelKind] == spec.KindHome {
			add(backend.ObjectVolume, c)
		}
	}
	return backend.ByOwnClock(ctx, all, b.api.Now)
}

// Remove implements [backend.Core]. It reads the labels again first, because o may come from an operator.
func (b *Backend) Remove(ctx context.Context, o backend.Object) error {
	switch o.Kind {
	case backend.ObjectContainer:
		return b.removePodOf(ctx, o)
	case backend.ObjectJob:
		j, exists, err := object.Live(ctx, b.api.Jobs, "storage job", o.Name)
		if err != nil {
			return err
		}
		if !exists || string(j.UID) != o.UID {
			return b.removePodOf(ctx, o)
		}
		if j.Labels[spec.LabelInstallation] != b.opts.Installation {
			return backend.NotOurs("storage job", o.Name)
		}
		return b.removeJob(ctx, j)
	case backend.ObjectVolume:
		// Whether a volume is in use is known only for homes. If the volume has another name, such as a copy that a
		// backup restored with its labels, an operator must decide about it.
		if o.Name != o.Workspace.VolumeName() {
			return fmt.Errorf("removing volume %s: it has the labels of a home but not its name, %s; look at "+
				"it, and remove it with kubectl", o.Name, o.Workspace.VolumeName())
		}
		return b.deleteVolume(ctx, o.Workspace, func(c *corev1.PersistentVolumeClaim) bool {
			return string(c.UID) == o.UID
		})
	}
	return fmt.Errorf("removing %s %s: unknown kind of object", o.Kind, o.Name)
}

// removePodOf removes the object's Pod, if it still exists.
func (b *Backend) removePodOf(ctx context.Context, o backend.Object) error {
	p, exists, err := object.Live(ctx, b.api.Pods, "pod", o.Name)
	if err != nil || !exists || string(p.UID) != o.UID {
		return err
	}
	if p.Labels[spec.LabelInstallation] != b.opts.Installation {
		return backend.NotOurs("pod", o.Name)
	}
	return b.removePod(ctx, p)
}
