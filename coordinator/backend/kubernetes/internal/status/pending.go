package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pending returns why a Pod that has not ended makes no progress, or nil if nothing blocks it.
func pending(p *corev1.Pod) *workspace.Pending {
	switch {
	case p.DeletionTimestamp != nil:
		return terminating(p)
	case NodeLost(p):
		return &workspace.Pending{Reason: workspace.WaitNodeLost, Message: fmt.Sprintf(
			"its node %s has stopped reporting; the workspace may still run there, and it recovers by itself when the "+
				"node reports again. Look at the node (kubectl describe node %s)",
			p.Spec.NodeName, p.Spec.NodeName)}
	case p.Spec.NodeName == "":
		return unscheduled(p)
	}
	if c := waitingContainer(p); c != nil {
		return starting(p, c)
	}
	if p.Status.Phase != corev1.PodRunning {
		return preparing(p)
	}
	return nil
}

// terminating returns why a deleted Pod is still there. Only the Pod's node can confirm that nothing of the Pod still
// runs. Until it does, the volume is not free.
func terminating(p *corev1.Pod) *workspace.Pending {
	w := &workspace.Pending{Reason: workspace.WaitTerminating}
	by, node := p.DeletionTimestamp.UTC().Format(time.RFC3339), p.Spec.NodeName
	const goesOn = " It continues by itself when the node is back. "
	foreign := slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == spec.Finalizer })
	switch {
	case !InUse(p) && len(foreign) > 0:
		w.Message = fmt.Sprintf("the Pod %s should have been gone by %s and is kept by the finalizers %s: the "+
			"controllers that set them must remove them", p.Name, by, strings.Join(foreign, ", "))
	case !InUse(p):
		w.Message = fmt.Sprintf("the Pod %s should have been gone by %s, and goes as soon as the cluster gets to it", p.Name,
			by)
	case removedNode(p):
		w.Reason = workspace.WaitNodeLost
		w.Message = fmt.Sprintf("its node %[1]s was removed from the cluster before it had confirmed that the Pod "+
			"%[2]s has ended: its programs may still run and write."+goesOn+
			"If the machine is permanently off, say so for each of its Pods: kubectl patch pod %[2]s -n %[3]s "+
			"--type=merge -p '{\"metadata\":{\"finalizers\":null}}'", node, p.Name, p.Namespace)
	case lost(p):
		w.Reason = workspace.WaitNodeLost
		w.Message = fmt.Sprintf("its node %[1]s has stopped reporting, and has not confirmed that the Pod %[2]s "+
			"has ended, which should have been gone by %[3]s."+goesOn+
			"If the machine is permanently off, tell the cluster so: kubectl taint nodes %[1]s "+
			"node.kubernetes.io/out-of-service=nodeshutdown:NoExecute", node, p.Name, by)
	default:
		w.Message = fmt.Sprintf("the Pod %[1]s should have been gone by %[2]s, and its node %[3]s has not confirmed that it "+
			"is. It continues by itself when the node does. If this lasts, look at the node (kubectl "+
			"describe node %[3]s)", p.Name, by, node)
	}
	return w
}

// waitingContainer returns the first waiting container, preferably one that has a reason.
func waitingContainer(p *corev1.Pod) *corev1.ContainerStatus {
	var found *corev1.ContainerStatus
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			w := list[i].State.Waiting
			if w == nil {
				continue
			}
			if !preparation[w.Reason] {
				return &list[i]
			}
			if found == nil {
				found = &list[i]
			}
		}
	}
	return found
}

// preparation are the reasons that a container gives for waiting while its turn has not come yet.
var preparation = map[string]bool{"": true, "ContainerCreating": true, "PodInitializing": true}

// starting returns why the container c of a Pod on a node does not run yet.
func starting(p *corev1.Pod, c *corev1.ContainerStatus) *workspace.Pending {
	reason, message := c.State.Waiting.Reason, text(c.State.Waiting.Message)
	if preparation[reason] {
		return preparing(p)
	}
	if w := image(p, c.Name, reason, message); w != nil {
		return w
	}
	w := &workspace.Pending{Reason: workspace.WaitContainer,
		Message: fmt.Sprintf("the node %s cannot create the container yet and tries again: %s", p.Spec.NodeName,
			cmp.Or(message, reason))}
	why := misconfigured(message)
	if aboutFolder(message) {
		why = unusable(p, message)
	}
	if reason == "CreateContainerConfigError" && why != "" {
		w.Failure, w.Message = workspace.ReasonActionFailed, why
	}
	return w
}

// unusable returns the error of a node that cannot mount a folder of the home at its place. That happens because a node
// does not follow a link that leads out of the volume. It returns "" if the Pod mounts no such folder.
func unusable(p *corev1.Pod, message string) string {
	var paths []string
	for _, c := range p.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if c.Name == spec.Container && strings.HasPrefix(m.SubPath, spec.Folder+"/") {
				paths = append(paths, m.MountPath)
			}
		}
	}
	if len(paths) == 0 {
		return ""
	}
	return fmt.Sprintf("the image or the Pod template has a volume at %s, and the home's own folder there cannot be mounted: "+
		"it must be a folder and not a link. Start the workspace on an image without that VOLUME, and replace the link by a "+
		"folder: %s", strings.Join(paths, ", "), message)
}

// preparing returns what a Pod on a node does before its first container is created. First the node attaches its
// volumes and sets up its network, then it pulls the images.
func preparing(p *corev1.Pod) *workspace.Pending {
	node := p.Spec.NodeName
	switch condition(p, corev1.PodReadyToStartContainers).Status {
	case corev1.ConditionTrue:
		return &workspace.Pending{Reason: workspace.WaitPullingImage,
			Message: fmt.Sprintf("the node %s pulls the image %s, unless it has it, and creates the container", node,
				imageOf(p, ""))}
	case corev1.ConditionFalse:
		return &workspace.Pending{Reason: workspace.WaitVolume,
			Message: fmt.Sprintf("the node %s attaches the home volume and sets up the Pod's network. If that takes "+
				"minutes, the volume may still be attached to another node, or the network of this one does not "+
				"work: the events of the Pod say why (kubectl describe pod %s)", node, p.Name)}
	}
	return &workspace.Pending{Reason: workspace.WaitContainer,
		Message: fmt.Sprintf("the node %[1]s has not started on it yet; if this lasts, look at the node (kubectl "+
			"describe node %[1]s)", node)}
}
