package spec

import (
	"crypto/sha256"
	"encoding/hex"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// jobCapabilities are the capabilities of root that a job keeps. An archive reads files and folders without read
// permission, and its home is mounted read-only. A restore also sets owners (CHOWN), sets modes, times and attributes
// of files that it has given away (FOWNER), keeps the setgid bit of another group (FSETID), and sets the capabilities
// of programs (SETFCAP). DAC_READ_SEARCH would be enough for an archive, but Pod Security's baseline does not allow it.
var jobCapabilities = map[workspace.JobKind][]corev1.Capability{
	workspace.JobArchive: {"DAC_OVERRIDE"},
	workspace.JobRestore: {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"},
}

// root is the user of a job, because a home's files may have any owner.
const root int64 = 0

// JobName returns the name of a storage job's Job and Secret. It is [backend.JobSpec.Name] if that is valid in
// Kubernetes, and otherwise a shorter, equally stable name.
func JobName(s backend.JobSpec) string {
	name := s.Name()
	if len(validation.IsDNS1123Label(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return s.ID.ContainerName() + "-" + string(s.Kind) + "-" + hex.EncodeToString(sum[:6])
}

// Job returns the suspended Job of a storage job. Its Pod has the same labels. With a grant, it expects the Secret of
// the same name, [Grant]. The spec must be valid, see [backend.JobSpec.Validate].
func Job(o Options, s backend.JobSpec) *batchv1.Job {
	o = o.withDefaults()
	labels := jobLabels(o, s)
	pod := jobPod(o, s)
	made := map[string]string{AnnotationTerm: s.Term, AnnotationSettings: Settings(o)}
	if len(s.Grant) > 0 {
		addGrant(&pod, JobName(s))
	}
	replace := batchv1.Failed // a Pod that is being deleted still uses the volume
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: JobName(s), Labels: labels, Annotations: made,
		},
		Spec: batchv1.JobSpec{
			Suspend: new(true), BackoffLimit: new(int32(0)), Parallelism: new(int32(1)), Completions: new(int32(1)),
			PodReplacementPolicy: &replace,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{
					Labels: With(labels, nil), Annotations: With(made, nil), Finalizers: []string{Finalizer},
				},
				Spec: pod,
			},
		},
	}
}

// jobPod describes the Pod of a storage job, without its grant.
func jobPod(o Options, s backend.JobSpec) corev1.PodSpec {
	limits, requests := resources(o.JobMemoryBytes, jobMemoryRequest, o.JobNanoCPUs, jobCPURequest)
	env, _ := environment(s.Env) // Validate finds its errors
	scratch := inBytes(o.JobScratchBytes)
	pod := corev1.PodSpec{
		SecurityContext: &corev1.PodSecurityContext{
			RunAsUser: new(root), RunAsGroup: new(root),
			// As in the workspace's Pod. The first Pod that uses an empty volume, be it the workspace's or the job's,
			// gives the volume to the group. That happens only once.
			FSGroup: &o.Group, FSGroupChangePolicy: new(corev1.FSGroupChangeOnRootMismatch),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: JobContainer, Image: o.JobImage, Args: []string{s.Command()}, Env: env,
			Resources: corev1.ResourceRequirements{Limits: limits, Requests: requests},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: jobCapabilities[s.Kind]},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: volumeHome, MountPath: Data, SubPath: Folder, ReadOnly: s.Kind == workspace.JobArchive},
				{Name: volumeScratch, MountPath: contract.ScratchPath},
			},
		}},
		Volumes: []corev1.Volume{
			homeVolume(s.ID.VolumeName()),
			{Name: volumeScratch, VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &scratch},
			}},
		},
	}
	common(o, &pod)
	placed(o, &pod)
	return pod
}

// addGrant mounts the grant where the job looks for it. Only root and the Pod's group can read it: the kubelet makes
// that group its owner. The job, which is root, is alone in the Pod.
func addGrant(p *corev1.PodSpec, secret string) {
	p.Volumes = append(p.Volumes, corev1.Volume{Name: volumeGrant, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: secret, DefaultMode: new(int32(0o400))},
	}})
	c := &p.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
		Name: volumeGrant, MountPath: contract.GrantPath, SubPath: contract.GrantName, ReadOnly: true,
	})
}

func jobLabels(o Options, s backend.JobSpec) map[string]string {
	return With(owned(Labels(o.Installation, s.ID, KindJob), s.Owner), map[string]string{
		LabelOp: s.OpID, LabelJob: string(s.Kind),
	})
}

// Grant returns the Secret with the job's grant. The Secret belongs to the Job, which must exist, and the cluster
// removes it with the Job. It MUST NOT be logged.
func Grant(o Options, s backend.JobSpec, owner *batchv1.Job) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: JobName(s), Labels: jobLabels(o, s),
			// Without BlockOwnerDeletion, which requires another right.
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: owner.Name, UID: owner.UID,
				Controller: new(true),
			}},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{contract.GrantName: s.Grant},
	}
}
