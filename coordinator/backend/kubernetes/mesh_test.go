package kubernetes_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestServiceMesh: a service mesh adds a proxy to the Pod of a storage job, and the proxy keeps running when the job
// has ended. The backend still reads the job's result, and removes the proxy with the job.
func TestServiceMesh(t *testing.T) {
	e := newEngine(t)
	o := e.options(backendtest.Installation())
	b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	j := spec.Job(o.Spec, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"})
	proxy := *j.Spec.Template.Spec.Containers[0].DeepCopy()
	proxy.Name, proxy.Args, proxy.VolumeMounts = "proxy", []string{"serve", "15001"}, nil
	j.Spec.Template.Spec.Containers = append(j.Spec.Template.Spec.Containers, proxy)
	made, err := e.api.Jobs.Create(ctx, j, metav1.CreateOptions{})
	must(t, err)
	_, err = e.api.Jobs.Patch(ctx, made.Name, types.MergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	must(t, err)
	wait.Until(t, "the job has succeeded", func() bool {
		all, err := b.Jobs(ctx, id)
		must(t, err)
		return len(all[id]) == 1 && all[id][0].State == workspace.JobSucceeded
	})
	pods, _ := e.of(t, id)
	if len(pods) != 1 || pods[0].Status.Phase != corev1.PodRunning {
		t.Fatalf("the proxy does not go on: %+v", pods)
	}
	// The proxy does not mount the home, so it does not keep the workspace from using it either.
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	backendtest.Ready(t, b, id)
	must(t, b.DeleteJobs(ctx, id))
	if pods, jobs := e.of(t, id); len(pods) != 1 || len(jobs) != 0 {
		t.Errorf("%d Pods and %d Jobs are left, want the workspace's Pod", len(pods), len(jobs))
	}
}

// TestWorkspaceWithAProxy: the backend reports the same about a workspace with another container in its Pod as about
// one without.
func TestWorkspaceWithAProxy(t *testing.T) {
	e := newEngine(t)
	o := e.options(backendtest.Installation())
	o.Spec.PodTemplate = `{spec: {containers: [{name: proxy, image: "` + e.image + `", args: [serve, "15001"],
		securityContext: {allowPrivilegeEscalation: false, runAsNonRoot: true, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}}]}}`
	b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	backendtest.Ready(t, b, id)
	if pods, _ := e.of(t, id); len(pods) != 1 || len(pods[0].Spec.Containers) != 2 {
		t.Fatalf("the Pod has no proxy: %+v", pods)
	}
	_, err := b.Logs(ctx, id, 10)
	must(t, err)
	_, err = b.Look(ctx, id)
	must(t, err)
}
