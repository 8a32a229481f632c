package doctor

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// Homes are the volumes of an installation.
type Homes struct {
	// All is the number of homes, and Small the number of homes that are smaller than the setting. The small ones grow
	// at the next start of their workspaces, if the storage supports it.
	All, Small int
	// Refused is the reason why the cluster refuses to enlarge one of the small homes, or nil.
	Refused error
}

// Homes counts the homes, and finds out by a dry run whether one that is too small may grow.
func (d *Doctor) Homes(ctx context.Context) (h Homes, err error) {
	list, err := d.client.Claims.List(ctx, metav1.ListOptions{
		LabelSelector: spec.LabelInstallation + "=" + d.spec.Installation + "," + spec.LabelKind + "=" + spec.KindHome,
	})
	if err != nil {
		return h, cluster.Wrap("listing volumes", err)
	}
	var small *corev1.PersistentVolumeClaim
	var patch []byte
	for i := range list.Items {
		h.All++
		if change := spec.Grow(d.spec, &list.Items[i]); change != nil {
			h.Small++
			small, patch = &list.Items[i], change
		}
	}
	if small == nil {
		return h, nil
	}
	h.Refused, err = refusal("trying to make volume "+small.Name+" larger", func() error {
		_, err := d.client.Claims.Patch(ctx, small.Name, types.MergePatchType, patch, metav1.PatchOptions{
			FieldManager: spec.Manager, DryRun: []string{metav1.DryRunAll},
		})
		return err
	})
	return h, err
}
