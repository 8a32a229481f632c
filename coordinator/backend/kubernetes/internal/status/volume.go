package status

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Volume returns the workspace's volume from the claim of its home. A claim that is not bound yet counts as a volume,
// because many storage classes create the volume only for the first Pod. A claim that is being deleted, or that has
// lost its volume, is reported neither as present nor as gone.
func Volume(c *corev1.PersistentVolumeClaim) workspace.Volume {
	v := workspace.Volume{OpID: c.Labels[spec.LabelOp], CreatedAt: c.CreationTimestamp.Time}
	switch {
	case c.DeletionTimestamp != nil:
		v.Unknown = fmt.Sprintf("its claim %s was deleted at %s, and disappears when no Pod uses it. Unless a "+
			"workspace or a storage job of this system does, see what uses it (kubectl describe pvc %s). If it was "+
			"deleted by mistake, keep its PersistentVolume %s before the workspace is stopped "+
			"(persistentVolumeReclaimPolicy Retain)",
			c.Name, c.DeletionTimestamp.UTC().Format(time.RFC3339), c.Name, c.Spec.VolumeName)
	case c.Status.Phase == corev1.ClaimLost:
		v.Unknown = fmt.Sprintf("its claim %[1]s has lost its PersistentVolume %[2]s: it was removed, and "+
			"its files may be gone. It continues by itself when the PersistentVolume is back. If it is permanently gone, "+
			"delete the claim (kubectl delete pvc %[1]s) and recover the workspace from its archive", c.Name,
			c.Spec.VolumeName)
	}
	return v
}
