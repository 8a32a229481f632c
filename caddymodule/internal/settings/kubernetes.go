package settings

import (
	"errors"
	"fmt"
	"os"

	"github.com/docker/go-units"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// Kubernetes sets how workspaces run on Kubernetes.
type Kubernetes struct {
	// Kubeconfig is a file that says how to reach the cluster. Default: the service account
	// of the Pod that this process runs in, else KUBECONFIG and ~/.kube/config.
	Kubeconfig Value `json:"kubeconfig,omitempty"`
	// Context is the context of the kubeconfig to use. Default: the current one.
	Context Value `json:"context,omitempty"`
	// Namespace is where workspaces and storage jobs are. Changing it later orphans the existing
	// ones. Default: that of the service account or of the context.
	Namespace Value `json:"namespace,omitempty"`
	Workload
	// ImagePullSecrets are the Secrets in the namespace with which the nodes pull images, separated
	// by spaces.
	ImagePullSecrets Value `json:"image_pull_secrets,omitempty"`
	// Disk is the most that a workspace may store outside its home, such as `10GiB`; a workspace
	// that stores more is evicted. 0 is unlimited. Default: 10GiB.
	Disk Value `json:"disk,omitempty"`
	// MemoryRequest is the memory that a node must have free for a workspace to run there.
	// Default: 512MiB, or memory when that is less.
	MemoryRequest Value `json:"memory_request,omitempty"`
	// CPUsRequest is the number of processors that a node must have free for a workspace to run
	// there. Default: 0.1, or cpus when that is less.
	CPUsRequest Value `json:"cpus_request,omitempty"`
	// User is the numeric id of the user that runs a workspace's processes; never root. Default:
	// 1000.
	User Value `json:"user,omitempty"`
	// Group is the numeric id of its group, which owns the home. Default: 1000.
	Group Value `json:"group,omitempty"`
	// Home is the size of a home. Raising it grows existing homes when their workspaces start, if
	// the storage class allows it; lowering it only affects new ones. Default: 10GiB.
	Home Value `json:"home,omitempty"`
	// StorageClass is the storage class of the homes. Default: the cluster's default.
	StorageClass Value `json:"storage_class,omitempty"`
	// AccessMode is `ReadWriteOnce`, which every class supports, or `ReadWriteOncePod`, with which
	// the cluster itself also keeps two Pods from using a home at once. Default: `ReadWriteOnce`.
	AccessMode Value `json:"access_mode,omitempty"`
	// NodeSelector are labels that nodes for workspaces and storage jobs must have, as
	// `name=value`, separated by spaces.
	NodeSelector Value `json:"node_selector,omitempty"`
	// Tolerations are taints that these nodes may have, as `key=value:NoSchedule`,
	// `key:NoExecute` or `key`, separated by spaces.
	Tolerations Value `json:"tolerations,omitempty"`
	// PriorityClass is the priority class of workspaces and storage jobs.
	PriorityClass Value `json:"priority_class,omitempty"`
	// RuntimeClass is their runtime class, such as a sandbox's.
	RuntimeClass Value `json:"runtime_class,omitempty"`
	// PodTemplate is a file with a Pod template, in YAML or JSON, that is merged into the Pods of
	// workspaces as `kubectl patch` would. The container's name is `workspace`. Fields that it must
	// not change cause an error. It is read at the start and at every reload.
	PodTemplate Value `json:"pod_template,omitempty"`
	// BusyCommand is a shell command that exits with 0 in a workspace while the workspace is busy.
	// On Docker an image sets it with the label `codehub.busy`.
	BusyCommand Value `json:"busy_command,omitempty"`
	// JobCPUs is the number of processors a storage job may use; 0 is unlimited. Default: 0.
	JobCPUs Value `json:"job_cpus,omitempty"`
	// GatewayPods are the labels of this process's Pods, as `name=value`, separated by spaces: only
	// these Pods reach workspaces. For a process outside the cluster, see `egress gateway`.
	// Default: `app.kubernetes.io/name=codehub`.
	GatewayPods Value `json:"gateway_pods,omitempty"`
	// DNSNamespace is where the cluster's name servers are, which workspaces reach.
	// Default: `kube-system`.
	DNSNamespace Value `json:"dns_namespace,omitempty"`
}

// kubernetesTable lists the settings of Kubernetes; see [App.Table].
func (a *App) kubernetesTable(r *Resolved) []Setting {
	k, o := &a.Kubernetes, &r.kubernetes
	s := &o.Spec
	text := func(name string, text *Value, dst *string, def string) Setting {
		return Setting{"kubernetes " + name, text, def, "", parse.Text(dst)}
	}
	size := func(name string, text *Value, dst *int64, def string, more ...parse.Check) Setting {
		return Setting{"kubernetes " + name, text, def, "", parse.Size(dst, more...)}
	}
	cpus := func(name string, text *Value, dst *int64, def string, more ...parse.Check) Setting {
		return Setting{"kubernetes " + name, text, def, "", parse.CPUs(dst, more...)}
	}
	number := func(name string, text *Value, dst *int64, def int64) Setting {
		return Setting{"kubernetes " + name, text, fmt.Sprint(def), "", parse.Integer(dst, notZero(dst))}
	}
	bytes := func(n int64) string { return units.BytesSize(float64(n)) }
	of := workloadOptions{&s.Image, &s.JobImage, &s.Port, &s.MemoryBytes, &s.NanoCPUs, &s.StopGrace}
	return append(k.Workload.table("kubernetes", of), []Setting{
		text("kubeconfig", &k.Kubeconfig, &o.Kubeconfig, ""),
		text("context", &k.Context, &o.Context, ""),
		text("namespace", &k.Namespace, &o.Namespace, ""),
		text("image_pull_secrets", &k.ImagePullSecrets, &s.ImagePullSecrets, ""),
		size("disk", &k.Disk, &s.DiskBytes, defaultWorkspaceDisk),
		size("memory_request", &k.MemoryRequest, &s.MemoryRequestBytes, "", notZero(&s.MemoryRequestBytes)),
		cpus("cpus_request", &k.CPUsRequest, &s.NanoCPUsRequest, "", notZero(&s.NanoCPUsRequest)),
		number("user", &k.User, &s.User, spec.DefaultUser),
		number("group", &k.Group, &s.Group, spec.DefaultUser),
		size("home", &k.Home, &s.HomeBytes, bytes(spec.DefaultHome), notZero(&s.HomeBytes)),
		text("storage_class", &k.StorageClass, &s.StorageClass, ""),
		text("access_mode", &k.AccessMode, &s.AccessMode, spec.DefaultAccessMode),
		text("node_selector", &k.NodeSelector, &s.NodeSelector, ""),
		text("tolerations", &k.Tolerations, &s.Tolerations, ""),
		text("priority_class", &k.PriorityClass, &s.PriorityClass, ""),
		text("runtime_class", &k.RuntimeClass, &s.RuntimeClass, ""),
		{"kubernetes pod_template", &k.PodTemplate, "", "", parse.Text(&r.podTemplate)},
		text("busy_command", &k.BusyCommand, &s.BusyCommand, ""),
		cpus("job_cpus", &k.JobCPUs, &s.JobNanoCPUs, "0"),
		text("gateway_pods", &k.GatewayPods, &s.GatewayPods, spec.DefaultGatewayPods),
		text("dns_namespace", &k.DNSNamespace, &s.DNSNamespace, spec.DefaultDNSNamespace),
	}...)
}

// errBothBackends refuses settings of the other backend.
var errBothBackends = errors.New("an installation has one backend: " +
	"write either backend docker { … } or backend kubernetes { … }, and no settings of the other")

// checkBackend checks which backend the settings are for.
func (a *App) checkBackend() error {
	switch a.Backend {
	case "", coordinator.BackendDocker:
		if a.Kubernetes != (Kubernetes{}) {
			return errBothBackends
		}
	case coordinator.BackendKubernetes:
		if a.Docker != (Docker{}) {
			return errBothBackends
		}
	default:
		return fmt.Errorf("%q is not known: write %s or %s",
			a.Backend, coordinator.BackendDocker, coordinator.BackendKubernetes)
	}
	return nil
}

// chooseBackend keeps the options of one backend, including the settings that all backends share.
func (a *App) chooseBackend(r *Resolved) error {
	if err := a.checkBackend(); err != nil {
		return fmt.Errorf("setting %q: %w", "backend", err)
	}
	if a.Backend != coordinator.BackendKubernetes {
		return nil
	}
	if err := r.readPodTemplate(); err != nil {
		return err
	}
	k := r.kubernetes
	k.Spec.Installation, k.Spec.Egress = r.Options.Docker.Installation, r.Options.Docker.Egress
	r.Options.Docker, r.Options.Kubernetes = docker.Options{}, &k
	return nil
}

// readPodTemplate reads the Pod template. The options hold its text instead of the file's name, so
// that a reload after the file changed takes effect.
func (r *Resolved) readPodTemplate() error {
	if r.podTemplate == "" {
		return nil
	}
	text, err := os.ReadFile(r.podTemplate)
	if err != nil {
		return fmt.Errorf("setting %q: %w: write the path of a file with a Pod template that this process may read",
			"kubernetes pod_template", err)
	}
	r.kubernetes.Spec.PodTemplate = string(text)
	if err := parse.Owner(r.kubernetes.Validate, "kubernetes pod_template")(r.podTemplate); err != nil {
		return fmt.Errorf("setting %q: %s: %w", "kubernetes pod_template", r.podTemplate, err)
	}
	return nil
}
