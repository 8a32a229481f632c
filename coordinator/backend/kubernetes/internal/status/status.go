// Package status interprets the state of a workspace's Kubernetes objects: whether its container runs, whether it is
// ready, and what it waits for. It also interprets the state of a storage job.
//
// It is pure: it takes objects and returns values. It concludes only what an object proves. A state that may still pass
// counts as pending.
package status

import (
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Container returns the workspace's container from its Pod. A Pod whose [spec.Gate] is still closed does not run and
// has no times: Start must still release it.
func Container(p *corev1.Pod) workspace.Container {
	k := workspace.Container{Volume: mountsHome(p)}
	if over(p, spec.Container) {
		k.ExitCode, k.Cause = end(p, spec.Container)
		k.StartedAt, k.FinishedAt = times(p, spec.Container)
		k.Disrupted = disrupted(p, spec.Container)
		if p.DeletionTimestamp != nil {
			k.Pending = terminating(p)
		}
		return k
	}
	if gated(p) && p.DeletionTimestamp == nil {
		return k
	}
	k.Running, k.Health, k.Pending = true, workspace.HealthStarting, pending(p)
	if c := main(p, spec.Container); c != nil && c.State.Running != nil {
		k.StartedAt = c.State.Running.StartedAt.Time
		k.BasePath = p.Annotations[spec.AnnotationBasePath]
		k.Endpoint = endpoint(p)
		k.Health = health(p, c)
	}
	switch {
	case p.DeletionTimestamp != nil:
		k.Endpoint = "" // its address may soon belong to another Pod
		fallthrough
	case NodeLost(p):
		if !k.StartedAt.IsZero() {
			k.Health = workspace.HealthUnhealthy
		}
	}
	k.Ready = k.Endpoint != "" && k.Health == ""
	k.StartAgain = !k.StartedAt.IsZero() && k.Pending == nil && p.Annotations[spec.AnnotationUnseen] != ""
	return k
}

// mountsHome reports whether the Pod mounts the workspace's own home at the right place.
func mountsHome(p *corev1.Pod) bool {
	claim := workspace.ID(p.Labels[spec.LabelWorkspace]).VolumeName()
	for _, c := range p.Spec.Containers {
		if c.Name != spec.Container {
			continue
		}
		for _, m := range c.VolumeMounts {
			if m.MountPath != spec.Home || m.SubPath != spec.Folder {
				continue
			}
			for _, v := range p.Spec.Volumes {
				if v.Name == m.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim {
					return true
				}
			}
		}
	}
	return false
}

// main returns the status of the container of that name, or nil if there is none yet.
func main(p *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range p.Status.ContainerStatuses {
		if c := &p.Status.ContainerStatuses[i]; c.Name == name {
			return c
		}
	}
	return nil
}

// gated reports whether the Pod waits behind our gate, and not only behind another one.
func gated(p *corev1.Pod) bool {
	for _, g := range p.Spec.SchedulingGates {
		if g.Name == spec.Gate {
			return true
		}
	}
	return false
}

// endpoint returns where the gateway reaches the Pod, host:port, or "" while it has no address.
func endpoint(p *corev1.Pod) string {
	port := p.Annotations[spec.AnnotationPort]
	if p.Status.PodIP == "" || port == "" {
		return ""
	}
	return net.JoinHostPort(p.Status.PodIP, port)
}

// health returns why a Pod whose container c runs is not ready for traffic, or "" if all its containers are ready (SPEC
// 2). A failing probe means unhealthy only if it has passed before.
func health(p *corev1.Pod, c *corev1.ContainerStatus) workspace.Health {
	ready := true
	for _, s := range p.Status.ContainerStatuses {
		ready = ready && s.Ready
	}
	if ready && len(p.Status.ContainerStatuses) == len(p.Spec.Containers) {
		return ""
	}
	since := condition(p, corev1.PodReady).LastTransitionTime.Time
	if c.Started != nil && !*c.Started || !since.After(c.State.Running.StartedAt.Time) {
		return workspace.HealthStarting
	}
	return workspace.HealthUnhealthy
}

// condition returns the Pod's condition of that type, or a zero one.
func condition(p *corev1.Pod, t corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == t {
			return c
		}
	}
	return corev1.PodCondition{}
}

// lost reports whether the Pod's node has stopped reporting. The node controller then sets Ready to False and changes
// nothing else, while the kubelet always adds a reason.
func lost(p *corev1.Pod) bool {
	ready, containers := condition(p, corev1.PodReady), condition(p, corev1.ContainersReady)
	return p.Status.Phase == corev1.PodUnknown || p.Status.Reason == "NodeLost" ||
		ready.Status == corev1.ConditionFalse && ready.Reason == "" && containers.Status == corev1.ConditionTrue
}

// times returns when the container of that name started and ended, as far as its node or the cluster has reported. A
// Pod that its node evicted or refused ends without a container's end.
func times(p *corev1.Pod, name string) (started, finished time.Time) {
	if c := main(p, name); c != nil && c.State.Terminated != nil {
		started, finished = c.State.Terminated.StartedAt.Time, c.State.Terminated.FinishedAt.Time
	}
	for _, t := range []corev1.PodConditionType{corev1.DisruptionTarget, corev1.ContainersReady, corev1.PodReady,
		corev1.PodScheduled} {
		if finished.IsZero() {
			finished = condition(p, t).LastTransitionTime.Time
		}
	}
	if finished.IsZero() {
		finished = p.CreationTimestamp.Time
	}
	if started.Unix() <= 0 { // the node does not know, or says 1970
		started = finished // it never ran
	}
	return started, finished
}
