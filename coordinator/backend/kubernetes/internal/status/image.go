package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/internal/registry"
	"github.com/codehub/gateway/coordinator/workspace"
)

// image returns why the image of the container cannot be pulled, or nil if the container waits for something else. A
// first refusal may be the registry's mistake. If the registry refuses again after the node has waited and retried, the
// attempt to start the workspace fails.
func image(p *corev1.Pod, container, reason, message string) *workspace.Pending {
	ref, node := imageOf(p, container), p.Spec.NodeName
	w := &workspace.Pending{Reason: workspace.WaitPullingImage}
	switch reason {
	case "InvalidImageName":
		w.Failure = workspace.ReasonImagePullFailed
		w.Message = fmt.Sprintf("%q is not the name of an image: %s", ref, message)
	case "ErrImageNeverPull":
		w.Failure = workspace.ReasonImagePullFailed
		w.Message = fmt.Sprintf("the node %s does not have the image %s, and the Pod template of the settings "+
			"forbids pulling it", node, ref)
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		why := pullError(message)
		w.Message = fmt.Sprintf("the node %s cannot pull the image %s and tries again; check that it reaches the "+
			"registry: %s", node, ref, why)
		backedOff, verdict := reason == "ImagePullBackOff", registry.Judge(why)
		switch {
		case verdict == registry.Absent:
			w.Message = fmt.Sprintf("the registry does not have the image %s, or not for this kind of node: %s", ref,
				why)
		case verdict == registry.Denied:
			w.Message = fmt.Sprintf("the registry refuses the image %s: it does not exist there, or the pull secrets "+
				"of the settings do not open it: %s", ref, why)
		case reason == "SignatureValidationFailed":
			w.Message = fmt.Sprintf("the node %s refuses the image %s, because its signature is not valid: %s",
				node, ref, why)
		default:
			backedOff = false
		}
		if backedOff {
			w.Failure = workspace.ReasonImagePullFailed
		} else {
			w.Cause = registry.Cause(why)
		}
	default:
		return nil
	}
	return w
}

// imageOf returns the image of the Pod's container of that name, or of its first one.
func imageOf(p *corev1.Pod, container string) string {
	for _, list := range [][]corev1.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for _, c := range list {
			if c.Name == container || container == "" {
				return c.Image
			}
		}
	}
	return ""
}
