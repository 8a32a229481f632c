package kubernetes_test

import (
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pendingOf waits until the workspace's container waits for that, and returns it.
func pendingOf(t *testing.T, b backend.Backend, id workspace.ID, reason string, outdated bool) {
	t.Helper()
	wait.Until(t, "the container waits: "+reason, func() bool {
		all, err := b.Containers(backendtest.Context(t), id)
		must(t, err)
		w := all[id].Pending
		return w != nil && w.Reason == reason && w.Outdated == outdated
	})
}

// TestCorrectedSettingsReachAPodThatWaits: one without a node is replaced when it is started again,
// and one that has a node is not. The same settings replace nothing.
func TestCorrectedSettingsReachAPodThatWaits(t *testing.T) {
	e := newEngine(t)
	installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
	wrong := e.options(installation)
	wrong.Spec.NodeSelector = "codehub.dev/test=nowhere"
	before, after := e.with(t, wrong), e.New(t, installation)
	must(t, before.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, before.Start(ctx, backend.StartSpec{ID: id}))
	pendingOf(t, before, id, workspace.WaitUnschedulable, false)
	pendingOf(t, after, id, workspace.WaitUnschedulable, true)
	uid := func() types.UID {
		p, err := e.api.Pods.Get(ctx, id.ContainerName(), metav1.GetOptions{})
		must(t, err)
		return p.UID
	}
	first := uid()
	must(t, before.Start(ctx, backend.StartSpec{ID: id}))
	if uid() != first {
		t.Error("a Pod with the present settings was replaced")
	}
	must(t, after.Start(ctx, backend.StartSpec{ID: id}))
	backendtest.Ready(t, after, id)
	second := uid()
	if second == first {
		t.Error("it is the same Pod")
	}
	must(t, before.Start(ctx, backend.StartSpec{ID: id}))
	if uid() != second {
		t.Error("a Pod that runs was replaced for its settings")
	}
}

// TestAJobIsPlacedAsItsWorkspace: it waits for the same node, says that other settings might help,
// and prefers the node on which the home was last used.
func TestAJobIsPlacedAsItsWorkspace(t *testing.T) {
	e := newEngine(t)
	installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
	wrong := e.options(installation)
	wrong.Spec.PodTemplate = "spec: {nodeSelector: {codehub.dev/test: nowhere}}"
	before, after := e.with(t, wrong), e.New(t, installation)
	must(t, after.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, after.Start(ctx, backend.StartSpec{ID: id}))
	backendtest.Ready(t, after, id)
	p, err := e.api.Pods.Get(ctx, id.ContainerName(), metav1.GetOptions{})
	must(t, err)
	must(t, after.Delete(ctx, id))
	must(t, before.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}))
	for outdated, b := range map[bool]backend.Backend{false: before, true: after} {
		wait.Until(t, "the job waits for a node", func() bool {
			all, err := b.Jobs(ctx, id)
			must(t, err)
			return len(all[id]) == 1 && all[id][0].Pending != nil && all[id][0].Pending.Reason == workspace.WaitUnschedulable && all[id][0].Pending.Outdated == outdated
		})
	}
	pods, err := e.api.Pods.List(ctx, metav1.ListOptions{LabelSelector: spec.LabelWorkspace + "=" + string(id)})
	must(t, err)
	if len(pods.Items) != 1 {
		t.Fatalf("%d Pods", len(pods.Items))
	}
	a := pods.Items[0].Spec.Affinity
	if a == nil || a.NodeAffinity == nil || !slices.ContainsFunc(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, func(term corev1.PreferredSchedulingTerm) bool {
		return len(term.Preference.MatchFields) == 1 && slices.Equal(term.Preference.MatchFields[0].Values, []string{p.Spec.NodeName})
	}) {
		t.Errorf("it does not prefer %s: %+v", p.Spec.NodeName, a)
	}
	must(t, after.DeleteJobs(ctx, id))
}

// TestWhatOthersEndIsTold: the listing tells an end that others have brought about from one of the
// program's own.
func TestWhatOthersEndIsTold(t *testing.T) {
	e := newEngine(t)
	for name, end := range map[string]func(t *testing.T, pod string){
		"by force": func(t *testing.T, pod string) { must(t, e.api.Pods.Delete(t.Context(), pod, now())) },
		"as a drain does": func(t *testing.T, pod string) {
			must(t, e.Inspect(t, "").Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+e.Namespace+"/pods/"+pod+"/eviction", nil, &policyv1.Eviction{
				TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Name: pod, Namespace: e.Namespace},
			}, nil))
		},
	} {
		t.Run(name, func(t *testing.T) {
			id, ctx := newID(), backendtest.Context(t)
			b := e.New(t, backendtest.Installation())
			must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			for range 3 {
				must(t, b.Start(ctx, backend.StartSpec{ID: id}))
				backendtest.Ready(t, b, id)
				end(t, id.ContainerName())
				wait.Until(t, "it has ended", func() bool {
					all, err := b.Containers(ctx, id)
					must(t, err)
					k, there := all[id]
					if there && !k.Running && !k.Disrupted {
						t.Fatalf("it counts as a crash: %+v", k)
					}
					return there && !k.Running
				})
				must(t, b.Release(ctx, always, id))
			}
		})
	}
}
