package cluster

import (
	"strings"
	"unique"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// Caches hold tens of thousands of objects. To save memory, they drop the fields that this program does not read, and
// keep one copy of each string that many objects share. Cached objects are therefore incomplete: read an object from
// the cluster before you change it.

// ownPrefix is the prefix of this program's annotations.
const ownPrefix = "codehub.dev/"

// same returns the single copy of s that all objects share.
func same(s string) string { return unique.Make(s).Value() }

func stripMeta(m *metav1.ObjectMeta) {
	m.ManagedFields, m.GenerateName = nil, ""
	m.Namespace = same(m.Namespace)
	delete(m.Labels, spec.LabelOwner) // only operators read it
	m.Labels = sameKeys(m.Labels, "")
	m.Annotations = sameKeys(m.Annotations, ownPrefix)
	for i := range m.OwnerReferences {
		o := &m.OwnerReferences[i]
		o.APIVersion, o.Kind = same(o.APIVersion), same(o.Kind)
	}
	for i, f := range m.Finalizers {
		m.Finalizers[i] = same(f)
	}
}

// sameKeys returns the entries of m whose key has the prefix, with shared keys. It does not share the values: few
// values occur in several objects, and long ones never do.
func sameKeys(m map[string]string, prefix string) map[string]string {
	kept := make(map[string]string, len(m))
	for k, v := range m {
		if strings.HasPrefix(k, prefix) {
			kept[same(k)] = v
		}
	}
	if len(kept) == 0 {
		return nil
	}
	return kept
}

func stripPod(p *corev1.Pod) {
	p.TypeMeta = metav1.TypeMeta{}
	stripMeta(&p.ObjectMeta)
	spec := corev1.PodSpec{
		NodeName: same(p.Spec.NodeName), SchedulingGates: p.Spec.SchedulingGates,
		RestartPolicy:                 corev1.RestartPolicy(same(string(p.Spec.RestartPolicy))),
		TerminationGracePeriodSeconds: p.Spec.TerminationGracePeriodSeconds,
	}
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil || v.Secret != nil {
			spec.Volumes = append(spec.Volumes, v)
		}
	}
	spec.InitContainers = stripContainers(p.Spec.InitContainers)
	spec.Containers = stripContainers(p.Spec.Containers)
	p.Spec = spec
	s := &p.Status
	s.PodIPs, s.HostIP, s.HostIPs, s.NominatedNodeName = nil, "", nil, ""
	s.ResourceClaimStatuses = nil
	s.Phase, s.QOSClass, s.Reason = corev1.PodPhase(same(string(s.Phase))), "", same(s.Reason)
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Type, c.Status, c.Reason = corev1.PodConditionType(same(string(c.Type))),
			corev1.ConditionStatus(same(string(c.Status))), same(c.Reason)
	}
	s.InitContainerStatuses = stripStatuses(s.InitContainerStatuses)
	s.ContainerStatuses = stripStatuses(s.ContainerStatuses)
	s.EphemeralContainerStatuses = stripStatuses(s.EphemeralContainerStatuses)
}

func stripContainers(all []corev1.Container) []corev1.Container {
	var kept []corev1.Container
	for _, c := range all {
		one := corev1.Container{
			Name: same(c.Name), Image: same(c.Image), RestartPolicy: c.RestartPolicy,
			RestartPolicyRules: c.RestartPolicyRules,
		}
		for _, m := range c.VolumeMounts {
			one.VolumeMounts = append(one.VolumeMounts, corev1.VolumeMount{
				Name: same(m.Name), MountPath: same(m.MountPath), SubPath: same(m.SubPath),
			})
		}
		kept = append(kept, one)
	}
	return kept
}

func stripStatuses(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	var kept []corev1.ContainerStatus
	for _, s := range all {
		for _, state := range []*corev1.ContainerState{&s.State, &s.LastTerminationState} {
			if state.Waiting != nil {
				state.Waiting.Reason = same(state.Waiting.Reason)
			}
			if state.Terminated != nil {
				state.Terminated.Reason = same(state.Terminated.Reason)
			}
		}
		kept = append(kept, corev1.ContainerStatus{
			Name: same(s.Name), State: s.State, LastTerminationState: s.LastTerminationState, Ready: s.Ready,
			RestartCount: s.RestartCount, Image: same(s.Image), ContainerID: s.ContainerID, Started: s.Started,
		})
	}
	return kept
}

func stripClaim(c *corev1.PersistentVolumeClaim) {
	c.TypeMeta = metav1.TypeMeta{}
	stripMeta(&c.ObjectMeta)
	spec := corev1.PersistentVolumeClaimSpec{VolumeName: c.Spec.VolumeName}
	if name := c.Spec.StorageClassName; name != nil {
		one := same(*name)
		spec.StorageClassName = &one
	}
	c.Spec = spec
	c.Status = corev1.PersistentVolumeClaimStatus{
		Phase: corev1.PersistentVolumeClaimPhase(same(string(c.Status.Phase))), Conditions: c.Status.Conditions,
		Capacity: c.Status.Capacity,
	}
}

func stripJob(j *batchv1.Job) {
	j.TypeMeta = metav1.TypeMeta{}
	stripMeta(&j.ObjectMeta)
	j.Spec = batchv1.JobSpec{Suspend: j.Spec.Suspend, ActiveDeadlineSeconds: j.Spec.ActiveDeadlineSeconds}
	for i := range j.Status.Conditions {
		c := &j.Status.Conditions[i]
		c.Type, c.Status, c.Reason = batchv1.JobConditionType(same(string(c.Type))),
			corev1.ConditionStatus(same(string(c.Status))), same(c.Reason)
	}
}
