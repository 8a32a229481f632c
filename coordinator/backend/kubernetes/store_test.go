package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// resolves returns a resolver with these addresses for the object store; nil means that no name server answers.
func resolves(addresses ...string) func(context.Context, string, string) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, a := range addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	return func(context.Context, string, string) ([]netip.Addr, error) {
		if len(all) == 0 {
			return nil, errors.New("i/o timeout")
		}
		return all, nil
	}
}

// opened returns the single addresses that the policy of the installation's storage jobs allows.
func (e *engine) opened(t *testing.T, installation string) (all []string) {
	t.Helper()
	list, err := e.api.NetworkPolicies.List(t.Context(), metav1.ListOptions{LabelSelector: spec.LabelInstallation + "=" + installation})
	must(t, err)
	for i := range list.Items {
		for _, a := range spec.Opened(&list.Items[i]) {
			all = append(all, a.String())
		}
	}
	slices.Sort(all)
	return all
}

// TestANameServerThatFails: while the name server fails, no process removes an address from the rules, so running
// storage jobs continue. An address that is no longer reported stays allowed for a while, and a new one is allowed
// immediately.
func TestANameServerThatFails(t *testing.T) {
	e := newEngine(t)
	installation, ctx := backendtest.Installation(), backendtest.Context(t)
	o := e.options(installation)
	o.Spec.Store, o.Spec.Egress.Enforce = "http://store.example:9000", egress.EnforceAuto
	b, next := e.with(t, o), e.with(t, o)
	keep := func(b backend.Backend, resolve func(context.Context, string, string) ([]netip.Addr, error), stood bool, want ...string) {
		t.Helper()
		kubernetes.SetResolve(b, resolve)
		was, err := b.KeepIsolated(ctx)
		if got := e.opened(t, installation); err != nil || was != stood || !slices.Equal(got, want) {
			t.Errorf("opened %v, want %v; the rules stood: %v, %v", got, want, was, err)
		}
	}
	keep(b, resolves("10.1.0.9", "10.1.0.8"), false, "10.1.0.8:9000", "10.1.0.9:9000")
	keep(b, resolves(), true, "10.1.0.8:9000", "10.1.0.9:9000")
	keep(b, resolves("10.1.0.9"), true, "10.1.0.8:9000", "10.1.0.9:9000")
	keep(next, resolves(), true, "10.1.0.8:9000", "10.1.0.9:9000")
	keep(next, resolves("10.1.0.7", "198.51.100.1"), false, "10.1.0.7:9000", "10.1.0.8:9000", "10.1.0.9:9000")
	elsewhere := e.options(installation)
	elsewhere.Spec.Store, elsewhere.Spec.Egress.Enforce = "http://other.example:9000", egress.EnforceAuto
	keep(e.with(t, elsewhere), resolves("10.1.0.6"), false, "10.1.0.6:9000")
}

// TestAStoreBehindAServiceWithoutSelector: storage jobs may reach endpoints that were written by hand, in this
// namespace and in another. If the service is an alias for another domain, they may reach that domain.
func TestAStoreBehindAServiceWithoutSelector(t *testing.T) {
	e := newEngine(t)
	other := devenv.Kubernetes(t)
	ctx := backendtest.Context(t)
	create := func(namespace, kind string, object any) {
		t.Helper()
		must(t, e.Inspect(t, "").Do(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/"+kind, nil, object, nil))
	}
	for _, namespace := range []string{e.Namespace, other.Namespace} {
		create(namespace, "services", &corev1.Service{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "store"},
			Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9000}}},
		})
		create(namespace, "endpoints", map[string]any{
			"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{"name": "store"},
			"subsets": []any{map[string]any{"addresses": []any{map[string]any{"ip": "10.1.0.9"}, map[string]any{"ip": "198.51.100.7"}}, "ports": []any{map[string]any{"port": 9001}}}},
		})
	}
	// The chart gives this right, too, if the settings name a service of another namespace.
	const rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/"
	type object map[string]any
	must(t, e.Inspect(t, "").Do(ctx, http.MethodPost, rbac+other.Namespace+"/roles", nil, object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": object{"name": "store"},
		"rules": []object{{"apiGroups": []string{"discovery.k8s.io"}, "resources": []string{"endpointslices"}, "verbs": []string{"list"}}},
	}, nil))
	must(t, e.Inspect(t, "").Do(ctx, http.MethodPost, rbac+other.Namespace+"/rolebindings", nil, object{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": object{"name": "store"},
		"roleRef":  object{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "store"},
		"subjects": []object{{"kind": "ServiceAccount", "name": "gateway", "namespace": e.Namespace}},
	}, nil))
	create(e.Namespace, "services", &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "store.example"},
	})
	for store, want := range map[string][]string{
		"http://store:9000": {"10.1.0.9:9001", "198.51.100.7:9001"},
		"http://store." + other.Namespace + ".svc.cluster.local:9000": {"10.1.0.9:9001", "198.51.100.7:9001"},
		"http://elsewhere:9000": {"10.1.0.5:9000"},
	} {
		installation := backendtest.Installation()
		o := e.options(installation)
		o.Spec.Store, o.Spec.Egress.Enforce = store, egress.EnforceAuto
		b := e.with(t, o)
		kubernetes.SetResolve(b, func(_ context.Context, _, host string) ([]netip.Addr, error) {
			if host != "elsewhere."+e.Namespace+".svc" {
				return nil, errors.New("no such host")
			}
			return []netip.Addr{netip.MustParseAddr("10.1.0.5")}, nil
		})
		wait.Until(t, store+" is opened", func() bool { // the cluster creates the slices of written endpoints
			_, err := b.KeepIsolated(ctx)
			must(t, err)
			return slices.Equal(e.opened(t, installation), want)
		})
	}
}

// TestAStoreBehindAServiceIsReached: on a cluster that enforces NetworkPolicies, storage jobs reach the store although
// it is no Pod.
func TestAStoreBehindAServiceIsReached(t *testing.T) {
	w := newWorld(t)
	behind, err := netip.ParseAddrPort(w.targets["a private network"])
	must(t, err)
	ctx, api, path := backendtest.Context(t), w.Inspect(t, ""), "/api/v1/namespaces/"+w.Namespace
	var service corev1.Service
	must(t, api.Do(ctx, http.MethodPost, path+"/services", nil, &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Name: "store"},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 9000}}},
	}, &service))
	must(t, api.Do(ctx, http.MethodPost, path+"/endpoints", nil, map[string]any{
		"apiVersion": "v1", "kind": "Endpoints", "metadata": map[string]any{"name": "store"},
		"subsets": []any{map[string]any{"addresses": []any{map[string]any{"ip": behind.Addr().String()}}, "ports": []any{map[string]any{"port": behind.Port()}}}},
	}, nil))
	w.targets = map[string]string{"the store": service.Spec.ClusterIP + ":9000"}
	installation := backendtest.Installation()
	o := w.options(installation)
	o.Spec.Store, o.Spec.Egress.Enforce = "http://store:9000", egress.EnforceAuto
	b := w.with(t, o)
	wait.Until(t, "the store is opened", func() bool {
		_, err := b.KeepIsolated(ctx)
		must(t, err)
		return slices.Equal(w.opened(t, installation), []string{behind.String()})
	})
	wait.For(t, "a storage job reaches the store", func() error {
		reached, err := w.reach(t, w.api, spec.Labels(installation, newID(), spec.KindJob))
		if err == nil && len(reached) != 1 {
			err = fmt.Errorf("it reaches %q", reached)
		}
		return err
	})
}
