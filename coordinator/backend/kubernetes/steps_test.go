package kubernetes_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func newID() workspace.ID { return workspace.ID(uuid.NewString()) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestInterrupted: if a process dies between two requests, the next call finishes or removes what it left.
func TestInterrupted(t *testing.T) {
	e := newEngine(t)
	t.Run("gated Pod", func(t *testing.T) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		left := e.gatedPod(t, installation, backend.StartSpec{ID: id, Term: "dead"})
		wait.Until(t, "it is listed", func() bool {
			all, err := b.Containers(ctx, id)
			must(t, err)
			c, ok := all[id]
			if c.Running {
				t.Fatalf("a Pod behind its gate runs: %+v", c)
			}
			return ok
		})
		must(t, b.Start(ctx, backend.StartSpec{ID: id, Term: "next"}))
		backendtest.Ready(t, b, id)
		if p, err := e.api.Pods.Get(ctx, id.ContainerName(), metav1.GetOptions{}); err != nil || p.UID != left {
			t.Errorf("the same Pod was not released: %v", err)
		}
	})
	t.Run("gated Pod of another image", func(t *testing.T) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		left := e.gatedPod(t, installation, backend.StartSpec{ID: id, Image: "example.invalid/other:1"})
		must(t, b.Start(ctx, backend.StartSpec{ID: id}))
		backendtest.Ready(t, b, id)
		if p, err := e.api.Pods.Get(ctx, id.ContainerName(), metav1.GetOptions{}); err != nil || p.UID == left {
			t.Errorf("the Pod was not replaced: %v", err)
		}
	})
	t.Run("gated Pod and a job", func(t *testing.T) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		e.gatedPod(t, installation, backend.StartSpec{ID: id})
		job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}
		if err := b.StartJob(ctx, job); err == nil {
			t.Fatal("a job started beside a Pod that may be released at any time")
		}
		must(t, b.Delete(ctx, id))
		must(t, b.StartJob(ctx, job))
	})
	t.Run("suspended Job", func(t *testing.T) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2", Grant: []byte(`{"first":1}`)}
		e.suspendedJob(t, installation, job)
		if all, err := b.Jobs(ctx, id); err != nil || len(all[id]) != 0 {
			t.Fatalf("a job that was never started is listed: %+v, %v", all, err)
		}
		must(t, b.StartJob(ctx, job))
		wait.Until(t, "it has succeeded", func() bool {
			all, err := b.Jobs(ctx, id)
			must(t, err)
			return len(all[id]) == 1 && all[id][0].State == workspace.JobSucceeded
		})
	})
	t.Run("suspended Job and another volume", func(t *testing.T) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		e.suspendedJob(t, installation, backend.JobSpec{ID: id, Kind: workspace.JobRestore, OpID: "op2"})
		must(t, b.DeleteVolume(ctx, id, "op"))
		if n := e.JobCount(t, id); n != 0 {
			t.Errorf("%d jobs, to be started on the next volume", n)
		}
	})
	t.Run("suspended Job and a start", func(t *testing.T) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		e.suspendedJob(t, installation, backend.JobSpec{ID: id, Kind: workspace.JobRestore, OpID: "op2"})
		must(t, b.Start(ctx, backend.StartSpec{ID: id}))
		backendtest.Ready(t, b, id)
		if n := e.JobCount(t, id); n != 0 {
			t.Errorf("%d jobs beside the workspace", n)
		}
	})
}

// gatedPod creates the Pod that a start creates first.
func (e *engine) gatedPod(t *testing.T, installation string, s backend.StartSpec) types.UID {
	t.Helper()
	p, err := spec.Pod(e.options(installation).Spec, s)
	must(t, err)
	p, err = e.api.Pods.Create(t.Context(), p, metav1.CreateOptions{})
	must(t, err)
	return p.UID
}

func (e *engine) suspendedJob(t *testing.T, installation string, s backend.JobSpec) {
	t.Helper()
	_, err := e.api.Jobs.Create(t.Context(), spec.Job(e.options(installation).Spec, s), metav1.CreateOptions{})
	must(t, err)
}

// TestLateDeleteOfUsedVolume: a leader sees that the volume is not in use, and is deposed. Its successor then starts
// the workspace, and only after that the former leader's request to remove the volume arrives (SPEC 12.11). Without the
// claim's version in the request, the cluster would accept it, and would remove the volume when the container ends.
func TestLateDeleteOfUsedVolume(t *testing.T) {
	e := newEngine(t)
	installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
	successor := e.New(t, installation)
	deposed, held, release := e.Hold(t, installation)
	must(t, successor.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	late := make(chan error, 1)
	go func() { late <- deposed.DeleteVolume(ctx, id, "op") }()
	select {
	case <-held:
	case err := <-late:
		t.Fatalf("the request was not held back: %v", err)
	}
	must(t, successor.Start(ctx, backend.StartSpec{ID: id}))
	release()
	if err := <-late; !errors.Is(err, backend.ErrVolumeInUse) {
		t.Errorf("%v, want %v", err, backend.ErrVolumeInUse)
	}
	backendtest.Ready(t, successor, id)
	c, err := e.api.Claims.Get(ctx, id.VolumeName(), metav1.GetOptions{})
	if err != nil || c.DeletionTimestamp != nil {
		t.Errorf("the volume of a running workspace is being deleted: %+v, %v", c.ObjectMeta, err)
	}
}

// TestIdleCostsNothing: observing everything sends no request to the cluster.
func TestIdleCostsNothing(t *testing.T) {
	e := newEngine(t)
	var requests atomic.Int64
	o := e.options(backendtest.Installation())
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !strings.Contains(r.URL.RawQuery, "watch=") {
				requests.Add(1)
			}
			return next.RoundTrip(r)
		})
	}
	b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}))
	look := func() (done bool) {
		_, err := b.Containers(ctx)
		must(t, err)
		_, err = b.Volumes(ctx)
		must(t, err)
		jobs, err := b.Jobs(ctx)
		must(t, err)
		_, err = b.Identity(ctx)
		must(t, err)
		return len(jobs[id]) == 1 && jobs[id][0].State == workspace.JobSucceeded
	}
	wait.Until(t, "the job has succeeded", look)
	before := requests.Load()
	for range 100 {
		look()
	}
	if n := requests.Load() - before; n != 0 {
		t.Errorf("%d requests for 100 looks", n)
	}
}

