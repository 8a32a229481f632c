package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// InUse reports whether something of the Pod may run, now or later: it is true until the
// opposite is confirmed. While it is true, nothing else may use the Pod's volume, and the Pod
// keeps its [spec.Finalizer]. Once false it stays false.
//
//	node  phase     its containers     besides                        in use
//	none  Pending   none               -                              yes: it may get a node
//	none  Pending   none               told to end                    no: it gets none any more
//	none  terminal  none               -                              no
//	some  Pending   none said          -, or told to end, or by force yes: its node may have begun
//	some  Pending   wait               -, or told to end, or by force yes
//	some  Running   run                -, or told to end, or by force yes
//	some  Running   run                its node does not report       yes: they run on there
//	some  any       have all ended     -                              no: its node says so, and none is started again
//	some  terminal  wait               -                              no: its node has evicted it before they ran
//	some  terminal  none said          -                              no: its node has not taken it
//	some  terminal  run                not told to end                yes: that was not its node's word
//	some  Failed    run, wait, none    DisruptionTarget               yes: its Node object was removed (PodGC), and
//	                said               DeletionByPodGC                the machine was not asked
//	some  Failed    wait, have ended   the same, and PodFailed        no: the machine was back, and its node says so
//	some  Failed    run                told to end with grace 0       no: an administrator has said that the machine
//	                                                                  is off (PodGC, node.kubernetes.io/out-of-service)
//
// "its containers" are those that mount a claim, because no other container can write to a home. "terminal" is
// Succeeded or Failed. A kubelet never reports a terminal phase before all containers have ended, not even for a Pod
// that was deleted by force and has a finalizer (Kubernetes 1.27 and newer). PodGC may report a terminal phase earlier.
// No other component sets a phase.
func InUse(p *corev1.Pod) bool {
	switch {
	case p.Spec.NodeName == "":
		return p.DeletionTimestamp == nil && !terminal(p)
	case allEnded(p):
		return false
	case !terminal(p):
		return true
	case removedNode(p):
		return anyRuns(p) || !nodeConfirmed(p)
	case anyRuns(p):
		return p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 0
	}
	return false
}

// Releasable reports whether the Pod has our finalizer and no longer needs it.
func Releasable(p *corev1.Pod) bool {
	return slices.Contains(p.Finalizers, spec.Finalizer) && !InUse(p)
}

// NodeLost reports whether the Pod's node is lost at the moment: it does not report, or was removed from the cluster
// while the Pod was in use.
func NodeLost(p *corev1.Pod) bool { return InUse(p) && (lost(p) || removedNode(p)) }

// terminal reports whether the Pod's phase is final.
func terminal(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// removedNode reports whether the Pod was ended because its Node object does not exist.
func removedNode(p *corev1.Pod) bool {
	c := condition(p, corev1.DisruptionTarget)
	return terminal(p) && c.Status == corev1.ConditionTrue && c.Reason == "DeletionByPodGC"
}

// nodeConfirmed reports whether the kubelet itself reported the terminal phase: only the kubelet gives the conditions a
// reason.
func nodeConfirmed(p *corev1.Pod) bool {
	reason := condition(p, corev1.ContainersReady).Reason
	return reason == "PodFailed" || reason == "PodCompleted"
}

// anyRuns reports whether a container that uses a volume was last seen running, including ephemeral containers.
func anyRuns(p *corev1.Pod) bool {
	for name, s := range states(p) {
		if s.Running != nil && usesVolume(p, name) {
			return true
		}
	}
	return false
}

// allEnded reports whether each container that uses a volume has ended permanently. The Pod's phase shows the end only
// a moment later. If the cluster has added a container that keeps running, such as a service mesh's proxy, the phase
// never shows it.
func allEnded(p *corev1.Pod) bool {
	if p.Spec.RestartPolicy != corev1.RestartPolicyNever || anyRuns(p) {
		return false
	}
	state := states(p)
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			if len(c.RestartPolicyRules) > 0 { // these may start each container again
				return false
			}
			// it may be between two runs
			restarts := c.RestartPolicy != nil && *c.RestartPolicy != corev1.ContainerRestartPolicyNever
			if usesVolume(p, c.Name) && (restarts || state[c.Name].Terminated == nil) {
				return false
			}
		}
	}
	return len(state) > 0
}

// states returns the states of the Pod's containers of all kinds, by name.
func states(p *corev1.Pod) map[string]corev1.ContainerState {
	all := make(map[string]corev1.ContainerState, len(p.Status.ContainerStatuses))
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses,
		p.Status.EphemeralContainerStatuses} {
		for _, c := range list {
			all[c.Name] = c.State
		}
	}
	return all
}

// usesVolume reports whether the container of that name may use a home. It is false for a container without a claim if
// another container mounts one.
func usesVolume(p *corev1.Pod, name string) bool {
	known, mounts, others := false, false, false
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for _, c := range list {
			mounted := slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool {
				return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
					return v.Name == m.Name && v.PersistentVolumeClaim != nil
				})
			})
			if c.Name == name {
				known, mounts = true, mounted
			}
			others = others || mounted
		}
	}
	return mounts || !known || !others
}
