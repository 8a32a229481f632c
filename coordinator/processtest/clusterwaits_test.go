package processtest

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAClusterIsWaitedForWithoutALimit: for longer than any operation may take, no node has room or the quota is used
// up. The workspace waits for all of that time. The workspace says so, does not fail, and continues by itself.
func TestAClusterIsWaitedForWithoutALimit(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("Docker has no nodes to choose from, and no quota")
	}
	const limit = 10 * time.Second
	for reason, c := range map[string]struct {
		selector  func(in *installation) string
		take, let func(t *testing.T, in *installation, api *inspect.Kubernetes)
	}{
		workspace.WaitUnschedulable: {
			selector: func(in *installation) string { return nodeLabel + "=" + in.config.Installation },
			take:     func(*testing.T, *installation, *inspect.Kubernetes) {},
			let: func(t *testing.T, in *installation, api *inspect.Kubernetes) {
				label(t, api, in.config.Installation)
				t.Cleanup(func() { label(t, api, nil) })
			},
		},
		workspace.WaitQuota: {
			selector: func(*installation) string { return "" },
			take: func(t *testing.T, _ *installation, api *inspect.Kubernetes) {
				do(t, api, http.MethodPost, quotas, &corev1.ResourceQuota{
					TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"}, ObjectMeta: metav1.ObjectMeta{Name: "none"},
					Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
				}, nil)
				wait.Until(t, "the quota counts", func() bool {
					var q corev1.ResourceQuota
					do(t, api, http.MethodGet, quotas+"/none", nil, &q)
					return len(q.Status.Hard) > 0
				})
			},
			let: func(t *testing.T, _ *installation, api *inspect.Kubernetes) {
				do(t, api, http.MethodDelete, quotas+"/none", nil, nil)
			},
		},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			in := install(t)
			on := *in.config.Kubernetes
			on.Spec.NodeSelector = c.selector(in)
			in.config.Kubernetes = &on
			api := devenv.Cluster{Kubeconfig: on.Kubeconfig, Namespace: on.Namespace}.Inspect(t, in.config.Installation)
			c.take(t, in, api)
			in.process(t, "only", func(c *processConfig) { c.Limit = limit })
			h := in.create(t)
			h.awaitWaiting(t, reason)
			storetest.Exec(t, in.store, `CREATE TABLE waited AS SELECT now() AS since`)
			wait.Until(t, "it has waited for longer than an operation may take", func() bool {
				h.awaitWaiting(t, reason)
				return storetest.Value[bool](t, in.store, `SELECT now() - since > $1::interval FROM waited`, 5*limit/2)
			})
			c.let(t, in, api)
			h.await(t, workspace.PhaseRunning)
			h.write(t, "one")
			h.check(t)
			if w := h.row(t); w.ErrorCount != 0 || w.Waiting != nil {
				t.Errorf("it runs after %d failures, and waits for %+v", w.ErrorCount, w.Waiting)
			}
			if n := storetest.Value[int](t, in.store, `SELECT count(*)::int FROM workspace_history WHERE kind = 'error' OR new_value = 'ERROR'`); n != 0 {
				t.Errorf("its history has %d errors", n)
			}
		})
	}
}

// TestAWaitOnAClusterIsCancelled: while no node has room for a workspace, it is put to sleep, archived and started
// again. Afterwards its files are as they were. The workspace's storage jobs wait for the same node, and are cancelled,
// too.
func TestAWaitOnAClusterIsCancelled(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("Docker has no nodes to choose from")
	}
	in := install(t)
	on := *in.config.Kubernetes
	on.Spec.NodeSelector = nodeLabel + "=" + in.config.Installation
	in.config.Kubernetes = &on
	api := devenv.Cluster{Kubeconfig: on.Kubeconfig, Namespace: on.Namespace}.Inspect(t, in.config.Installation)
	t.Cleanup(func() { label(t, api, nil) })
	in.process(t, "only", nil)
	h := in.create(t)
	waits := func(op workspace.Operation) {
		t.Helper()
		wait.Until(t, string(op)+" waits for a node", func() bool {
			w := h.row(t)
			return w.Operation == op && w.Waiting != nil && w.Waiting.Reason == workspace.WaitUnschedulable
		})
	}
	waits(workspace.OpStarting)
	h.want(t, workspace.DesiredStandby)
	h.await(t, workspace.PhaseStandby)
	label(t, api, in.config.Installation)
	h.run(t)
	h.write(t, "one")
	h.want(t, workspace.DesiredStandby)
	h.await(t, workspace.PhaseStandby)
	label(t, api, nil)
	h.want(t, workspace.DesiredArchived)
	waits(workspace.OpArchiving)
	h.want(t, workspace.DesiredStandby)
	h.await(t, workspace.PhaseStandby)
	label(t, api, in.config.Installation)
	h.want(t, workspace.DesiredArchived)
	h.await(t, workspace.PhaseArchived)
	label(t, api, nil)
	h.want(t, workspace.DesiredRunning)
	waits(workspace.OpRestoring)
	h.want(t, workspace.DesiredArchived)
	h.await(t, workspace.PhaseArchived)
	label(t, api, in.config.Installation)
	h.run(t)
	h.check(t)
	if w := h.row(t); w.ErrorCount != 0 || w.Waiting != nil {
		t.Errorf("it runs after %d failures, and waits for %+v", w.ErrorCount, w.Waiting)
	}
}

const (
	nodeLabel = "codehub.dev/test-node"
	quotas    = "/api/v1/namespaces/%s/resourcequotas"
)

// label gives the first node of the cluster the label, or removes it for nil.
func label(t *testing.T, api *inspect.Kubernetes, value any) {
	t.Helper()
	var nodes corev1.NodeList
	do(t, api, http.MethodGet, "/api/v1/nodes", nil, &nodes)
	do(t, api, http.MethodPatch, "/api/v1/nodes/"+nodes.Items[0].Name,
		map[string]any{"metadata": map[string]any{"labels": map[string]any{nodeLabel: value}}}, nil)
}

// do sends a request about an object that the product does not own.
func do(t *testing.T, api *inspect.Kubernetes, method, path string, in, out any) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // also at the end of the test
	if err := api.Do(ctx, method, path, nil, in, out); err != nil {
		t.Fatal(err)
	}
}
