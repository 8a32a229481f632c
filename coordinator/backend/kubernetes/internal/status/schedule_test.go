package status_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheSchedulersMessageIsMadePlain explains messages that the scheduler of a cluster with several nodes wrote. The
// explanation names the reason, the shortage and the remedy.
func TestTheSchedulersMessageIsMadePlain(t *testing.T) {
	const preempts = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	for message, want := range map[string][]string{
		"0/3 nodes are available: 1 Insufficient cpu, 2 Insufficient memory." + preempts:                                                                        {workspace.WaitUnschedulable, "of 3 nodes: 1 with too little cpu left; 2 with too little memory left", "Add a node"},
		"0/2 nodes are available: 1 Too many pods, 1 node(s) were unschedulable.":                                                                               {workspace.WaitUnschedulable, "1 with as many Pods as they may run; 1 cordoned"},
		"0/2 nodes are available: 2 node(s) had untolerated taint {gpu: yes}.":                                                                                  {workspace.WaitUnschedulable, "2 with the taint gpu: yes, which workspaces do not tolerate"},
		"0/2 nodes are available: 2 node(s) had untolerated taint(s).":                                                                                          {workspace.WaitUnschedulable, "2 node(s) had untolerated taint(s)"},
		"0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/not-ready: }." + preempts:                                                 {workspace.WaitUnschedulable, "no node of the cluster reports", "kubectl get nodes"},
		"no nodes available to schedule pods":                                                                                                                   {workspace.WaitUnschedulable, "add a node", "no nodes available to schedule pods"},
		"0/3 nodes are available: 3 node(s) didn't match PersistentVolume's node affinity." + preempts:                                                          {workspace.WaitVolume, "no node of the cluster can reach its home volume", "recover the workspace from its archive"},
		"0/3 nodes are available: 3 node(s) had volume node affinity conflict. preemption: 0/3 nodes are available":                                             {workspace.WaitVolume, "no node of the cluster can reach its home volume"},
		"0/3 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, 2 node(s) didn't match PersistentVolume's node affinity.": {workspace.WaitVolume, "the node with its home volume does not report"},
		"0/3 nodes are available: 1 Insufficient memory, 2 node(s) didn't match PersistentVolume's node affinity.":                                              {workspace.WaitUnschedulable, "the nodes that can reach its home volume have no room"},
		"0/3 nodes are available: 3 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s).":                                                 {workspace.WaitVolume, "PersistentVolume of its home is gone"},
		`0/3 nodes are available: persistentvolumeclaim "h" bound to non-existent persistentvolume "pv".`:                                                       {workspace.WaitVolume, "PersistentVolume of its home is gone"},
		`0/3 nodes are available: persistentvolumeclaim "h" is being deleted.`:                                                                                  {workspace.WaitVolume, "and not by this system"},
		"0/3 nodes are available: 3 node(s) did not have enough free storage.":                                                                                  {workspace.WaitUnschedulable, "3 without room for the volume"},
		"0/3 nodes are available: 3 node(s) exceed max volume count.":                                                                                           {workspace.WaitUnschedulable, "as many volumes as they can attach"},
		"0/3 nodes are available: 3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.":          {workspace.WaitVolume, "another Pod uses its home volume"},
		"0/3 nodes are available: 3 node(s) didn't satisfy a plugin of tomorrow.":                                                                               {workspace.WaitUnschedulable, "3 node(s) didn't satisfy a plugin of tomorrow"},
	} {
		p := real(t).Pods["too-large"]
		for i := range p.Status.Conditions {
			p.Status.Conditions[i].Message = message
		}
		w := status.Container(p).Pending
		if w == nil || w.Reason != want[0] || w.Failure != "" {
			t.Errorf("%s\nwaits for %+v, want %s", message, w, want[0])
			continue
		}
		for _, text := range append(want[1:], "The scheduler says: "+strings.TrimSuffix(message, ".")) {
			if !strings.Contains(w.Message, text) {
				t.Errorf("%s\nis told as %q, which does not say %q", message, w.Message, text)
			}
		}
	}
	for name, want := range map[string]bool{"too-large": true, "foreign-gate": true, "image-absent": true, "mount-fails": true, "gated": false, "running": false,
		"not-ready": false, "exit-0": false, "evicted": false} {
		p := real(t).Pods[name]
		if got := status.NeverRan(p); got != want {
			t.Errorf("%s never ran: %v", name, got)
		}
		if p.DeletionTimestamp = new(metav1.Time); status.NeverRan(p) {
			t.Errorf("%s, which is told to end, is to be replaced", name)
		}
	}
	p := real(t).Pods["image-absent"]
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "first", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
	if status.NeverRan(p) {
		t.Error("a container before the workspace's runs, and it never ran")
	}
	p = real(t).Pods["too-large"]
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulerError", Message: "binding rejected"}}
	if w := status.Container(p).Pending; w == nil || w.Reason != workspace.WaitUnschedulable || !strings.Contains(w.Message, "binding rejected") {
		t.Errorf("an error of the scheduler: %+v", w)
	}
}
