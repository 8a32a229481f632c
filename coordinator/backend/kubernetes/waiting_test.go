package kubernetes_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// pendingOf waits until the workspace's container waits for that reason, and returns it.
func pendingOf(t *testing.T, b backend.Backend, id workspace.ID, reason string, outdated bool) {
	t.Helper()
	wait.Until(t, "the container waits: "+reason, func() bool {
		all, err := b.Containers(backendtest.Context(t), id)
		must(t, err)
		w := all[id].Pending
		return w != nil && w.Reason == reason && w.Outdated == outdated
	})
}

// TestCorrectedSettingsReachAPodThatWaits: the next start replaces a Pod that has no node yet, but not a running one.
// The same settings replace nothing.
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

// TestACorrectedImageReachesAPodThatWaits: a Pod that waits on its node is replaced, whatever is wrong with its image.
// The same spec replaces nothing, and a running Pod keeps its image.
func TestACorrectedImageReachesAPodThatWaits(t *testing.T) {
	e := newEngine(t)
	installation, ctx := backendtest.Installation(), backendtest.Context(t)
	right := e.New(t, installation)
	unfit := e.options(installation)
	unfit.Spec.PodTemplate = "spec: {containers: [{name: workspace, envFrom: [{secretRef: {name: nowhere}}]}]}"
	for name, c := range map[string]struct {
		b     backend.Backend
		image string
		waits string
	}{
		"a registry that is away":  {right, "127.0.0.1:1/none:1", workspace.WaitPullingImage},
		"no name of an image":      {right, "UPPER/case:1", workspace.WaitPullingImage},
		"a Secret that is missing": {e.with(t, unfit), "", workspace.WaitContainer},
	} {
		id := newID()
		wrong, corrected := backend.StartSpec{ID: id, Image: c.image}, backend.StartSpec{ID: id}
		uid := func() types.UID {
			p, err := e.api.Pods.Get(ctx, id.ContainerName(), metav1.GetOptions{})
			must(t, err)
			return p.UID
		}
		must(t, right.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		must(t, c.b.Start(ctx, wrong))
		pendingOf(t, c.b, id, c.waits, false)
		first := uid()
		must(t, c.b.Start(ctx, wrong))
		if uid() != first || c.b.Outdated(ctx, wrong) || !right.Outdated(ctx, corrected) {
			t.Errorf("%s: the Pod is to be replaced by the same one: %v, by another: %v", name, c.b.Outdated(ctx, wrong), right.Outdated(ctx, corrected))
		}
		must(t, right.Start(ctx, corrected))
		backendtest.Ready(t, right, id)
		second := uid()
		if second == first {
			t.Errorf("%s: it is the same Pod", name)
		}
		must(t, c.b.Start(ctx, wrong))
		if uid() != second || c.b.Outdated(ctx, wrong) {
			t.Errorf("%s: a Pod that runs was replaced", name)
		}
		must(t, right.Delete(ctx, id))
	}
}

// TestAPodOfAJobThatIsDeletedEarly: if somebody deletes the Pod of a job before it has a node, or while its node pulls
// the image, the job counts as ended from outside, however often that happens.
func TestAPodOfAJobThatIsDeletedEarly(t *testing.T) {
	e := newEngine(t)
	installation, ctx := backendtest.Installation(), backendtest.Context(t)
	nowhere, noImage := e.options(installation), e.options(installation)
	nowhere.Spec.NodeSelector = "codehub.dev/test=nowhere"
	noImage.Spec.JobImage = "127.0.0.1:1/none:1"
	for reason, o := range map[string]kubernetes.Options{workspace.WaitUnschedulable: nowhere, workspace.WaitPullingImage: noImage} {
		b, id := e.with(t, o), newID()
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		for i := range 3 {
			must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: fmt.Sprint("op", i)}))
			state := func(reached func(workspace.Job) bool) func() bool {
				return func() bool {
					all, err := b.Jobs(ctx, id)
					must(t, err)
					if len(all[id]) == 1 && all[id][0].State == workspace.JobFailed && !all[id][0].Disrupted {
						t.Fatalf("%s: it counts as a failure of the job: %+v", reason, all[id][0])
					}
					return len(all[id]) == 1 && reached(all[id][0])
				}
			}
			wait.Until(t, "the job waits: "+reason, state(func(j workspace.Job) bool { return j.Pending != nil && j.Pending.Reason == reason }))
			pods, err := e.api.Pods.List(ctx, metav1.ListOptions{LabelSelector: spec.LabelWorkspace + "=" + string(id)})
			must(t, err)
			for _, p := range pods.Items {
				must(t, e.api.Pods.Delete(ctx, p.Name, metav1.DeleteOptions{}))
			}
			wait.Until(t, "the job has ended", state(func(j workspace.Job) bool {
				return j.State == workspace.JobFailed && j.Message != "" && !strings.HasSuffix(j.Message, ": ")
			}))
			must(t, b.DeleteJobs(ctx, id))
		}
	}
}

// TestAJobIsPlacedAsItsWorkspace: the job waits for the same node, reports that other settings might help, and prefers
// the node on which the home was last used.
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

// TestWhatOthersEndIsTold: the listing shows whether the container's program ended by itself or was ended from outside.
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
				must(t, b.RemoveFinalizers(ctx, always, id))
			}
		})
	}
}
