// Package enforcement finds out whether a cluster enforces NetworkPolicies, which only the cluster's network software
// knows.
//
// It owns the Pods with which it tries this, and removes them. It must not decide what follows from the result.
package enforcement

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// labelProbe marks the Pods of one probe. Such a Pod is neither a workspace nor a storage job.
	labelProbe = "codehub.dev/probe"
	// probeKept is how long, in seconds, the Job of a probe stays if this process was killed before it could remove the
	// Job. The Job's Pod and NetworkPolicy go with it.
	probeKept = 120
	// probeSettle is how long a Pod keeps trying. The cluster's network learns of a Pod, and of the rules for it, only
	// after the Pod has begun to run.
	probeSettle = 10 * time.Second
	// probePause is the time between two checks of a Job.
	probePause = 300 * time.Millisecond
	// apiServer is the address of the cluster's API in every Pod.
	apiServer = "[$(KUBERNETES_SERVICE_HOST)]:$(KUBERNETES_SERVICE_PORT)"
)

// ErrProbe means that the probe produced no result.
var ErrProbe = errors.New("nothing was found out")

// Probe finds out from inside a cluster whether it enforces NetworkPolicies.
type Probe struct {
	Client *cluster.Client
	Spec   spec.Options
}

// Enforced reports whether the cluster enforces NetworkPolicies. Two Pods with the storage job's image try to reach the
// cluster's API, one of them under a policy that forbids everything. Enforced removes the Pods afterwards; if this
// process is killed, the cluster removes them. The error is [ErrProbe] if the other Pod does not reach the API either.
func (d Probe) Enforced(ctx context.Context) (bool, error) {
	name := "codehub-probe-" + strings.ToLower(rand.Text()[:10])
	closed, err := d.Client.Jobs.Create(ctx, d.probe(name+"-closed"), metav1.CreateOptions{})
	if err != nil {
		return false, cluster.Wrap("creating a Job for the probe", err)
	}
	defer d.remove(ctx, closed)
	open, err := d.Client.Jobs.Create(ctx, d.probe(name+"-open"), metav1.CreateOptions{})
	if err != nil {
		return false, cluster.Wrap("creating a Job for the probe", err)
	}
	defer d.remove(ctx, open)
	// The policy belongs to its Job, and exists before the Job starts.
	policy, err := json.Marshal(denyAll(closed))
	if err != nil {
		return false, fmt.Errorf("describing a NetworkPolicy: %w", err)
	}
	if _, err := d.Client.NetworkPolicies.Patch(ctx, closed.Name, types.ApplyYAMLPatchType, policy, metav1.PatchOptions{
		FieldManager: spec.Manager,
	}); err != nil {
		return false, cluster.Wrap("making a NetworkPolicy", err)
	}
	for _, j := range []*batchv1.Job{closed, open} {
		if _, err := d.Client.Jobs.Patch(ctx, j.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`),
			metav1.PatchOptions{}); err != nil {
			return false, cluster.Wrap("starting Job "+j.Name, err)
		}
	}
	reached, err := d.reached(ctx, open)
	if err == nil && !reached {
		err = fmt.Errorf("%w: a Pod without any rule does not reach the cluster's API either", ErrProbe)
	}
	if err != nil {
		return false, err
	}
	reached, err = d.reached(ctx, closed)
	return !reached, err
}

// probe returns a suspended Job that tries to reach the cluster's API. It runs on the nodes on which storage jobs run,
// as a user without rights.
func (d Probe) probe(name string) *batchv1.Job {
	pod := spec.Job(d.Spec, backend.JobSpec{ID: workspace.ID(name), Kind: workspace.JobArchive}).Spec.Template.Spec
	unprivileged := int64(65532)
	pod.Volumes, pod.SecurityContext.RunAsUser, pod.SecurityContext.RunAsGroup, pod.SecurityContext.RunAsNonRoot = nil,
		&unprivileged, &unprivileged, new(true)
	c := &pod.Containers[0]
	c.VolumeMounts, c.Env, c.SecurityContext.Capabilities.Add = nil, nil, nil
	spec.LimitCPU(&pod, c.Resources.Requests[corev1.ResourceCPU]) // for a quota that requires a limit
	c.Args = []string{contract.Egress, contract.EgressProbe, probeSettle.String(), apiServer}
	labels := map[string]string{labelProbe: name}
	return &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: batchv1.JobSpec{
			Suspend: new(true), BackoffLimit: new(int32(0)),
			ActiveDeadlineSeconds: new(int64(probeKept)), TTLSecondsAfterFinished: new(int32(probeKept)),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// denyAll returns a policy that forbids everything to the Pods of the Job to which it belongs.
func denyAll(j *batchv1.Job) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: "networking.k8s.io/v1", Kind: "NetworkPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: j.Name, Labels: j.Labels, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID},
		}},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: j.Labels},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// reached waits for the end of a Job, and reports whether it reached anything.
func (d Probe) reached(ctx context.Context, j *batchv1.Job) (bool, error) {
	for {
		list, err := d.Client.Pods.List(ctx, metav1.ListOptions{LabelSelector: labelProbe + "=" + j.Name})
		if err != nil {
			return false, cluster.Wrap("looking at the Pod of Job "+j.Name, err)
		}
		for i := range list.Items {
			p := &list.Items[i]
			if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				return d.result(ctx, p)
			}
			if why := hopeless(p); why != "" {
				return false, fmt.Errorf("%w: the Pod %s does not start: %s", ErrProbe, p.Name, why)
			}
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%w: the Pod of Job %s has not ended in time", ErrProbe, j.Name)
		case <-time.After(probePause):
		}
	}
}

// hopeless returns why a Pod cannot start before an administrator changes something, or "" if it may start by itself.
func hopeless(p *corev1.Pod) string {
	for _, s := range p.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil && (strings.Contains(w.Reason, "Image") ||
			strings.HasSuffix(w.Reason, "Error")) {
			return w.Reason + ": " + w.Message
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse &&
			c.Reason == corev1.PodReasonUnschedulable {
			return c.Message
		}
	}
	return ""
}

// result parses the output of a probe's Pod.
func (d Probe) result(ctx context.Context, p *corev1.Pod) (reached bool, err error) {
	log, err := d.Client.Logs(ctx, p.Name, &corev1.PodLogOptions{Container: spec.JobContainer})
	if err != nil {
		return false, cluster.Wrap("reading the log of Pod "+p.Name, err)
	}
	defer log.Close()
	text, err := io.ReadAll(io.LimitReader(log, 64<<10))
	if err != nil {
		return false, cluster.Wrap("reading the log of Pod "+p.Name, err)
	}
	said, err := contract.ParseEgressResult(text)
	if err != nil {
		return false, fmt.Errorf("%w: Pod %s: %w", ErrProbe, p.Name, err)
	}
	return len(said.Reached) > 0, nil
}

// removeLimit bounds the removal of a probe's objects, even after an interruption.
const removeLimit = 10 * time.Second

// remove removes a Job and all its objects. The cluster removes those other than the Job a little later.
func (d Probe) remove(ctx context.Context, j *batchv1.Job) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer cancel()
	background := metav1.DeletePropagationBackground
	_ = d.Client.Jobs.Delete(ctx, j.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &j.UID}, PropagationPolicy: &background,
	})
}
