package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/codehub/gateway/coordinator/backend"
)

// Container is the name of a workspace's container, and JobContainer is the name of a storage job's container. A Pod
// template may add others.
const (
	Container    = "workspace"
	JobContainer = "storagejob"
)

// The names of the volumes in a Pod.
const (
	volumeHome    = "home"
	volumeScratch = "scratch"
	volumeGrant   = "grant"
	volumeShared  = "shared-memory"
)

// sharedPath is where programs expect shared memory.
const sharedPath = "/dev/shm"

// The smallest requests: of a storage job, and for the data that a container writes outside its volumes. Without a
// request, Kubernetes would reserve the whole limit.
const (
	jobMemoryRequest = 128 << 20
	jobCPURequest    = 100_000_000
	diskRequest      = 256 << 20
)

// endAtOnce is the grace period of a kill, in seconds: a job can be started again.
const endAtOnce int64 = 1

// stopGrace is the grace period of a workspace, in seconds.
func (o Options) stopGrace() int64 {
	return max(endAtOnce, int64((o.StopGrace+time.Second-1)/time.Second))
}

// GraceOf returns the grace period of a workspace's Pod, in seconds and at least 1: see [Options.StopGrace]. A Pod
// template may set another. A deletion with 0 would tell the cluster that nothing of the Pod runs any more.
func GraceOf(p *corev1.Pod) int64 {
	grace := endAtOnce
	if own := p.Spec.TerminationGracePeriodSeconds; own != nil {
		grace = max(grace, *own)
	}
	return grace
}

// Pod returns the Pod of a workspace, with the scheduling gate [Gate] closed. Equal input gives an equal Pod, except
// for [AnnotationTerm] and [LabelOwner]; see [AnnotationSpec]. [MountFolders] completes it.
func Pod(o Options, s backend.StartSpec) (*corev1.Pod, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if s.Hostname != "" && len(validation.IsDNS1123Label(s.Hostname)) > 0 {
		return nil, fmt.Errorf("the host name %q must be 1 to 63 lower-case letters, digits and '-'", s.Hostname)
	}
	env, err := environment(s.Env)
	if err != nil {
		return nil, err
	}
	p, err := templated(o)
	if err != nil {
		return nil, err
	}
	p.Name = s.ID.ContainerName()
	p.Labels = With(p.Labels, Labels(o.Installation, s.ID, KindWorkspace))
	port := cmp.Or(s.Port, o.Port)
	p.Annotations = With(p.Annotations, map[string]string{
		AnnotationPort: strconv.Itoa(port), AnnotationSettings: Settings(o),
	})
	if s.BasePath != "" {
		p.Annotations[AnnotationBasePath] = s.BasePath
	}
	if o.BusyCommand != "" {
		p.Annotations[AnnotationBusy] = o.BusyCommand
	}
	p.Spec.Hostname = cmp.Or(s.Hostname, p.Name)
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == volumeHome {
			p.Spec.Volumes[i].PersistentVolumeClaim.ClaimName = s.ID.VolumeName()
		}
	}
	c := workspaceContainer(p)
	c.Image = cmp.Or(s.Image, o.Image)
	c.Args = escaped(s.Command)
	c.Env = merged(c.Env, env)
	c.Ports = withPort(c.Ports, port)
	if err := stamp(p); err != nil {
		return nil, err
	}
	// These are not part of the hash: the term, the owner, and whether the program must look into the container.
	p.Annotations[AnnotationTerm], p.Annotations[AnnotationUnseen] = s.Term, c.Image
	p.Labels = owned(p.Labels, s.Owner)
	return p, nil
}

// base returns the common part of all workspaces' Pods, before the Pod template.
func base(o Options) *corev1.Pod {
	limits, requests := resources(o.MemoryBytes, o.MemoryRequestBytes, o.NanoCPUs, o.NanoCPUsRequest)
	if o.DiskBytes > 0 {
		limits[corev1.ResourceEphemeralStorage] = inBytes(o.DiskBytes)
		requests[corev1.ResourceEphemeralStorage] = inBytes(min(o.DiskBytes, diskRequest))
	}
	onMismatch := corev1.FSGroupChangeOnRootMismatch
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Finalizers: []string{Finalizer}},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: Gate}},
			// Workspaces run several processes, which the pause process reaps.
			ShareProcessNamespace: new(true),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: &o.User, RunAsGroup: &o.Group,
				FSGroup: &o.Group, FSGroupChangePolicy: &onMismatch,
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name:      Container,
				Resources: corev1.ResourceRequirements{Limits: limits, Requests: requests},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), Capabilities: &corev1.Capabilities{
						Drop: []corev1.Capability{"ALL"},
					},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: volumeHome, MountPath: Home, SubPath: Folder}, {Name: volumeShared, MountPath: sharedPath},
				},
			}},
			Volumes: []corev1.Volume{homeVolume(""), sharedMemory(o.MemoryBytes)},
		},
	}
	common(o, &p.Spec)
	p.Spec.TerminationGracePeriodSeconds = new(o.stopGrace())
	return p
}

