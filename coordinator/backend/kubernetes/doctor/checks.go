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

	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/enforcement"
)

type checks struct {
	*Doctor
	images []string
}

// Checks returns the table of a cluster's checks. images are the images of workspaces. A new check is a row here.
func (d *Doctor) Checks(images []string) []check.Row {
	c := checks{d, images}
	return []check.Row{
		{Name: "cluster", Run: c.checkCluster,
			Remedy: "check the settings kubeconfig and context of backend kubernetes; in a Pod, that it has a " +
				"ServiceAccount's token"},
		{Name: "nodes", Needs: "cluster", Run: c.checkNodes},
		{Name: "rights", Needs: "cluster", Run: c.checkRights},
		{Name: "namespace", Needs: "cluster", Run: c.checkNamespace},
		{Name: "storage class", Needs: "cluster", Run: c.checkStorageClass},
		{Name: "homes", Needs: "cluster", Run: c.checkHomes, Remedy: "see the line of rights"},
		{Name: "images", Run: c.checkReferences},
		{Name: "policies", Needs: "cluster", Run: c.checkPolicies, Remedy: "see the line of rights"},
		{Name: "isolation", Needs: "cluster", Run: c.checkEnforcement,
			Remedy: "see the lines of rights, namespace and images"},
	}
}

const (
	// oldestCluster is the oldest minor version of Kubernetes 1 with reliable scheduling gates.
	oldestCluster = 30
	// otherAccount is the remedy if this account lacks the right to look, which the chart's role does not give.
	otherAccount = "run doctor outside the cluster with an administrator's kubeconfig to know"
)

func (c checks) checkCluster(ctx context.Context) ([]check.Finding, error) {
	v, err := c.Version(ctx)
	if err != nil {
		return nil, err
	}
	id, err := c.Identity(ctx)
	if err != nil {
		return nil, err
	}
	return []check.Finding{judgeVersion(v), check.OK("it is the cluster %s, and workspaces are in namespace %s", id,
		c.Namespace())}, nil
}

// notDigits matches the suffix that providers add to the minor version.
var notDigits = regexp.MustCompile(`\D.*`)

func judgeVersion(v Version) check.Finding {
	minor, err := strconv.Atoi(notDigits.ReplaceAllString(v.Minor, ""))
	if v.Major == "1" && err == nil && minor < oldestCluster {
		return check.Problem(fmt.Sprintf("use Kubernetes 1.%d or newer", oldestCluster),
			"Kubernetes %s answers, which is too old", v.Text)
	}
	return check.OK("Kubernetes %s answers", v.Text)
}

func (c checks) checkNodes(ctx context.Context) ([]check.Finding, error) {
	ready, all, known, err := c.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	return []check.Finding{judgeNodes(ready, all, known)}, nil
}

func judgeNodes(ready, all int, known bool) check.Finding {
	switch line := fmt.Sprintf("%d of %s ready for Pods", ready, check.Count(all, "node")); {
	case !known:
		return check.Warning(otherAccount, "this account may not read nodes")
	case ready == 0:
		return check.Problem("look at kubectl get nodes", "%s", line)
	case ready < all:
		return check.Warning("look at kubectl get nodes", "%s", line)
	default:
		return check.OK("%s", line)
	}
}

func (c checks) checkRights(ctx context.Context) ([]check.Finding, error) {
	missing, err := c.Missing(ctx)
	if err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		return []check.Finding{check.OK("this account has the %d rights that are needed", len(Rules()))}, nil
	}
	names := make([]string, len(missing))
	for i, r := range missing {
		names[i] = r.String()
	}
	return []check.Finding{check.Problem("give the account the Role and the ClusterRole of the chart (rbac.create)",
		"in namespace %s this account may not: %s", c.Namespace(), strings.Join(names, ", "))}, nil
}

func (c checks) checkNamespace(ctx context.Context) ([]check.Finding, error) {
	a, err := c.Admission(ctx)
	if err != nil {
		return nil, err
	}
	return judgeAdmission(c.Namespace(), a), nil
}

func judgeAdmission(namespace string, a Admission) []check.Finding {
	var found []check.Finding
	if a.Workspace != nil {
		found = append(found, check.Problem("change what refuses it, or the settings of backend kubernetes",
			"the Pod of a workspace is refused: %s", a.Workspace))
	}
	if a.Job != nil {
		found = append(found, check.Problem("kubectl label --overwrite namespace "+namespace+
			" pod-security.kubernetes.io/enforce=baseline, or change what refuses it",
			"the Pod of a storage job is refused: %s", a.Job))
	}
	if a.Privileged {
		found = append(found, check.Warning("kubectl label namespace "+namespace+
			" pod-security.kubernetes.io/enforce=baseline",
			"namespace %s enforces no Pod Security standard: "+
				"each account that may make Pods there may take over a node",
			namespace))
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("namespace %s takes the Pods of workspaces and of storage jobs, and refuses "+
			"those that could take over a node", namespace)}
	}
	return found
}

