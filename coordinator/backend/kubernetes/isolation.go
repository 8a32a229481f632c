package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"net"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// KeepIsolated applies the NetworkPolicies of the installation, and removes those of earlier
// settings. It reports whether they stood before. Whether the cluster's network enforces
// them is another question, which only the network's own software knows.
func (b *Backend) KeepIsolated(ctx context.Context) (stood bool, err error) {
	o := b.opts
	if name := o.StoreName(); name != "" {
		// Without the store's addresses the other rules stand all the same.
		lookup, cancel := context.WithTimeout(ctx, object.ReadLimit)
		o.StoreAddresses, _ = net.DefaultResolver.LookupNetIP(lookup, "ip", name)
		cancel()
	}
	ctx, cancel := context.WithTimeout(ctx, 2*object.ReadLimit)
	defer cancel()
	list, err := b.api.NetworkPolicies.List(ctx, metav1.ListOptions{LabelSelector: selectorOf(map[string]string{spec.LabelInstallation: b.opts.Installation})})
	if err != nil {
		return false, cluster.Wrap("listing network policies", err)
	}
	versions := make(map[string]string, len(list.Items))
	for _, p := range list.Items {
		versions[p.Name] = p.ResourceVersion
	}
	stood = true
	wanted := make(map[string]bool)
	var errs []error
	for _, p := range spec.NetworkPolicies(o) {
		wanted[p.Name] = true
		if _, ours := versions[p.Name]; !ours {
			have, exists, err := object.Live(ctx, b.api.NetworkPolicies, "network policy", p.Name)
			if err != nil {
				return false, err
			}
			if exists && have.Labels[spec.LabelInstallation] != b.opts.Installation {
				errs = append(errs, notOurs("network policy", p.Name))
				continue
			}
		}
		now, err := b.applyPolicy(ctx, p)
		if err != nil {
			errs = append(errs, cluster.Wrap("applying network policy "+p.Name, err))
			continue
		}
		stood = stood && now.ResourceVersion == versions[p.Name] // applying what is there changes nothing
	}
	for _, p := range list.Items {
		if !wanted[p.Name] {
			stood = false
			errs = append(errs, object.Delete(ctx, b.api.NetworkPolicies, "removing network policy "+p.Name, p.Name, object.Incarnation(p.UID, "", nil, "")))
		}
	}
	return stood && len(errs) == 0, errors.Join(errs...)
}

// applyPolicy makes the policy what it shall be. Applying alone leaves what somebody has added
// where the policy says nothing, such as an ingress rule where there shall be none.
func (b *Backend) applyPolicy(ctx context.Context, p *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	p.APIVersion, p.Kind = "networking.k8s.io/v1", "NetworkPolicy"
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	force := true
	now, err := b.api.NetworkPolicies.Patch(ctx, p.Name, types.ApplyYAMLPatchType, data, metav1.PatchOptions{FieldManager: spec.Manager, Force: &force})
	if err != nil || equality.Semantic.DeepEqual(now.Spec, p.Spec) {
		return now, err
	}
	data, err = json.Marshal([]map[string]any{
		{"op": "test", "path": "/metadata/uid", "value": now.UID},
		{"op": "replace", "path": "/spec", "value": p.Spec},
	})
	if err != nil {
		return nil, err
	}
	return b.api.NetworkPolicies.Patch(ctx, p.Name, types.JSONPatchType, data, metav1.PatchOptions{FieldManager: spec.Manager})
}
