package doctor

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/backend/egress"
	cluster "github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/enforcement"
)

// kubernetesChecks stand in the table in place of those of a container engine.
var kubernetesChecks = []check{
	{"cluster", "", checkCluster, "check the settings kubeconfig and context of backend kubernetes; in a Pod, that it has a ServiceAccount's token"},
	{"nodes", "cluster", checkNodes, ""},
	{"rights", "cluster", checkRights, ""},
	{"namespace", "cluster", checkNamespace, ""},
	{"storage class", "cluster", checkStorageClass, ""},
	{"homes", "cluster", checkHomes, "see the line of rights"},
	{"images", "", checkReferences, ""},
	{"policies", "cluster", checkPolicies, "see the line of rights"},
	{"isolation", "cluster", checkEnforcement, "see the lines of rights, namespace and images"},
}

const (
	// oldestCluster is the oldest minor version of Kubernetes 1 whose scheduling gates can be
	// relied on.
	oldestCluster = 30
	// otherAccount is the remedy where a rule of the chart does not let this account look.
	otherAccount = "run doctor outside the cluster with an administrator's kubeconfig to know"
)

func checkCluster(ctx context.Context, p patient) ([]finding, error) {
	v, err := p.cluster.Version(ctx)
	if err != nil {
		return nil, err
	}
	id, err := p.cluster.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return []finding{judgeVersion(v), ok("it is the cluster %s, and workspaces are in namespace %s", id, p.cluster.Namespace())}, nil
}

// notDigits is what providers write behind the minor version.
var notDigits = regexp.MustCompile(`\D.*`)

func judgeVersion(v cluster.Version) finding {
	minor, err := strconv.Atoi(notDigits.ReplaceAllString(v.Minor, ""))
	if v.Major == "1" && err == nil && minor < oldestCluster {
		return problem(fmt.Sprintf("use Kubernetes 1.%d or newer", oldestCluster), "Kubernetes %s answers, which is too old", v.Text)
	}
	return ok("Kubernetes %s answers", v.Text)
}

func checkNodes(ctx context.Context, p patient) ([]finding, error) {
	ready, all, known, err := p.cluster.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return []finding{judgeNodes(ready, all, known)}, nil
}

func judgeNodes(ready, all int, known bool) finding {
	switch line := fmt.Sprintf("%d of %s ready for Pods", ready, command.Count(all, "node")); {
	case !known:
		return warning(otherAccount, "this account may not look at nodes")
	case ready == 0:
		return problem("look at kubectl get nodes", "%s", line)
	case ready < all:
		return warning("look at kubectl get nodes", "%s", line)
	default:
		return ok("%s", line)
	}
}

func checkRights(ctx context.Context, p patient) ([]finding, error) {
	missing, err := p.cluster.Missing(ctx)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		return []finding{ok("this account has the %d rights that are needed", len(cluster.Rules()))}, nil
	}
	names := make([]string, len(missing))
	for i, r := range missing {
		names[i] = r.String()
	}
	return []finding{problem("give the account the Role and the ClusterRole of the chart (rbac.create)", "in namespace %s this account may not: %s", p.cluster.Namespace(), strings.Join(names, ", "))}, nil
}

func checkNamespace(ctx context.Context, p patient) ([]finding, error) {
	a, err := p.cluster.Admission(ctx)
	if err != nil {
		return nil, err
	}
	return judgeAdmission(p.cluster.Namespace(), a), nil
}

func judgeAdmission(namespace string, a cluster.Admission) []finding {
	var found []finding
	if a.Workspace != nil {
		found = append(found, problem("change what refuses it, or the settings of backend kubernetes", "the Pod of a workspace is refused: %s", command.OneLine(a.Workspace.Error())))
	}
	if a.Job != nil {
		found = append(found, problem("kubectl label --overwrite namespace "+namespace+" pod-security.kubernetes.io/enforce=baseline, or change what refuses it",
			"the Pod of a storage job is refused: %s", command.OneLine(a.Job.Error())))
	}
	if a.Privileged {
		found = append(found, warning("kubectl label namespace "+namespace+" pod-security.kubernetes.io/enforce=baseline",
			"namespace %s enforces no Pod Security standard: whoever may make Pods there may take over a node", namespace))
	}
	if len(found) == 0 {
		found = []finding{ok("namespace %s takes the Pods of workspaces and of storage jobs, and refuses those that could take over a node", namespace)}
	}
	return found
}

func checkStorageClass(ctx context.Context, p patient) ([]finding, error) {
	class, known, err := p.cluster.StorageClass(ctx)
	if err != nil {
		return nil, err
	}
	return judgeClass(p.kubernetes.StorageClass, class, known), nil
}