func (c checks) checkStorageClass(ctx context.Context) ([]check.Finding, error) {
	class, known, err := c.StorageClass(ctx)
	if err != nil {
		return nil, err
	}
	return judgeClass(c.spec.StorageClass, class, known), nil
}

func judgeClass(name string, c *storagev1.StorageClass, known bool) []check.Finding {
	switch {
	case !known:
		return []check.Finding{check.Warning(otherAccount, "this account may not read storage classes")}
	case c == nil && name != "":
		return []check.Finding{check.Problem("set storage_class to one of kubectl get storageclass",
			"there is no storage class %s", name)}
	case c == nil:
		return []check.Finding{check.Problem("set storage_class, or make a class the default",
			"the cluster has no default storage class, and the settings name none")}
	}
	line := fmt.Sprintf("storage class %s (%s) makes the homes", c.Name, c.Provisioner)
	var found []check.Finding
	if c.VolumeBindingMode == nil || *c.VolumeBindingMode == storagev1.VolumeBindingImmediate {
		found = append(found, check.Warning("use a class with volumeBindingMode WaitForFirstConsumer",
			"%s before their workspaces have a node: in a cluster with several zones some cannot start",
			line))
	}
	if c.ReclaimPolicy != nil && *c.ReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
		found = append(found, check.Warning("use a class with reclaimPolicy Delete: archives are in the object store",
			"%s and keeps the volumes of those that are archived or deleted", line))
	}
	if c.AllowVolumeExpansion == nil || !*c.AllowVolumeExpansion {
		found = append(found, check.Warning("use a class with allowVolumeExpansion, or change home only for "+
			"new workspaces", "%s and cannot make them larger later", line))
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("%s", line)}
	}
	return found
}

func (c checks) checkHomes(ctx context.Context) ([]check.Finding, error) {
	h, err := c.Homes(ctx)
	if err != nil {
		return nil, err
	}
	return []check.Finding{judgeHomes(h)}, nil
}

func judgeHomes(h Homes) check.Finding {
	line := fmt.Sprintf("%s, and %d of them smaller than the setting home", check.Count(h.All, "home"), h.Small)
	switch {
	case h.Refused != nil:
		return check.Warning("give the storage class allowVolumeExpansion, if its storage can do that; or archive a "+
			"workspace and wake it: its next home has the new size",
			"%s, which the cluster does not let grow: %s", line, h.Refused)
	case h.Small > 0:
		return check.OK("%s: each grows at the next start of its workspace", line)
	}
	return check.OK("%s, none smaller than the setting home", check.Count(h.All, "home"))
}

func (c checks) checkReferences(_ context.Context) ([]check.Finding, error) {
	var found []check.Finding
	for _, ref := range append([]string{c.spec.JobImage}, c.images...) {
		if f, good := judgeReference(ref); !good {
			found = append(found, f)
		}
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("all images have a tag or a digest that means one image")}
	}
	return found, nil
}

// judgeReference reports what is wrong with an image that several nodes pull independently.
func judgeReference(ref string) (f check.Finding, good bool) {
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return check.Problem("write it as registry.example.com/name:tag", "image %q: %s", ref, err), false
	}
	if _, pinned := named.(reference.Digested); pinned {
		return f, true
	}
	if tagged, is := reference.TagNameOnly(named).(reference.Tagged); is && tagged.Tag() == "latest" {
		return check.Warning("give it a tag of its own, or a digest", "image %s: each node keeps what it fetched "+
			"first under that name, so they may differ", ref), false
	}
	return f, true
}

func (c checks) checkPolicies(ctx context.Context) ([]check.Finding, error) {
	if e := c.spec.Egress.Enforce; e == "" || e == egress.EnforceOpen {
		return []check.Finding{check.Warning("egress enforce auto or require makes NetworkPolicies",
			"by the setting egress enforce, there are no rules about what workspaces reach")}, nil
	}
	all, missing, err := c.Policies(ctx)
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return []check.Finding{check.Problem("start Caddy: it makes them within a minute; its log says why "+
			"if it cannot", "missing: NetworkPolicy %s", strings.Join(missing, ", "))}, nil
	}
	return []check.Finding{check.OK("the NetworkPolicies are there: %s", strings.Join(all, ", "))}, nil
}

func (c checks) checkEnforcement(ctx context.Context) ([]check.Finding, error) {
	enforced, err := c.Enforced(ctx)
	switch {
	case errors.Is(err, enforcement.ErrProbe):
		return []check.Finding{check.Warning("look at that Pod, and at the line of images",
			"whether NetworkPolicies are enforced is not known: %s", err)}, nil
	case err != nil:
		return nil, err
	case !enforced:
		return []check.Finding{check.Warning("use a network plugin that enforces NetworkPolicies, such as "+
			"Calico or Cilium",
			"the cluster enforces no NetworkPolicies: workspaces reach one another, the control plane and whatever "+
				"the nodes reach")}, nil
	}
	return []check.Finding{check.OK("the cluster enforces NetworkPolicies: a Pod under one that forbids everything " +
		"reached nothing")}, nil
}
