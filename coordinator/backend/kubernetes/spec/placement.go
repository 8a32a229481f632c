package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Settings returns a hash of everything that Pods and Jobs take from the options. A Pod that has another hash and waits
// for a node may wait for something that the current options no longer require.
func Settings(o Options) string {
	o = o.withDefaults()
	p, err := templated(o)
	if err != nil {
		p = base(o) // Validate refuses such a template
	}
	text, err := json.Marshal([]any{p, o.Image, o.Port, jobPod(o, backend.JobSpec{Kind: workspace.JobRestore})})
	if err != nil {
		return "" // they are values of Kubernetes' own types
	}
	return hash(text)
}

// hash is short enough for a label and long enough to be unique.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// placed lets a job's Pod run only where the workspace's Pod can run. A restore is the first to use a new claim, so its
// Pod chooses the zone of the volume. The job's Pod requests at least what the workspace requests, so that its node has
// room for the workspace, too. It also gets the host names that the template adds, because the object store may use one
// of them.
func placed(o Options, p *corev1.PodSpec) {
	ws, err := templated(o)
	if err != nil {
		return // Validate refuses such a template
	}
	s := &ws.Spec
	p.NodeSelector, p.Affinity, p.Tolerations = s.NodeSelector, s.Affinity.DeepCopy(), s.Tolerations
	p.PriorityClassName, p.RuntimeClassName, p.SchedulerName = s.PriorityClassName, s.RuntimeClassName, s.SchedulerName
	p.HostAliases = s.HostAliases
	r := &p.Containers[0].Resources
	for _, c := range s.Containers {
		for name, asked := range asks(c.Resources) {
			if name == corev1.ResourceEphemeralStorage {
				continue // the scratch folder is a volume with its own limit
			}
			if have := r.Requests[name]; have.Cmp(asked) < 0 {
				r.Requests[name] = asked
			}
			limit, limited := r.Limits[name]
			extended := strings.Contains(string(name), "/") // needs an equal limit
			if extended || limited && limit.Cmp(r.Requests[name]) < 0 {
				r.Limits[name] = r.Requests[name]
			}
		}
	}
}

// asks returns the requests of a container. Without a request, its limit counts.
func asks(r corev1.ResourceRequirements) corev1.ResourceList {
	all := r.Requests.DeepCopy()
	if all == nil {
		all = corev1.ResourceList{}
	}
	for name, limit := range r.Limits {
		if _, ok := all[name]; !ok {
			all[name] = limit
		}
	}
	return all
}

// Near prefers the node on which the home was last used, because its volume may still be attached there. Any other node
// is fine.
func Near(p *corev1.PodSpec, home metav1.Object) {
	node := home.GetAnnotations()[AnnotationNode]
	if node == "" {
		return
	}
	if p.Affinity == nil {
		p.Affinity = &corev1.Affinity{}
	}
	if p.Affinity.NodeAffinity == nil {
		p.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	a := p.Affinity.NodeAffinity
	a.PreferredDuringSchedulingIgnoredDuringExecution = append(a.PreferredDuringSchedulingIgnoredDuringExecution,
		corev1.PreferredSchedulingTerm{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}},
			}},
		})
}
