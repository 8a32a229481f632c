package kubernetes_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/google/uuid"
)

// TestHomesThatRunAreCounted: the homes of other workspaces are unknown.
func TestHomesThatRunAreCounted(t *testing.T) {
	e := newEngine(t)
	b, ctx := e.New(t, backendtest.Installation()), backendtest.Context(t)
	runs, sleeps := workspace.ID(uuid.NewString()), workspace.ID(uuid.NewString())
	for _, id := range []workspace.ID{runs, sleeps} {
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	}
	must(t, b.Start(ctx, backend.StartSpec{ID: runs}))
	wait.For(t, "the home that runs is counted", func() error {
		got, err := b.Usage(ctx, time.Minute, runs, sleeps)
		if err != nil {
			return err
		}
		if _, ok := got[runs]; !ok || len(got) != 1 {
			return errors.New("it is not")
		}
		return nil
	})
}

// TestAQuotaIsTheDisk: the storage that the namespace may still claim counts as the free space for homes.
func TestAQuotaIsTheDisk(t *testing.T) {
	e := newEngine(t)
	b, ctx := e.New(t, backendtest.Installation()), backendtest.Context(t)
	_, err := e.api.Quotas.Create(ctx, &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "storage"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourceRequestsStorage: resource.MustParse("64Mi")}},
	}, metav1.CreateOptions{})
	must(t, err)
	wait.Until(t, "the cluster counts", func() bool {
		q, err := e.api.Quotas.Get(ctx, "storage", metav1.GetOptions{})
		must(t, err)
		return len(q.Status.Used) > 0
	})
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: workspace.ID(uuid.NewString()), OpID: "op"})) // of 16 MiB
	wait.For(t, "a quarter is in use", func() error {
		d, err := b.Disk(ctx)
		if err == nil && d != (backend.Disk{Total: 64 << 20, Free: 48 << 20}) {
			err = errors.New("not yet")
		}
		return err
	})
}
