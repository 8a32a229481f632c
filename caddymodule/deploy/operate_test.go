package deploy_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestChartIsOperated does what the operator of a cluster does: it keeps images on the nodes, upgrades the release
// after a change of a Secret, drains the node, and lets the cluster choose the number of gateways.
func TestChartIsOperated(t *testing.T) {
	r := install(t)
	r.upgrade(t, "--set", "prePull.enabled=true")
	r.holdsImages(t)

	before := r.running(t)
	r.upgrade(t, "--set", "prePull.enabled=true")
	if after := r.running(t); !maps.Equal(before, after) {
		t.Errorf("an upgrade that changes nothing replaced the gateways %v by %v", before, after)
	}
	_, err := r.api.Secrets.Patch(t.Context(), "servers", types.MergePatchType, []byte(`{"stringData": {"OIDC_CLIENT_SECRET": "changed"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.upgrade(t, "--set", "prePull.enabled=true")
	for name, id := range r.running(t) {
		if before[name] == id {
			t.Errorf("%s still has the Secret of before the upgrade", name)
		}
	}

	r.drain(t)
	r.upgrade(t, "--set", "autoscaling.enabled=true,autoscaling.minReplicas=3")
	wait.For(t, "the cluster has chosen the number of gateways", func() error {
		if n := len(r.running(t)); n != 3 {
			return fmt.Errorf("%d gateways run", n)
		}
		return nil
	})
}

func (r *release) upgrade(t *testing.T, args ...string) {
	t.Helper()
	r.helm(t, "upgrade", append([]string{"chart", "--values", r.values, "--wait", "--timeout", "3m"}, args...)...)
}

// running returns the Pods of the gateways that have not been told to stop, as a map from their names to their uids.
func (r *release) running(t *testing.T) map[string]types.UID {
	t.Helper()
	found := make(map[string]types.UID)
	for _, p := range r.gateways(t) {
		if p.DeletionTimestamp == nil {
			found[p.Name] = p.UID
		}
	}
	return found
}

// holdsImages waits until a Pod on the node keeps the images of workspaces there. This works for images with and
// without a shell.
func (r *release) holdsImages(t *testing.T) {
	t.Helper()
	wait.For(t, "the images are on the node", func() error {
		var set appsv1.DaemonSet
		if err := r.Inspect(t, "").Do(t.Context(), http.MethodGet, "/apis/apps/v1/namespaces/%s/daemonsets/codehub-prepull", nil, nil, &set); err != nil {
			return err
		}
		if s := set.Status; s.NumberReady == 0 || s.NumberReady != s.DesiredNumberScheduled {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	pods, err := r.api.Pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=codehub-prepull"})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		for _, c := range p.Status.ContainerStatuses {
			t.Logf("%s holds %s on %s", c.Name, c.Image, p.Spec.NodeName)
			if c.RestartCount > 0 {
				t.Errorf("%s has ended %d times", c.Name, c.RestartCount)
			}
		}
		if n := len(p.Spec.Containers); n != 2 {
			t.Errorf("%d images are held, want those of workspaces and storage jobs", n)
		}
	}
}

// drain evicts every gateway as `kubectl drain` does: it evicts each gateway as soon as the disruption budget allows
// it.
func (r *release) drain(t *testing.T) {
	t.Helper()
	api := r.Inspect(t, "")
	for _, name := range slices.Sorted(maps.Keys(r.running(t))) {
		tries := 0
		wait.For(t, name+" is evicted", func() error {
			tries++
			return api.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/%s/pods/"+name+"/eviction", nil, &policyv1.Eviction{
				TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: r.Namespace},
			}, nil)
		})
		t.Logf("%s was evicted at try %d", name, tries)
		if err := r.answers(t); err != nil {
			t.Errorf("after the eviction of %s: %v", name, err)
		}
	}
}

// answers checks that a gateway is ready and that the installation answers.
func (r *release) answers(t *testing.T) error {
	t.Helper()
	ready := slices.ContainsFunc(r.gateways(t), func(p corev1.Pod) bool {
		return p.DeletionTimestamp == nil && slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	})
	if !ready {
		return errors.New("no gateway is ready")
	}
	// A gateway that was told to stop still answers on its existing connections, but is not ready.
	return r.try(t.Context(), http.MethodGet, "/health", nil, nil)
}
