package status

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/workspace"
)

// unscheduled returns why a Pod has no node.
func unscheduled(p *corev1.Pod) *workspace.Pending {
	c := condition(p, corev1.PodScheduled)
	switch {
	case len(p.Spec.SchedulingGates) > 0:
		return &workspace.Pending{Reason: workspace.WaitUnschedulable,
			Message: "the Pod waits behind a scheduling gate that something else in the cluster has set and must open"}
	// the condition is from before our gate was opened
	case c.Status != corev1.ConditionFalse, c.Reason == corev1.PodReasonSchedulingGated:
		return &workspace.Pending{Reason: workspace.WaitUnschedulable,
			Message: "the cluster has not looked for a node yet. After an outage of the API server, its scheduler does so " +
				"up to a minute late, by itself; if this lasts longer, look at the scheduler (kube-scheduler)"}
	}
	w := noNode(text(c.Message))
	return &w
}

// NeverRan reports whether no container of the Pod has ever run, as far as its node has reported. Such a Pod waits for
// a node, or its node waits for an image, a volume or an object that the Pod's template names. It is false for a Pod
// that is still behind our gate.
func NeverRan(p *corev1.Pod) bool {
	if p.DeletionTimestamp != nil || terminal(p) || gated(p) || p.Status.Phase == corev1.PodRunning {
		return false
	}
	for _, s := range states(p) {
		if s.Running != nil || s.Terminated != nil {
			return false
		}
	}
	return true
}

// noNode explains the scheduler's message. If no node can reach the volume, the explanation says so, because another
// node would not help.
func noNode(message string) workspace.Pending {
	said := ". The scheduler says: " + message
	for _, v := range volumeProblems {
		if strings.Contains(message, v.says) {
			return workspace.Pending{Reason: workspace.WaitVolume, Message: v.plain + said}
		}
	}
	m := nodesMessage.FindStringSubmatch(message)
	if m == nil {
		return workspace.Pending{
			Reason: workspace.WaitUnschedulable, Message: "the cluster has no node for it; add a node, or free some" +
				said,
		}
	}
	total, _ := strconv.Atoi(m[1])
	var reasons []string
	far, away, crowded := 0, 0, 0
	list, _, _ := strings.Cut(m[2], ". ") // the rest is about preemption
	for _, part := range strings.Split(strings.TrimSuffix(list, "."), ", ") {
		r := perNode.FindStringSubmatch(part)
		if r == nil {
			reasons = append(reasons, part)
			crowded++
			continue
		}
		n, _ := strconv.Atoi(r[1])
		switch why := r[2]; {
		case elsewhere[why]:
			far += n
			reasons = append(reasons, r[1]+" that cannot reach its home volume")
		case awayTaint.MatchString(why):
			away += n
			reasons = append(reasons, r[1]+" not reporting")
		case strings.HasPrefix(why, "Insufficient "):
			crowded += n
			reasons = append(reasons, r[1]+" with too little "+strings.TrimPrefix(why, "Insufficient ")+" left")
		default:
			crowded += n
			plain := nodeReasons[why]
			if t := taint.FindStringSubmatch(why); plain == "" && t != nil {
				plain = "with the taint " + strings.TrimSuffix(t[1], ": ") + ", which workspaces do not tolerate"
			}
			reasons = append(reasons, r[1]+" "+cmp.Or(plain, why))
		}
	}
	of := fmt.Sprintf(" (of %d nodes: %s)", total, strings.Join(reasons, "; "))
	switch {
	case far > 0 && far >= total:
		return workspace.Pending{Reason: workspace.WaitVolume, Message: "no node of the cluster can reach " +
			"its home volume" + of +
			". The node or the zone that has it is not part of the cluster now: bring it back, or delete the claim " +
			"of the home if it is permanently gone, and recover the workspace from its archive" + said}
	case far > 0 && crowded == 0:
		return workspace.Pending{
			Reason: workspace.WaitVolume, Message: "the node with its home volume does not report" + of +
				". Bring it back; no other node can reach the volume" + said,
		}
	case far > 0:
		return workspace.Pending{
			Reason: workspace.WaitUnschedulable, Message: "the nodes that can reach its home volume have " +
				"no room for it" + of + ". Free some there, or add a node in the same zone" + said,
		}
	case away >= total && total > 0:
		return workspace.Pending{
			Reason: workspace.WaitUnschedulable, Message: "no node of the cluster reports" + of +
				". Look at the nodes (kubectl get nodes)" + said,
		}
	}
	return workspace.Pending{Reason: workspace.WaitUnschedulable, Message: "the cluster has no node for it" + of +
		". Add a node or free some, or change what workspaces need in the settings (resources, node selector, " +
		"tolerations)" + said}
}
