package kubernetes_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Public example addresses that no machine has. This machine takes the addresses for the test, if it has the right to.
// If the Pods' packets to the internet pass through this machine, the addresses stand for the internet.
const (
	public       = "198.51.100.10"
	publicDenied = "198.51.100.11"
)

// settle is how long a Pod repeats its attempt to reach a target, because the rules take effect a little after the Pod
// has started.
const settle = "5s"

// TestIsolation shows what Pods reach on a cluster that enforces NetworkPolicies. The Pods stand for a workspace, a
// storage job, the gateway and a stranger. A target that even a Pod without rules cannot reach counts as nonexistent,
// and the test ignores it.
func TestIsolation(t *testing.T) {
	w := newWorld(t)
	all, workspaces := w.names(), []string{"a workspace", "a storage job"}
	allBut := func(not ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(not, n) })
	}
	gateway := map[string]string{"app.kubernetes.io/name": "codehub"}
	places := []struct {
		name   string
		in     *cluster.Client
		labels map[string]string
		want   []string
	}{
		{"somebody without rules", w.api, nil, allBut(workspaces...)},
		{"the gateway", w.elsewhere, gateway, allBut("a storage job")},
		{"a workspace", w.api, spec.Labels(w.installation, newID(), spec.KindWorkspace), []string{"name servers", "the internet", "what egress allow opens"}},
		{"a storage job", w.api, spec.Labels(w.installation, newID(), spec.KindJob), []string{"name servers", "the object store"}},
		{"a Pod with the gateway's labels in the workspaces' namespace", w.api, gateway, allBut(workspaces...)},
		{"a Pod of the gateway's namespace", w.elsewhere, nil, allBut(workspaces...)},
	}
	// The targets that the first two Pods reach exist.
	var there []string
	for i, known := range []string{"somebody else", "a workspace"} {
		p := places[i]
		wait.For(t, p.name+" reaches "+known, func() error {
			reached, err := w.reach(t, p.in, p.labels)
			if err == nil && !slices.Contains(reached, known) {
				err = fmt.Errorf("it reaches %q", reached)
			}
			there = append(there, reached...)
			return err
		})
	}
	for _, n := range all {
		if !slices.Contains(there, n) && !slices.Contains(workspaces, n) {
			t.Logf("not judged, because nothing reaches it here: %s (%s)", n, w.targets[n])
		}
	}
	for _, n := range []string{"name servers", "the object store", "the cluster's API", "what egress allow opens"} {
		if !slices.Contains(there, n) {
			t.Errorf("nothing reaches %s, at %s", n, w.targets[n])
		}
	}
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			want := slices.DeleteFunc(slices.Clone(p.want), func(n string) bool { return !slices.Contains(there, n) })
			slices.Sort(want)
			wait.For(t, "it reaches what it should", func() error {
				reached, err := w.reach(t, p.in, p.labels)
				if err == nil && !slices.Equal(reached, want) {
					err = fmt.Errorf("it reaches %q, want %q", reached, want)
				}
				return err
			})
			t.Logf("reaches %q", want)
		})
	}
	t.Run("a gateway outside the cluster", func(t *testing.T) {
		t.Parallel()
		wait.For(t, "it reaches the workspace", func() error {
			c, err := net.DialTimeout("tcp", w.targets["a workspace"], 3*time.Second)
			if err == nil {
				err = c.Close()
			}
			return err
		})
	})
}

// isolated is an installation under its rules, and its surroundings.
type isolated struct {
	*engine
	// elsewhere is the namespace of the gateway and of name servers.
	elsewhere    *cluster.Client
	installation string
	image        string            // of the Pods that try
	targets      map[string]string // the targets by name, with their addresses
}

func newWorld(t *testing.T) *isolated {
	e := newEngine(t)
	w := &isolated{engine: e, installation: backendtest.Installation(), image: devenv.StorageJobImage(t), targets: make(map[string]string)}
	other := devenv.Kubernetes(t)
	var err error
	w.elsewhere, err = cluster.Connect(cluster.Options{Kubeconfig: other.Kubeconfig, Namespace: other.Namespace})
	must(t, err)
	t.Cleanup(func() { w.elsewhere.Close() })

	store, err := url.Parse(devenv.S3(t).Endpoint)
	must(t, err)
	w.targets["the object store"] = store.Host
	host := store.Hostname() // this machine, as Pods reach it
	w.targets["a private network"] = serve(t, host)
	w.targets["what egress allow opens"] = serve(t, host)
	if exec.Command("ip", "address", "add", public+"/32", "dev", "lo").Run() == nil {
		t.Cleanup(func() { _ = exec.Command("ip", "address", "delete", public+"/32", "dev", "lo").Run() })
		w.targets["the internet"] = serve(t, public)
	}
	if exec.Command("ip", "address", "add", publicDenied+"/32", "dev", "lo").Run() == nil {
		t.Cleanup(func() { _ = exec.Command("ip", "address", "delete", publicDenied+"/32", "dev", "lo").Run() })
		w.targets["what egress deny closes"] = serve(t, publicDenied)
	}
	w.targets["the metadata of a cloud"] = "169.254.169.254:80"
	w.findControlPlane(t)

	o := e.options(w.installation)
	o.Spec.JobImage = w.image
	o.Spec.GatewayNamespace, o.Spec.DNSNamespace = other.Namespace, other.Namespace
	o.Spec.Store = store.String()
	o.Spec.Egress = egress.Options{Enforce: egress.EnforceRequire, Allow: w.targets["what egress allow opens"], Deny: publicDenied, Gateways: host}
	d, err := doctor.New(cluster.Options{Kubeconfig: e.Kubeconfig, Namespace: e.Namespace}, o.Spec)
	must(t, err)
	defer d.Close()
	if enforced, err := d.Enforced(t.Context()); err != nil {
		t.Fatal(err)
	} else if !enforced {
		t.Skip("this cluster enforces no NetworkPolicies")
	}
	b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
	_, err = b.KeepIsolated(ctx)
	must(t, err)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	wait.Until(t, "the workspace has an address", func() bool {
		all, err := b.Containers(ctx, id)
		must(t, err)
		w.targets["a workspace"] = all[id].Endpoint
		return all[id].Endpoint != ""
	})
	w.targets["a storage job"] = w.server(t, w.api, "job", "8080", spec.Labels(w.installation, newID(), spec.KindJob))
	w.targets["somebody else"] = w.server(t, w.api, "somebody", "8080", nil)
	w.targets["name servers"] = w.server(t, w.elsewhere, "dns", "5353", nil)
	w.targets["something beside the name servers"] = w.server(t, w.elsewhere, "beside", "8080", nil)
	return w
}