func judgeClass(name string, c *storagev1.StorageClass, known bool) []finding {
	switch {
	case !known:
		return []finding{warning(otherAccount, "this account may not look at storage classes")}
	case c == nil && name != "":
		return []finding{problem("set storage_class to one of kubectl get storageclass", "there is no storage class %s", name)}
	case c == nil:
		return []finding{problem("set storage_class, or make a class the default", "the cluster has no default storage class, and the settings name none")}
	}
	line := fmt.Sprintf("storage class %s (%s) makes the homes", c.Name, c.Provisioner)
	var found []finding
	if c.VolumeBindingMode == nil || *c.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		found = append(found, warning("use a class with volumeBindingMode WaitForFirstConsumer", "%s before it is known where their workspaces run: in a cluster with several zones some cannot start", line))
	}
	if c.ReclaimPolicy != nil && *c.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		found = append(found, warning("use a class with reclaimPolicy Delete: archives are in the object store", "%s and keeps the volumes of those that are archived or deleted", line))
	}
	if c.AllowVolumeExpansion == nil || !*c.AllowVolumeExpansion {
		found = append(found, warning("use a class with allowVolumeExpansion, or change home only for new workspaces", "%s and cannot make them larger later", line))
	}
	if len(found) == 0 {
		found = []finding{ok("%s", line)}
	}
	return found
}

func checkHomes(ctx context.Context, p patient) ([]finding, error) {
	h, err := p.cluster.Homes(ctx)
	if err != nil {
		return nil, err
	}
	return []finding{judgeHomes(h)}, nil
}

func judgeHomes(h cluster.Homes) finding {
	line := fmt.Sprintf("%s, and %d of them smaller than the setting home", command.Count(h.All, "home"), h.Small)
	switch {
	case h.Refused != nil:
		return warning("give the storage class allowVolumeExpansion, if its storage can do that; or archive a workspace and wake it: its next home has the new size",
			"%s, which the cluster does not let grow: %s", line, command.OneLine(h.Refused.Error()))
	case h.Small > 0:
		return ok("%s: each grows when its workspace starts the next time", line)
	}
	return ok("%s, none smaller than the setting home", command.Count(h.All, "home"))
}

func checkReferences(_ context.Context, p patient) ([]finding, error) {
	s := p.kubernetes
	refs := []string{s.JobImage}
	for _, i := range p.Live.Images.Default(s.Image, s.Port) {
		refs = append(refs, i.Reference)
	}
	var found []finding
	for _, ref := range refs {
		if f, good := judgeReference(ref); !good {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		found = []finding{ok("all images have a tag or a digest that means one image")}
	}
	return found, nil
}

// judgeReference says what is wrong with an image for several nodes that fetch it on their own.
func judgeReference(ref string) (f finding, good bool) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return problem("write it as registry.example.com/name:tag", "image %q: %s", ref, err), false
	}
	if _, pinned := named.(reference.Digested); pinned {
		return f, true
	}
	if tagged, is := reference.TagNameOnly(named).(reference.Tagged); is && tagged.Tag() == "latest" {
		return warning("give it a tag of its own, or a digest", "image %s: each node keeps what it fetched first under that name, so they may differ", ref), false
	}
	return f, true
}

func checkPolicies(ctx context.Context, p patient) ([]finding, error) {
	if e := p.kubernetes.Egress.Enforce; e == "" || e == egress.EnforceOpen {
		return []finding{warning("egress enforce auto or require makes NetworkPolicies", "by the setting egress enforce, there are no rules about what workspaces reach")}, nil
	}
	all, missing, err := p.cluster.Policies(ctx)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return []finding{problem("start Caddy: it makes them within a minute; its log says why if it cannot", "missing: NetworkPolicy %s", strings.Join(missing, ", "))}, nil
	}
	return []finding{ok("the NetworkPolicies are there: %s", strings.Join(all, ", "))}, nil
}

func checkEnforcement(ctx context.Context, p patient) ([]finding, error) {
	enforced, err := p.cluster.Enforced(ctx)
	switch {
	case errors.Is(err, enforcement.ErrProbe):
		return []finding{warning("look at that Pod, and at the line of images", "whether NetworkPolicies are enforced is not known: %s", command.OneLine(err.Error()))}, nil
	case err != nil:
		return nil, err
	case !enforced:
		return []finding{warning("use a network plugin that enforces NetworkPolicies, such as Calico or Cilium",
			"the cluster enforces no NetworkPolicies: workspaces reach one another, the control plane and whatever the nodes reach")}, nil
	}
	return []finding{ok("the cluster enforces NetworkPolicies: a Pod under one that forbids everything reached nothing")}, nil
}
