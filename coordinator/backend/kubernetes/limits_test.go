package kubernetes_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// limits adds a ResourceQuota or a LimitRange to the engine's namespace, and returns a function that removes it.
func (e *engine) limits(t *testing.T, resource string, object any) (remove func()) {
	t.Helper()
	path := "/api/v1/namespaces/" + e.Namespace + "/" + resource
	must(t, e.Inspect(t, "").Do(t.Context(), http.MethodPost, path, nil, object, nil))
	return func() {
		must(t, e.Inspect(t, "").Do(t.Context(), http.MethodDelete, path+"/limits", nil, nil, nil))
	}
}

// jobWithPod starts archive jobs one after the other, as the controller does, until one of them has a Pod. It returns
// that Pod.
func (e *engine) jobWithPod(t *testing.T, b backend.Backend, id workspace.ID) (p corev1.Pod) {
	t.Helper()
	ctx, n := backendtest.Context(t), 0
	start := func() {
		n++
		must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: fmt.Sprint("op-", n)}))
	}
	start()
	wait.Until(t, "the job has a Pod", func() bool {
		jobs, err := b.Jobs(ctx, id)
		must(t, err)
		for _, j := range jobs[id] {
			if w := j.Pending; w != nil && (w.Failure != "" || w.Outdated && n > 3) {
				t.Fatalf("job %d: %+v", n, w)
			} else if w != nil && w.Outdated {
				must(t, b.DeleteJobs(ctx, id))
				start()
			}
		}
		pods, err := e.api.Pods.List(ctx, metav1.ListOptions{LabelSelector: spec.LabelWorkspace + "=" + string(id) + "," + spec.LabelKind + "=" + spec.KindJob})
		must(t, err)
		if len(pods.Items) == 1 {
			p = pods.Items[0]
		}
		return len(pods.Items) == 1
	})
	return p
}

// TestANamespaceThatAsksForLimits: if a quota or a LimitRange of the namespace requires a CPU limit, storage jobs set
// one that it accepts. A workspace waits and reports what is missing.
func TestANamespaceThatAsksForLimits(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		object   any
		want     string
	}{
		"a quota": {"resourcequotas", &corev1.ResourceQuota{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: "limits"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
				"limits.cpu": resource.MustParse("700m"), "requests.cpu": resource.MustParse("700m"), "limits.memory": resource.MustParse("2Gi"),
				"requests.memory": resource.MustParse("2Gi"), "limits.ephemeral-storage": resource.MustParse("30Gi"), "requests.ephemeral-storage": resource.MustParse("30Gi"),
			}},
		}, "700m"},
		"a LimitRange of Pods": {"limitranges", &corev1.LimitRange{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}, ObjectMeta: metav1.ObjectMeta{Name: "limits"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePod, Max: corev1.ResourceList{"cpu": resource.MustParse("600m")}}}},
		}, "600m"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t)
			o := e.options(backendtest.Installation())
			o.Spec.NanoCPUs = 0
			b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
			must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			e.limits(t, c.resource, c.object)
			wait.Until(t, "a workspace waits for limits", func() bool {
				var pending *workspace.PendingError
				err := b.Start(ctx, backend.StartSpec{ID: id})
				if err == nil { // the API server does not know them yet
					must(t, b.Delete(ctx, id))
				} else if !errors.As(err, &pending) || pending.Pending.Failure != "" {
					t.Fatal(err)
				}
				return err != nil && pending.Pending.Reason == workspace.WaitQuota && strings.Contains(pending.Pending.Message, "cpu")
			})
			d, err := doctor.New(cluster.Options{Kubeconfig: e.account, Namespace: e.Namespace}, o.Spec)
			must(t, err)
			t.Cleanup(func() { d.Close() })
			if a, err := d.Admission(ctx); err != nil || a.Workspace == nil || a.Job != nil {
				t.Errorf("the doctor says of a workspace %v, of a job %v; %v", a.Workspace, a.Job, err)
			}
			p := e.jobWithPod(t, b, id)
			if limit := p.Spec.Containers[0].Resources.Limits.Cpu(); limit.String() != c.want {
				t.Errorf("the job has the limit %s, want %s", limit, c.want)
			}
			must(t, b.DeleteJobs(ctx, id))
		})
	}
}

// TestALimitRangeThatIsTooSmall: workspaces, storage jobs and homes wait, and show its figures. They continue when it
// changes.
func TestALimitRangeThatIsTooSmall(t *testing.T) {
	e := newEngine(t)
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	limit := func(item corev1.LimitRangeItem) (remove func()) {
		return e.limits(t, "limitranges", &corev1.LimitRange{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "LimitRange"}, ObjectMeta: metav1.ObjectMeta{Name: "limits"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{item}},
		})
	}
	waits := func(what, figure string, try func() error) {
		t.Helper()
		wait.Until(t, what+" waits", func() bool {
			var pending *workspace.PendingError
			err := try()
			if err != nil && (!errors.As(err, &pending) || pending.Pending.Failure != "") {
				t.Fatal(err)
			}
			return err != nil && pending.Pending.Reason == workspace.WaitQuota && strings.Contains(pending.Pending.Message, figure)
		})
	}
	start := func() error {
		err := b.Start(ctx, backend.StartSpec{ID: id})
		if err == nil { // the API server does not know the LimitRange yet
			must(t, b.Delete(ctx, id))
		}
		return err
	}
	startJob := func() error {
		return b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"})
	}

	remove := limit(corev1.LimitRangeItem{Type: corev1.LimitTypeContainer, Min: corev1.ResourceList{"memory": resource.MustParse("9Gi")}})
	waits("a workspace", "9Gi", start)
	must(t, startJob())
	wait.Until(t, "a job waits", func() bool {
		jobs, err := b.Jobs(ctx, id)
		must(t, err)
		if len(jobs[id]) != 1 || jobs[id][0].State != workspace.JobRunning {
			t.Fatalf("%+v", jobs)
		}
		w := jobs[id][0].Pending
		return w != nil && w.Failure == "" && w.Reason == workspace.WaitQuota && strings.Contains(w.Message, "9Gi")
	})
	must(t, b.DeleteJobs(ctx, id))
	remove()

	remove = limit(corev1.LimitRangeItem{Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{"storage": resource.MustParse("1Mi")}})
	waits("a home", "1Mi", func() error { return b.Provision(ctx, backend.VolumeSpec{ID: newID(), OpID: "op"}) })
	waits("a workspace whose home is larger", "1Mi", start)
	waits("a job for such a home", "1Mi", startJob)
	remove()
	wait.Until(t, "it starts", func() bool { return b.Start(ctx, backend.StartSpec{ID: id}) == nil })
	backendtest.Ready(t, b, id)
}