// findControlPlane finds the addresses of the cluster itself.
func (w *isolated) findControlPlane(t *testing.T) {
	t.Helper()
	api := w.Inspect(t, "")
	get := func(path string, out any) {
		t.Helper()
		must(t, api.Do(t.Context(), http.MethodGet, path, nil, nil, out))
	}
	var service corev1.Service
	get("/api/v1/namespaces/default/services/kubernetes", &service)
	w.targets["the cluster's API"] = net.JoinHostPort(service.Spec.ClusterIP, strconv.Itoa(int(service.Spec.Ports[0].Port)))
	var behind discoveryv1.EndpointSlice
	get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", &behind)
	w.targets["an API server"] = net.JoinHostPort(behind.Endpoints[0].Addresses[0], strconv.Itoa(int(*behind.Ports[0].Port)))
	var nodes corev1.NodeList
	get("/api/v1/nodes", &nodes)
	for _, a := range nodes.Items[0].Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			w.targets["a node's kubelet"] = net.JoinHostPort(a.Address, strconv.Itoa(int(nodes.Items[0].Status.DaemonEndpoints.KubeletEndpoint.Port)))
		}
	}
}

func (w *isolated) names() (all []string) {
	for name := range w.targets {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// serve answers at an address of this machine until the test ends.
func serve(t *testing.T, address string) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	must(t, err)
	s := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// server runs a Pod that serves at a port, and returns its address.
func (w *isolated) server(t *testing.T, in *cluster.Client, name, port string, labels map[string]string) string {
	t.Helper()
	w.pod(t, in, name, labels, corev1.Container{Name: "server", Image: w.engine.image, Args: []string{"serve", port}})
	var p *corev1.Pod
	wait.For(t, name+" has an address", func() (err error) {
		p, err = in.Pods.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && (p.Status.PodIP == "" || p.Status.Phase != corev1.PodRunning) {
			err = fmt.Errorf("it is %+v", p.Status)
		}
		return err
	})
	return net.JoinHostPort(p.Status.PodIP, port)
}

func (w *isolated) pod(t *testing.T, in *cluster.Client, name string, labels map[string]string, c corev1.Container) {
	t.Helper()
	grace := int64(1)
	_, err := in.Pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: &grace,
			SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)), RunAsNonRoot: new(true)},
			Containers:      []corev1.Container{c},
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// reach returns which targets a Pod with these labels reaches.
func (w *isolated) reach(t *testing.T, in *cluster.Client, labels map[string]string) ([]string, error) {
	t.Helper()
	args := []string{contract.Egress, contract.EgressProbe, settle}
	names := make(map[string]string, len(w.targets))
	for n, at := range w.targets {
		args, names[at] = append(args, at), n
	}
	name := "probe-" + string(newID())
	w.pod(t, in, name, labels, corev1.Container{Name: "probe", Image: w.image, Args: args})
	wait.For(t, "the Pod has looked around", func() error {
		p, err := in.Pods.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			err = fmt.Errorf("it is %+v", p.Status)
		}
		return err
	})
	log, err := in.Logs(t.Context(), name, &corev1.PodLogOptions{})
	if err != nil {
		return nil, err
	}
	defer log.Close()
	text, err := io.ReadAll(log)
	if err != nil {
		return nil, err
	}
	result, err := contract.ParseEgressResult(text)
	if err != nil {
		return nil, err
	}
	var reached []string
	for _, at := range result.Reached {
		reached = append(reached, names[at])
	}
	slices.Sort(reached)
	return reached, nil
}

// TestRequireIsSeenToHold: with `egress enforce require`, nothing starts on a cluster that has the rules but does not
// enforce them. The workspace waits and reports why. On a cluster that does, it starts.
func TestRequireIsSeenToHold(t *testing.T) {
	e := newEngine(t)
	o := e.options(backendtest.Installation())
	o.Spec.JobImage = devenv.StorageJobImage(t)
	o.Spec.Egress = egress.Options{Enforce: egress.EnforceRequire}
	d, err := doctor.New(cluster.Options{Kubeconfig: e.Kubeconfig, Namespace: e.Namespace}, o.Spec)
	must(t, err)
	defer d.Close()
	enforced, err := d.Enforced(t.Context())
	must(t, err)
	b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	err = b.Start(ctx, backend.StartSpec{ID: id})
	var pending *workspace.PendingError
	switch {
	case enforced && err != nil:
		t.Errorf("the cluster enforces the rules, and nothing starts: %v", err)
	case !enforced && (!errors.As(err, &pending) || pending.Pending.Reason != workspace.WaitEgressRules):
		t.Errorf("the cluster enforces no rules: %v", err)
	}
	all, err := b.Containers(ctx, id)
	must(t, err)
	if _, there := all[id]; there != enforced {
		t.Errorf("enforced: %t, started: %t", enforced, there)
	}
}