// common sets the common part of the Pods of workspaces and of storage jobs.
func common(o Options, p *corev1.PodSpec) {
	p.RestartPolicy = corev1.RestartPolicyNever // only the coordinator decides what runs
	p.AutomountServiceAccountToken = new(false)
	p.EnableServiceLinks = new(false) // no addresses of the cluster's services in the environment
	p.TerminationGracePeriodSeconds = new(endAtOnce)
	p.PriorityClassName = o.PriorityClass
	if o.RuntimeClass != "" {
		p.RuntimeClassName = &o.RuntimeClass
	}
	// Validate finds the errors in these options.
	p.NodeSelector, _ = pairs(o.NodeSelector)
	more, _ := tolerations(o.Tolerations)
	p.Tolerations = append(stay(), more...)
	for _, name := range fields(o.ImagePullSecrets) {
		p.ImagePullSecrets = append(p.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	for i := range p.Containers {
		p.Containers[i].ImagePullPolicy = corev1.PullIfNotPresent
		p.Containers[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
	}
}

// stay keeps a Pod on a node that has stopped reporting. Users may still be working in the container, and only a
// container that has ended is replaced (SPEC 3). By default the cluster would end it after five minutes.
func stay() []corev1.Toleration {
	var all []corev1.Toleration
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		all = append(all, corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
		})
	}
	return all
}

func homeVolume(claim string) corev1.Volume {
	return corev1.Volume{Name: volumeHome, VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
	}}
}

// sharedMemory returns the volume at /dev/shm, which runtimes limit to 64 MiB by default. Its size is half of the
// workspace's memory, just as Linux allows half of the machine's. Its content counts as the workspace's memory.
func sharedMemory(memory int64) corev1.Volume {
	dir := &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}
	if memory > 0 {
		dir.SizeLimit = new(inBytes(memory / 2))
	}
	return corev1.Volume{Name: volumeShared, VolumeSource: corev1.VolumeSource{EmptyDir: dir}}
}

// workspaceContainer returns the workspace's container in its Pod, or nil.
func workspaceContainer(p *corev1.Pod) *corev1.Container {
	for i := range p.Spec.Containers {
		if p.Spec.Containers[i].Name == Container {
			return &p.Spec.Containers[i]
		}
	}
	return nil
}

// environment parses NAME=value. If a name has several values, the last one counts, as it does in Docker.
func environment(entries []string) ([]corev1.EnvVar, error) {
	var all []corev1.EnvVar
	for i, entry := range entries {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("environment: entry %d is not NAME=value", i)
		}
		all = merged(all, []corev1.EnvVar{{Name: name, Value: escape(value)}})
	}
	return all, nil
}

// merged adds variables and replaces those of the same name.
func merged(to, more []corev1.EnvVar) []corev1.EnvVar {
next:
	for _, v := range more {
		for i := range to {
			if to[i].Name == v.Name {
				to[i] = v
				continue next
			}
		}
		to = append(to, v)
	}
	return to
}

// escape keeps Kubernetes from replacing $(NAME).
func escape(text string) string { return strings.ReplaceAll(text, "$", "$$") }

func escaped(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, escape(text))
	}
	return all
}

// withPort adds the application's port to the container, only for people who inspect the Pod.
func withPort(to []corev1.ContainerPort, port int) []corev1.ContainerPort {
	for _, p := range to {
		if int(p.ContainerPort) == port {
			return to
		}
	}
	return append(to, corev1.ContainerPort{ContainerPort: int32(port), Protocol: corev1.ProtocolTCP})
}

// stamp adds a hash of the spec. By the hash, a process recognises a Pod that another process created from the same
// spec. After an upgrade or a change of settings the hash may differ.
func stamp(p *corev1.Pod) error {
	text, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("hashing the Pod %s: %w", p.Name, err)
	}
	p.Annotations[AnnotationSpec] = hash(text)
	return nil
}
