package kubernetes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/enforcement"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/workspace"
)

// provenFor is how long a proof that the cluster enforces NetworkPolicies is valid. It expires because the cluster's
// network software may be replaced.
const provenFor = 24 * time.Hour

// isolated is what this process knows about the rules that limit what workspaces can reach. Nothing starts before the
// rules are applied and, with `egress enforce require`, proven to be enforced (SPEC 8).
type isolated struct {
	making sync.Mutex // held while the rules are applied
	stands atomic.Bool
	proven clock.Moment // guarded by making; zero before the first proof
	store  storeMemory  // guarded by making
}

// KeepIsolated applies the NetworkPolicies of the installation, and removes policies that come from earlier settings.
// It reports whether they were in place before. With [egress.EnforceRequire] it also proves from inside the cluster
// that the rules are enforced, because the cluster's API does not show that.
func (b *Backend) KeepIsolated(ctx context.Context) (stood bool, err error) {
	b.isolated.making.Lock()
	defer b.isolated.making.Unlock()
	if stood, err = b.applyPolicies(ctx); err == nil {
		err = b.prove(ctx)
	}
	b.isolated.stands.Store(err == nil)
	return stood, err
}

// checkIsolated returns nil if a Pod may start. A process that does not keep the rules, because another process is the
// leader, applies them once itself.
func (b *Backend) checkIsolated(ctx context.Context) error {
	if !b.opts.Egress.Active() || b.isolated.stands.Load() {
		return nil
	}
	_, err := b.KeepIsolated(ctx)
	if err == nil || workspace.ReasonOf(err) == workspace.ReasonUnreachable {
		return err
	}
	return &workspace.PendingError{
		Pending: workspace.Pending{Reason: workspace.WaitEgressRules, Message: err.Error()}, Err: err,
	}
}

// prove returns an error if the settings require enforcement and the cluster does not enforce NetworkPolicies. It
// repeats the proof after a day.
func (b *Backend) prove(ctx context.Context) error {
	known := &b.isolated.proven
	if b.opts.Egress.Enforce != egress.EnforceRequire || !known.IsZero() && known.Elapsed() < provenFor {
		return nil
	}
	enforced, err := enforcement.Probe{Client: b.api, Spec: b.opts}.Enforced(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("egress enforce is require, and whether the cluster enforces NetworkPolicies could "+
			"not be seen: %w", err)
	case !enforced:
		return errNotEnforced
	}
	*known = clock.Now()
	return nil
}

// errNotEnforced means that the cluster has the rules but does not enforce them.
var errNotEnforced = errors.New("egress enforce is require, and the cluster enforces no NetworkPolicies: use a " +
	"network plugin that does, such as Calico or Cilium, or set egress enforce to auto")

// applyPolicies is [Backend.KeepIsolated] without the proof of enforcement.
func (b *Backend) applyPolicies(ctx context.Context) (stood bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*object.ReadLimit)
	defer cancel()
	list, err := b.api.NetworkPolicies.List(ctx, metav1.ListOptions{
		LabelSelector: selectorOf(map[string]string{spec.LabelInstallation: b.opts.Installation}),
	})
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
	for _, p := range spec.NetworkPolicies(b.withStore(ctx, b.opts, list.Items)) {
		wanted[p.Name] = true
		if _, ours := versions[p.Name]; !ours {
			have, exists, err := object.Live(ctx, b.api.NetworkPolicies, "network policy", p.Name)
			if err != nil {
				return false, err
			}
			if exists && have.Labels[spec.LabelInstallation] != b.opts.Installation {
				errs = append(errs, backend.NotOurs("network policy", p.Name))
				continue
			}
		}
		now, err := b.applyPolicy(ctx, p)
		if err != nil {
			errs = append(errs, cluster.Wrap("applying network policy "+p.Name, err))
			continue
		}
		stood = stood && now.ResourceVersion == versions[p.Name] // applying an unchanged policy keeps its version
	}
	for _, p := range list.Items {
		if !wanted[p.Name] {
			stood = false
			errs = append(errs, object.Delete(ctx, b.api.NetworkPolicies, "removing network policy "+p.Name, p.Name,
				object.Incarnation(p.UID, "", nil, "")))
		}
	}
	return stood && len(errs) == 0, errors.Join(errs...)
}

// applyPolicy makes the policy equal to p. If only p were applied, the policy would keep what another program has added
// to fields that p does not set, such as an ingress rule.
func (b *Backend) applyPolicy(ctx context.Context, p *networkingv1.NetworkPolicy) (*networkingv1.NetworkPolicy, error) {
	p.APIVersion, p.Kind = "networking.k8s.io/v1", "NetworkPolicy"
	data, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	force := true
	now, err := b.api.NetworkPolicies.Patch(ctx, p.Name, types.ApplyYAMLPatchType, data, metav1.PatchOptions{
		FieldManager: spec.Manager, Force: &force,
	})
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
	return b.api.NetworkPolicies.Patch(ctx, p.Name, types.JSONPatchType, data, metav1.PatchOptions{
		FieldManager: spec.Manager,
	})
}