// TestKeepIsolated: KeepIsolated applies the rules, applies them again after they were changed or removed, and removes
// the rules of earlier settings. Another owner's rule of the same name stays.
func TestKeepIsolated(t *testing.T) {
	e := newEngine(t)
	installation, ctx := backendtest.Installation(), backendtest.Context(t)
	b := e.New(t, installation)
	keep := func(want bool) {
		t.Helper()
		stood, err := b.KeepIsolated(ctx)
		if err != nil || stood != want {
			t.Fatalf("the rules stood: %t, %v, want %t", stood, err, want)
		}
	}
	keep(false)
	keep(true)
	own := metav1.ListOptions{LabelSelector: spec.LabelInstallation + "=" + installation}
	all, err := e.api.NetworkPolicies.List(ctx, own)
	must(t, err)
	if len(all.Items) < 2 {
		t.Fatalf("%d rules, want those of workspaces and of jobs", len(all.Items))
	}
	_, err = e.api.NetworkPolicies.Patch(ctx, all.Items[0].Name, types.MergePatchType, []byte(`{"spec":{"ingress":[{}]}}`), metav1.PatchOptions{})
	must(t, err)
	keep(false)
	now, err := e.api.NetworkPolicies.Get(ctx, all.Items[0].Name, metav1.GetOptions{})
	must(t, err)
	if len(now.Spec.Ingress) != len(all.Items[0].Spec.Ingress) {
		t.Errorf("the changed rule stays: %+v", now.Spec.Ingress)
	}
	must(t, e.api.NetworkPolicies.Delete(ctx, all.Items[1].Name, metav1.DeleteOptions{}))
	keep(false)
	_, err = e.api.NetworkPolicies.Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Name: "earlier", Labels: map[string]string{spec.LabelInstallation: installation}}}, metav1.CreateOptions{})
	must(t, err)
	keep(false)
	keep(true)
	if _, err := e.api.NetworkPolicies.Get(ctx, "earlier", metav1.GetOptions{}); ignoreGone(err) != nil || err == nil {
		t.Errorf("a rule of earlier settings stays: %v", err)
	}
	must(t, e.api.NetworkPolicies.Delete(ctx, all.Items[0].Name, metav1.DeleteOptions{}))
	_, err = e.api.NetworkPolicies.Create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: all.Items[0].Name}}, metav1.CreateOptions{})
	must(t, err)
	if _, err := b.KeepIsolated(ctx); err == nil || !strings.Contains(err.Error(), all.Items[0].Name) {
		t.Errorf("another owner's rule of that name: %v", err)
	}
}

// TestQuota: a start waits while the quota is used up, and that is no failure. The cluster accepts a Job without saying
// why it creates no Pod.
func TestQuota(t *testing.T) {
	e := newEngine(t)
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	quotas := "/api/v1/namespaces/" + e.Namespace + "/resourcequotas"
	api := e.Inspect(t, "")
	must(t, api.Do(ctx, http.MethodPost, quotas, nil, &corev1.ResourceQuota{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: "none"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}, nil))
	var pending *workspace.PendingError
	wait.Until(t, "the quota counts", func() bool {
		err := b.Start(ctx, backend.StartSpec{ID: id})
		if err == nil {
			must(t, b.Delete(ctx, id))
		}
		return errors.As(err, &pending) && pending.Pending.Reason == workspace.WaitQuota
	})
	if e.ContainerExists(t, id) {
		t.Error("the refused start left a Pod")
	}
	must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}))
	wait.Until(t, "the job waits for the quota", func() bool {
		all, err := b.Jobs(ctx, id)
		must(t, err)
		if len(all[id]) != 1 || all[id][0].State != workspace.JobRunning {
			t.Fatalf("jobs: %+v, want one that is under way", all)
		}
		why := all[id][0].Pending
		return why != nil && why.Reason == workspace.WaitQuota
	})
	must(t, b.DeleteJobs(ctx, id))
	must(t, api.Do(ctx, http.MethodDelete, quotas+"/none", nil, nil, nil))
	wait.Until(t, "it starts when there is room", func() bool {
		err := b.Start(ctx, backend.StartSpec{ID: id})
		if err != nil && !errors.As(err, &pending) {
			t.Fatal(err)
		}
		return err == nil
	})
	backendtest.Ready(t, b, id)
}
