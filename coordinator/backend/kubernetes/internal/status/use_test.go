package status_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// TestInUse: the table of InUse. A volume counts as free only once a component that can know it reports so.
func TestInUse(t *testing.T) {
	told := func(grace int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: p.CreationTimestamp.Time}, &grace
		}
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	silent := func(p *corev1.Pod) { p.Status = corev1.PodStatus{Phase: corev1.PodPending} }
	var (
		running = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		over    = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	)
	ended := func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = over }
	confirmed := func(p *corev1.Pod) {
		for i := range p.Status.Conditions {
			if c := &p.Status.Conditions[i]; c.Type == corev1.ContainersReady {
				c.Status, c.Reason = corev1.ConditionFalse, "PodFailed"
			}
		}
	}
	// beside adds another container to the Pod, with or without a mount of the home. It is an init container, or one
	// that runs beside the workspace's.
	beside := func(init, home bool, restart corev1.ContainerRestartPolicy, state corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			c := corev1.Container{Name: "other"}
			if home {
				c.VolumeMounts = p.Spec.Containers[0].VolumeMounts
			}
			if restart != "" {
				c.RestartPolicy = &restart
			}
			s := corev1.ContainerStatus{Name: "other", State: state}
			if init {
				p.Spec.InitContainers, p.Status.InitContainerStatuses = []corev1.Container{c}, []corev1.ContainerStatus{s}
				return
			}
			p.Spec.Containers, p.Status.ContainerStatuses = append(p.Spec.Containers, c), append(p.Status.ContainerStatuses, s)
		}
	}
	debug := func(state corev1.ContainerState) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{Name: "debugger", State: state}}
		}
	}
	type changes []func(*corev1.Pod)
	for name, c := range map[string]struct {
		from    string
		changes changes
		want    bool
	}{
		"behind the gate":                     {"gated", nil, true},
		"behind the gate, and told to end":    {"gated", changes{told(0)}, false},
		"no node yet":                         {"too-large", nil, true},
		"no node, and told to end":            {"too-large", changes{told(0)}, false},
		"no node, and failed":                 {"too-large", changes{phase(corev1.PodFailed)}, false},
		"bound, and its node silent":          {"running", changes{silent}, true},
		"bound, silent, and told to end":      {"running", changes{silent, told(1)}, true},
		"bound, silent, and removed by force": {"running", changes{silent, told(0)}, true},
		"being made":                          {"mount-fails", nil, true},
		"being made, removed by force":        {"mount-fails", changes{told(0)}, true},
		"running":                             {"running", nil, true},
		"running, told to end":                {"running", changes{told(1)}, true},
		"running, removed by force":           {"running", changes{told(0)}, true},
		"running on a lost node":              {"running", changes{lose, told(0)}, true},
		"running, in the old words for lost":  {"running", changes{phase(corev1.PodUnknown), told(0)}, true},

		"ended, and the phase is late":   {"exit-3", changes{phase(corev1.PodRunning)}, false},
		"ended, to be started again":     {"exit-3", changes{phase(corev1.PodRunning), func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }}, true},
		"ended":                          {"exit-3", nil, false},
		"succeeded":                      {"exit-0", nil, false},
		"evicted":                        {"evicted", nil, false},
		"out of memory":                  {"oom", nil, false},
		"refused by its node":            {"rejected", nil, false},
		"ended before its container ran": {"mount-fails", changes{told(1), phase(corev1.PodFailed), confirmed}, false},
		"kept by a foreign finalizer":    {"finalized", nil, false},
		"failed by force, and running":   {"running", changes{phase(corev1.PodFailed)}, true},

		"its Node object removed":                      {"running", changes{removed}, true},
		"the same, while it was made":                  {"mount-fails", changes{removed}, true},
		"the same, and its node silent":                {"running", changes{silent, removed}, true},
		"the same, had ended before":                   {"exit-3", changes{removed}, false},
		"the same, and the machine was back":           {"running", changes{removed, ended}, false},
		"the same, and had not run":                    {"mount-fails", changes{removed, confirmed}, false},
		"the same, and its node is wrong about itself": {"running", changes{removed, confirmed}, true},
		"its machine said to be off":                   {"running", changes{lose, phase(corev1.PodFailed), told(0)}, false},
		"told to end by taint, not said to be off":     {"running", changes{lose, phase(corev1.PodFailed), told(600)}, true},

		"another container goes on":     {"exit-3", changes{phase(corev1.PodRunning), beside(false, true, "", running)}, true},
		"one goes on that cannot write": {"exit-3", changes{phase(corev1.PodRunning), beside(false, false, "", running)}, false},
		"another one has ended, too":    {"exit-3", changes{phase(corev1.PodRunning), beside(false, true, "", over)}, false},
		"another one is not known": {"exit-3", changes{phase(corev1.PodRunning), func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "x", VolumeMounts: p.Spec.Containers[0].VolumeMounts})
		}}, true},
		"the first one still runs":              {"mount-fails", changes{beside(true, true, "", running), told(0)}, true},
		"one beside it, between two runs":       {"exit-3", changes{phase(corev1.PodRunning), beside(true, true, corev1.ContainerRestartPolicyAlways, over)}, true},
		"the same, beside it and not before it": {"exit-3", changes{phase(corev1.PodRunning), beside(false, true, corev1.ContainerRestartPolicyOnFailure, over)}, true},
		"another one has rules to start it again": {"exit-3", changes{phase(corev1.PodRunning), beside(false, false, corev1.ContainerRestartPolicyNever, over), func(p *corev1.Pod) {
			p.Spec.Containers[1].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestart}}
		}}, true},
		"another one is never started again": {"exit-3", changes{phase(corev1.PodRunning), beside(false, true, corev1.ContainerRestartPolicyNever, over)}, false},
		"the same, when all is over":         {"exit-3", changes{beside(true, true, corev1.ContainerRestartPolicyAlways, over)}, false},
		"a person looks into it":             {"exit-3", changes{phase(corev1.PodRunning), debug(running)}, true},
		"a person has looked into it":        {"exit-3", changes{phase(corev1.PodRunning), debug(over)}, false},
	} {
		p := real(t).Pods[c.from]
		for _, change := range c.changes {
			change(p)
		}
		if got := status.InUse(p); got != c.want {
			t.Errorf("%s: in use %t", name, got)
		}
		if status.Releasable(p) {
			t.Errorf("%s: it has no finalizer of ours", name)
		}
		p.Finalizers = append(p.Finalizers, spec.Finalizer)
		if status.Releasable(p) == c.want {
			t.Errorf("%s: in use %t, and to be let go as well", name, c.want)
		}
		if !c.want && status.NodeLost(p) {
			t.Errorf("%s: its node is not needed", name)
		}
	}
}
