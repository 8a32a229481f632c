package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func always(context.Context) error { return nil }

// now deletes without asking the node.
func now() metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: new(int64)} }

// TestRemovedBehindOurBack: a Pod that is removed by force stays until its node reports that nothing of it runs. Before
// that, no job uses the volume; after that, nothing waits.
func TestRemovedBehindOurBack(t *testing.T) {
	e := newEngine(t)
	for name, remove := range map[string]func(t *testing.T, pod string){
		"by force": func(t *testing.T, pod string) { must(t, e.api.Pods.Delete(t.Context(), pod, now())) },
		"as a drain does": func(t *testing.T, pod string) {
			must(t, e.api.Pods.Delete(t.Context(), pod, metav1.DeleteOptions{}))
		},
		"with its Node object": func(t *testing.T, pod string) {
			e.fail(t, pod, removedNode)
			must(t, e.api.Pods.Delete(t.Context(), pod, now()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
			b := e.New(t, installation)
			must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			must(t, b.Start(ctx, backend.StartSpec{ID: id}))
			backendtest.Ready(t, b, id)
			pod, err := e.api.Pods.Get(ctx, id.ContainerName(), metav1.GetOptions{})
			must(t, err)
			changes, err := e.api.Pods.Watch(ctx, metav1.ListOptions{
				LabelSelector: spec.LabelWorkspace + "=" + string(id), ResourceVersion: pod.ResourceVersion,
			})
			must(t, err)
			defer changes.Stop()
			remove(t, pod.Name)
			began := time.Now()
			job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}
			wait.Until(t, "a job may use the volume", func() bool {
				must(t, b.RemoveFinalizers(ctx, always, id))
				return b.StartJob(ctx, job) == nil
			})
			free := time.Since(began)
			var ended time.Time // as its node reported it
			gone := false
			for change := range changes.ResultChan() {
				p, ok := change.Object.(*corev1.Pod)
				if !ok || p.UID != pod.UID {
					t.Fatalf("%s of %T before the Pod was gone", change.Type, change.Object)
				}
				over := p.Status.ContainerStatuses[0].State.Terminated
				if over != nil && ended.IsZero() {
					ended = over.FinishedAt.Time
				}
				if change.Type != watch.Deleted {
					continue
				}
				if ended.IsZero() {
					t.Errorf("it is gone while its container runs: %+v", p.Status)
				}
				gone = true
				break
			}
			if !gone {
				t.Error("the watch has ended before the Pod was gone: the order is not known")
			}
			t.Logf("a job used the volume %d ms after the Pod was removed", free.Milliseconds())
		})
	}
}

// removedNode is the condition of a Pod whose Node object does not exist.
var removedNode = corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC"}

// fail marks the Pod as failed with the condition c, as the cluster does when its node is lost.
func (e *engine) fail(t *testing.T, pod string, c corev1.PodCondition) {
	t.Helper()
	e.setStatus(t, pod, map[string]any{"phase": corev1.PodFailed, "conditions": []corev1.PodCondition{c}})
}

// setStatus changes the Pod's status in place of its node and the cluster's controllers.
func (e *engine) setStatus(t *testing.T, pod string, status map[string]any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"status": status})
	must(t, err)
	_, err = e.api.Pods.Patch(t.Context(), pod, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
	must(t, err)
}

// TestNodeGone: the machine of a Pod is permanently off. The Pod's volume becomes free only when an administrator
// confirms that, even if the cluster marks the Pod as failed by itself.
func TestNodeGone(t *testing.T) {
	e := newEngine(t)
	running := map[string]any{"phase": corev1.PodRunning, "containerStatuses": []corev1.ContainerStatus{{
		Name: spec.Container, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
	}}}
	// begin returns a workspace whose Pod was last seen running on that node.
	begin := func(t *testing.T, node string) (backend.Backend, workspace.ID) {
		installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
		b := e.New(t, installation)
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		p, err := spec.Pod(e.options(installation).Spec, backend.StartSpec{ID: id})
		must(t, err)
		p.Spec.SchedulingGates, p.Spec.NodeName = nil, node
		_, err = e.api.Pods.Create(ctx, p, metav1.CreateOptions{})
		must(t, err)
		e.setStatus(t, p.Name, running)
		return b, id
	}
	// waits fails the test if the volume can be used or deleted, or if the error or the listing does not give the
	// reason.
	waits := func(t *testing.T, b backend.Backend, id workspace.ID, reason string) {
		t.Helper()
		ctx := backendtest.Context(t)
		must(t, b.RemoveFinalizers(ctx, always))
		var pending *workspace.PendingError
		if err := b.Delete(ctx, id); !errors.As(err, &pending) || pending.Pending.Reason != reason {
			t.Errorf("deleting it: %v, want to wait for %s", err, reason)
		}
		if err := b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}); err == nil {
			t.Error("a job uses the volume")
		}
		if err := b.DeleteVolume(ctx, id, "op"); !errors.Is(err, backend.ErrVolumeInUse) {
			t.Errorf("deleting the volume: %v", err)
		}
		if c, err := b.Containers(ctx, id); err != nil || !c[id].Running || c[id].Endpoint != "" || c[id].Pending == nil || c[id].Pending.Reason != reason {
			t.Errorf("it is shown as %+v, %v", c[id], err)
		}
	}
	t.Run("the Node object does not exist", func(t *testing.T) {
		t.Parallel()
		b, id := begin(t, "no-such-node")
		ctx := t.Context()
		events, err := b.Events(ctx)
		must(t, err)
		for range events { // the cluster gives the Pod up after a minute or more
			c, err := b.Containers(ctx, id)
			must(t, err)
			if c[id].Pending != nil && c[id].Pending.Reason == workspace.WaitNodeLost {
				break
			}
		}
		waits(t, b, id, workspace.WaitNodeLost)
		_, err = e.api.Pods.Patch(ctx, id.ContainerName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		must(t, err)
		must(t, b.Delete(backendtest.Context(t), id))
		must(t, b.DeleteVolume(backendtest.Context(t), id, "op"))
	})
	t.Run("the node has the taint out-of-service", func(t *testing.T) {
		t.Parallel()
		node, nodes, api := "off-"+newID().ContainerName(), "/api/v1/nodes", e.Inspect(t, "")
		taints := []corev1.Taint{{Key: "test.invalid/off", Effect: corev1.TaintEffectNoSchedule}}
		must(t, api.Do(t.Context(), http.MethodPost, nodes, nil, &corev1.Node{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: corev1.NodeSpec{Taints: taints},
		}, nil))
		t.Cleanup(func() { check(t, api.Do(context.Background(), http.MethodDelete, nodes+"/"+node, nil, nil, nil)) })
		b, id := begin(t, node)
		must(t, e.api.Pods.Delete(t.Context(), id.ContainerName(), now())) // by force, and it is still there
		waits(t, b, id, workspace.WaitTerminating)
		off := append(taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		must(t, api.Do(t.Context(), http.MethodPatch, nodes+"/"+node, nil, map[string]any{"spec": map[string]any{"taints": off}}, nil))
		wait.Until(t, "the Pod is gone", func() bool {
			must(t, b.RemoveFinalizers(t.Context(), always))
			return !e.ContainerExists(t, id)
		})
		must(t, b.DeleteVolume(backendtest.Context(t), id, "op"))
	})
}
