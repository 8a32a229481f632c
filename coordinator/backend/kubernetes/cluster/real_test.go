package cluster_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
)

// counter counts requests.
type counter struct {
	base  http.RoundTripper
	total atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.total.Add(1)
	return c.base.RoundTrip(r)
}

// TestReal: a real cluster behaves as the other tests assume.
func TestReal(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("no Kubernetes cluster; run make test-k8s")
	}
	at, count := devenv.Kubernetes(t), new(counter)
	c, err := cluster.Connect(cluster.Options{Kubeconfig: at.Kubeconfig, Namespace: at.Namespace, Transport: func(base http.RoundTripper) http.RoundTripper {
		count.base = base
		return count
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if id, err := c.Identity(t.Context()); err != nil || len(id) != 36 {
		t.Fatalf("%q, %v", id, err)
	}
	all := c.Follow(spec.LabelInstallation + "=test")
	changes := all.Changes(t.Context())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "ws-1", Labels: map[string]string{spec.LabelInstallation: "test", spec.LabelWorkspace: "w1"}},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: spec.Gate}}, // so that it needs no image
			Containers:      []corev1.Container{{Name: "c", Image: "none"}},
		},
	}
	if _, err := all.Pods.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	made, err := c.Pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := all.Pods.Await(t.Context(), pod.Name, func(p *corev1.Pod, exists bool) bool { return exists && p.UID == made.UID }); err != nil {
		t.Fatal(err)
	}
	if id := <-changes; id != "w1" {
		t.Errorf("a hint for %q", id)
	}
	if _, err := c.Pods.Create(t.Context(), pod, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(cluster.Wrap("making it", err)) {
		t.Errorf("again: %v", err)
	}
	_, _, _ = look(t, all), look(t, all), look(t, all)
	before := count.total.Load()
	for range 50 {
		if n := look(t, all); n != 1 {
			t.Errorf("%d Pods", n)
		}
	}
	if n := count.total.Load() - before; n != 0 {
		t.Errorf("looks have cost %d requests", n)
	}
	other := types.UID("00000000-0000-0000-0000-000000000000")
	err = c.Pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(cluster.Wrap("removing another one", err)) {
		t.Errorf("removing another incarnation: %v", err)
	}
	if err := c.Pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &made.UID}}); err != nil {
		t.Fatal(err)
	}
	if err := all.Pods.Await(t.Context(), pod.Name, func(_ *corev1.Pod, exists bool) bool { return !exists }); err != nil {
		t.Fatal(err)
	}
	if n := look(t, all); n != 0 {
		t.Errorf("%d Pods after the removal", n)
	}
}

// look returns how many Pods there are, and also lists all other objects.
func look(t *testing.T, all *cluster.Caches) int {
	t.Helper()
	pods, err1 := all.Pods.List(t.Context(), "w1")
	_, err2 := all.Claims.List(t.Context())
	_, err3 := all.Jobs.List(t.Context())
	if err1 != nil || err2 != nil || err3 != nil {
		t.Fatal(err1, err2, err3)
	}
	return len(pods)
}
