package status

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
)

// over reports whether the Pod, or its container of that name, has ended. Another container of the Pod may still use
// the volume: see [InUse].
func over(p *corev1.Pod, name string) bool {
	if terminal(p) && !InUse(p) {
		return true
	}
	c := main(p, name)
	return c != nil && c.State.Terminated != nil && p.Spec.RestartPolicy == corev1.RestartPolicyNever
}

// The reasons of a container's end, and their meaning. A Completed or Error container ended by itself: its exit code is
// enough.
const (
	reasonOOM     = "OOMKilled"
	reasonStart   = "StartError"
	reasonUnknown = "ContainerStatusUnknown" // the node came back and no longer knows it
	reasonCannot  = "ContainerCannotRun"
)

// unknownExit is the exit code that is reported for a container that was evicted before it could end. It is the code
// that engines report after a SIGKILL.
const unknownExit = 137

// end returns how the Pod's container of that name ended: its exit code, and the cause if the code alone does not
// explain enough.
func end(p *corev1.Pod, name string) (code int, cause string) {
	state := ended(p, name)
	if state == nil {
		return unknownExit, putOut(p)
	}
	switch cause = putOut(p); state.Reason {
	case reasonOOM:
		cause = "it ran out of memory"
	case reasonStart, reasonCannot:
		cause = cmp.Or(cause, "it could not be started: "+text(state.Message))
	case reasonUnknown:
		cause = cmp.Or(cause, "its node no longer knows it")
	}
	return int(state.ExitCode), cause
}

// ended returns the end that counts for the Pod: the end of the container of that name. If that container has not
// ended, it is the end of a container that failed, such as an init container from the template.
func ended(p *corev1.Pod, name string) *corev1.ContainerStateTerminated {
	if c := main(p, name); c != nil && c.State.Terminated != nil {
		return c.State.Terminated
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if t := c.State.Terminated; t != nil && t.ExitCode != 0 {
				return t
			}
		}
	}
	return nil
}

// putOut returns why the cluster or the node ended the Pod, or "" if it ended by itself.
func putOut(p *corev1.Pod) string {
	target := condition(p, corev1.DisruptionTarget)
	switch {
	case p.Status.Reason == "Evicted":
		return "its node evicted it: " + text(p.Status.Message) + advice(p.Status.Message)
	case p.Status.Reason == "Preempting", target.Status == corev1.ConditionTrue &&
		target.Reason == corev1.PodReasonPreemptionByScheduler:
		return "it gave way to a Pod of higher priority; raise the priority class of workspaces in the settings, " +
			"or add nodes"
	case target.Status == corev1.ConditionTrue && target.Reason == "DeletionByPodGC":
		return fmt.Sprintf("its node %s no longer exists", p.Spec.NodeName)
	case target.Status == corev1.ConditionTrue && target.Reason == "DeletionByTaintManager":
		return fmt.Sprintf("its node %s was given a taint that workspaces do not tolerate, or did not report "+
			"for too long", p.Spec.NodeName)
	case target.Status == corev1.ConditionTrue && target.Reason == "EvictionByEvictionAPI":
		return fmt.Sprintf("its node %s was drained", p.Spec.NodeName)
	case p.Status.Reason == "Terminated", p.Status.Reason == "NodeShutdown":
		return fmt.Sprintf("its node %s was shut down", p.Spec.NodeName)
	case p.Status.Reason != "":
		return strings.TrimSuffix(fmt.Sprintf("its node %s did not keep it: %s: %s", p.Spec.NodeName, p.Status.Reason,
			text(p.Status.Message)), ": ")
	case target.Status == corev1.ConditionTrue:
		return strings.TrimSuffix("the cluster ended it: "+cmp.Or(target.Reason, "no reason is given")+": "+
			text(target.Message), ": ")
	}
	return ""
}

// disrupted reports whether something outside the Pod ended its container of that name: the cluster, its node, or a
// deletion of the Pod. It is also true if no container of the Pod has a recorded end. A container that exceeds its own
// limits ends by itself.
func disrupted(p *corev1.Pod, name string) bool {
	state := ended(p, name)
	switch {
	case p.Status.Reason == "Evicted":
		return !beyondItsLimit(p.Status.Message)
	case putOut(p) != "", state == nil, state.Reason == reasonUnknown:
		return true
	case p.DeletionTimestamp == nil:
		return false
	}
	asked := p.DeletionTimestamp.Time // when it should be gone
	if grace := p.DeletionGracePeriodSeconds; grace != nil {
		asked = asked.Add(-time.Duration(*grace) * time.Second)
	}
	return !state.FinishedAt.Time.Before(asked.Add(-deletionSlack))
}

// deletionSlack is how much later than requested a Pod may appear to be deleted. Times are in whole seconds. When the
// deletion ends, the cluster also replaces the grace period (one second for our deletions) by 0.
const deletionSlack = 2 * time.Second

// maxText bounds quoted messages of the cluster, in bytes.
const maxText = 1000

// text makes a message of the cluster fit on one line.
func text(s string) string {
	return backend.CleanText(strings.TrimRight(strings.Join(strings.Fields(s), " "), ". "), maxText)
}
