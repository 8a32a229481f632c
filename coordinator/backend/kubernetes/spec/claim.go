package spec

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
)

// Claim returns the claim of a workspace's home.
func Claim(o Options, s backend.VolumeSpec) *corev1.PersistentVolumeClaim {
	o = o.withDefaults()
	c := &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.ID.VolumeName(), Labels: owned(Labels(o.Installation, s.ID, KindHome), s.Owner),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.PersistentVolumeAccessMode(o.AccessMode)},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: inBytes(o.HomeBytes)},
			},
		},
	}
	if s.OpID != "" {
		c.Labels[LabelOp] = s.OpID
	}
	if o.StorageClass != "" {
		c.Spec.StorageClassName = &o.StorageClass
	}
	return c
}

// Grow returns the merge patch (application/merge-patch+json) that enlarges a home to the configured size. Grow returns
// nil if the home is large enough, or if it cannot grow because it is not bound yet. The patch names the claim's
// incarnation and version, so that it fails if the claim was replaced or changed. A storage class whose volumes cannot
// grow refuses it.
func Grow(o Options, c *corev1.PersistentVolumeClaim) []byte {
	want := inBytes(o.withDefaults().HomeBytes)
	if c.DeletionTimestamp != nil || c.Status.Phase != corev1.ClaimBound ||
		want.Cmp(c.Spec.Resources.Requests[corev1.ResourceStorage]) <= 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": c.UID, "resourceVersion": c.ResourceVersion},
		"spec":     map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": want.String()}}},
	})
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	return patch
}
