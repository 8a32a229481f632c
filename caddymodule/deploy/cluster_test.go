package deploy_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

var update = flag.Bool("update", false, "write the golden files of the chart's output")

// helm runs Helm and returns its output.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	program, err := server.BuildHelm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("helm %s: %w\n%s%s", args[0], err, &stdout, &stderr)
	}
	return stdout.String(), nil
}

// TestHelm checks that Helm finds nothing wrong with the chart, that the chart's output equals the golden files, and
// that Helm rejects missing and misspelt values.
func TestHelm(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("`make test-k8s` brings Helm")
	}
	for _, variant := range variants {
		values := filepath.Join("chart", "testdata", variant+".values.yaml")
		if _, err := helm(t, "lint", "chart", "--strict", "--values", values); err != nil {
			t.Error(err)
		}
		got, err := helm(t, "template", "codehub", "chart", "--namespace", "codehub", "--values", values, "--kube-version", "1.34.0")
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			write(t, golden(variant), got)
		}
		want, err := os.ReadFile(golden(variant))
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s: the chart makes something else than %s; look at the difference, and run the test with -update", variant, golden(variant))
		}
	}
	minimal := filepath.Join("chart", "testdata", "minimal.values.yaml")
	// The chart reads the endpoints of a Service in another namespace, so it needs a Role in that namespace.
	for endpoint, namespace := range map[string]string{
		"http://store.storage.svc:9000": "storage", "https://s.data.svc.cluster.local": "data", "http://store.codehub.svc:9000": "", "http://store:9000": "",
		"https://bucket.svc.example.com": "", "http://10.0.0.9:9000": "",
	} {
		got, err := helm(t, "template", "codehub", "chart", "--namespace", "codehub", "--values", minimal, "--set", "codehub.s3.endpoint="+endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if namespace != "" && strings.Count(got, "\n  namespace: "+namespace+"\n") != 2 || (namespace != "") != strings.Contains(got, "-store\n") {
			t.Errorf("%s: the rights in the namespace %q are not those of the store", endpoint, namespace)
		}
	}
	for set, part := range map[string]string{
		"secretName=": "secretName", "public_url=codehub.example.com": "public_url", "replica=3": "replica", "shards=0": "shards",
		"codehub.database=postgres://u:p@h/d": "database", "image.digest=latest": "digest",
		// These secrets would appear in the ConfigMap.
		"codehub.s3.secret_key=swordfish": "secret_key", "codehub.oidc.client_secret=swordfish": "client_secret",
		"codehub.s3.endpoint=https://key:swordfish@s3.example.com": "endpoint", "secretKeys.DATABASE=uri": "DATABASE",
		// No gateway would start with these values.
		"codehub.ttl.standby=soon": "standby", "codehub.tll.standby=3h": "tll", "kubernetes.home=large": "home", "kubernetes.workspace_port=0": "workspace_port",
		"kubernetes.namespace=elsewhere": "namespace", "gateway.page_wait=long": "page_wait", "gateway.to=10.0.0.1": "to", "codehub.egress.enforce=always": "enforce",
		"codehub.limits.max_running_per_user=0": "max_running_per_user", "httpRoute.enabled=true": "httpRoute.parentRefs", "metrics.port=8080": "port",
		"extraGlobal=servers {}": "extraServers",
	} {
		if _, err := helm(t, "template", "codehub", "chart", "--values", minimal, "--set", set); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}

// release is an installation of the chart in the test's own namespace.
type release struct {
	devenv.Cluster
	api    *cluster.Client
	values string
	http   *http.Client
}

// install installs the chart, whose gateways use the servers on this machine, and waits until the gateways are ready.
func install(t *testing.T) *release {
	t.Helper()
	if !devenv.OnKubernetes() {
		t.Skip("`make test-k8s` runs it on a cluster")
	}
	r := &release{Cluster: devenv.Kubernetes(t), values: filepath.Join(t.TempDir(), "values.json")}
	var err error
	if r.api, err = cluster.Connect(cluster.Options{Kubeconfig: r.Kubeconfig, Namespace: r.Namespace}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.api.Close() })
	store := devenv.S3(t)
	database, redis := devenv.ForPods(t, devenv.PostgreSQL(t), devenv.Redis(t))
	for name, data := range map[string]map[string]string{
		"servers":    {"DATABASE_URL": database, "redis": redis, "S3_ACCESS_KEY": store.AccessKey, "S3_SECRET_KEY": store.SecretKey},
		"first-user": {"password": password},
	} {
		_, err = r.api.Secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	repository, tag, _ := strings.Cut(devenv.GatewayImage(t), ":")
	values, err := json.Marshal(map[string]any{
		"public_url": "http://localhost", "domain": "localhost", "secretName": "servers", "replicas": 2, "shards": 4,
		"secretKeys": map[string]any{"REDIS_URL": "redis", "CODEHUB_ADMIN_PASSWORD": map[string]any{"name": "first-user", "key": "password"}},
		"metrics":    map[string]any{"enabled": true},
		"image":      map[string]any{"repository": repository, "tag": tag},
		"kubernetes": map[string]any{"workspace_image": devenv.TerminalImage(t), "job_image": devenv.StorageJobImage(t), "home": "64MiB", "cpus_request": "0.01", "memory_request": "16MiB"},
		"codehub": map[string]any{"s3": map[string]any{"endpoint": store.Endpoint, "bucket": store.Bucket, "region": store.Region},
			"egress": map[string]any{"allow": []string{}}},
		"drainSeconds": 5, "graceSeconds": 5,
		"resources": map[string]any{"requests": map[string]any{"cpu": "10m", "memory": "64Mi"}, "limits": map[string]any{"memory": "512Mi"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	write(t, r.values, string(values))
	r.helm(t, "install", "chart", "--values", r.values, "--wait", "--timeout", "3m")
	var service corev1.Service
	if err := r.Inspect(t, "").Do(t.Context(), http.MethodGet, "/api/v1/namespaces/%s/services/codehub", nil, nil, &service); err != nil {
		t.Fatal(err)
	}
	r.http = clientOf(t, net.JoinHostPort(service.Spec.ClusterIP, "80"))
	r.call(t, http.MethodPost, "/api/v1/auth/login", map[string]string{"username": "admin", "password": password}, nil)
	return r
}

const password = "a password for the test"

// helm runs a command on the release.
func (r *release) helm(t *testing.T, command string, args ...string) {
	t.Helper()
	if _, err := helm(t, append([]string{command, "codehub", "--namespace", r.Namespace, "--kubeconfig", r.Kubeconfig}, args...)...); err != nil {
		for _, p := range r.gateways(t) {
			t.Logf("%s: %+v\n%s", p.Name, p.Status, r.log(t, p.Name))
		}
		t.Fatal(err)
	}
}

// gateways lists the gateways' Pods.
func (r *release) gateways(t *testing.T) []corev1.Pod {
	t.Helper()
	list, err := r.api.Pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=codehub"})
	if err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func (r *release) log(t *testing.T, pod string) string {
	t.Helper()
	lines := int64(30)
	l, err := r.api.Logs(t.Context(), pod, &corev1.PodLogOptions{TailLines: &lines})
	if err != nil {
		return err.Error()
	}
	defer l.Close()
	text, _ := io.ReadAll(l)
	return string(text)
}

// clientOf returns a client that keeps cookies and resolves every name to one address. Each request has a connection of
// its own, so any gateway may receive it.
func clientOf(t *testing.T, address string) *http.Client {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	var d net.Dialer
	return &http.Client{Jar: jar, Timeout: wait.Timeout, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return d.DialContext(ctx, network, address)
		},
	}}
}

// try makes a request and decodes the answer into out, unless that is nil. If out is a *string, it receives the raw
// answer.
func (r *release) try(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	if in == nil {
		body = nil
	}
	q, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	res, err := r.http.Do(q)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s %.300s", method, path, res.Status, text)
	}
	if raw, ok := out.(*string); ok {
		*raw = string(text)
	} else if err == nil && out != nil {
		err = json.Unmarshal(text, out)
	}
	return err
}

func (r *release) call(t *testing.T, method, path string, in, out any) {
	t.Helper()
	if err := r.try(t.Context(), method, path, in, out); err != nil {
		t.Fatal(err)
	}
}

// TestChart checks that the chart creates an installation with two gateways that share the work. A workspace survives
// the replacement of the gateways, and the removal of the chart.
func TestChart(t *testing.T) {
	r := install(t)
	var ws struct{ ID, Phase, Operation string }
	r.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": "first"}, &ws)
	await := func(phase string) {
		t.Helper()
		wait.For(t, "the workspace is "+phase, func() error {
			r.call(t, http.MethodGet, "/api/v1/workspaces/"+ws.ID, nil, &ws)
			if ws.Phase != phase || ws.Operation != "NONE" {
				return fmt.Errorf("%+v", ws)
			}
			return nil
		})
	}
	await("RUNNING")
	pod, err := r.api.Pods.Get(t.Context(), "ws-"+ws.ID, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.examine(t)
	r.look(t, ws.ID)
	r.isolated(t)
	r.lead(t)
	r.measure(t)

	old := r.gateways(t)
	conn := r.open(t, ws.ID)
	stop := r.keepAsking(t, "/w/"+ws.ID+"/healthz")
	done := make(chan struct{})
	var drained time.Duration // how long the WebSocket worked after its gateway was told to stop
	go func() {
		defer close(done)
		drained = r.echoUntilClosed(t, conn)
	}()
	r.helm(t, "upgrade", "chart", "--values", r.values, "--set", "podAnnotations.test=changed", "--wait", "--timeout", "3m")
	<-done
	asked, failed := stop()
	t.Logf("%d requests while the gateways were replaced; the WebSocket went on for %s in a gateway that was ending", asked, drained.Round(time.Millisecond))
	if len(failed) > 0 || asked == 0 {
		t.Errorf("%d of %d requests failed while the gateways were replaced: %s", len(failed), asked, errors.Join(failed...))
	}
	if drained < 4*time.Second {
		t.Errorf("the WebSocket went on for %s only; drainSeconds is 5", drained)
	}
	for _, p := range r.gateways(t) {
		if p.DeletionTimestamp == nil && slices.ContainsFunc(old, func(o corev1.Pod) bool { return o.UID == p.UID }) {
			t.Errorf("%s was not replaced", p.Name)
		}
	}
	if now, err := r.api.Pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || now.UID != pod.UID {
		t.Errorf("the workspace did not live through it: %v", err)
	}
	_ = r.open(t, ws.ID).CloseNow() // opens again, at another gateway
	r.lead(t)

	// A request that waits for a sleeping workspace is answered even if its gateway is about to stop.
	r.call(t, http.MethodPatch, "/api/v1/workspaces/"+ws.ID, map[string]string{"desired_state": "STANDBY"}, nil)
	await("STANDBY")
	held := make(chan error, 1)
	go func() { held <- r.try(t.Context(), http.MethodGet, "/w/"+ws.ID+"/healthz", nil, nil) }()
	r.helm(t, "upgrade", "chart", "--values", r.values, "--set", "podAnnotations.test=again", "--wait", "--timeout", "3m")
	if err := <-held; err != nil {
		t.Errorf("the held request: %v", err)
	}
	await("RUNNING")
	if pod, err = r.api.Pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}

	r.helm(t, "uninstall", "--wait", "--timeout", "2m")
	if after, err := r.api.Pods.Get(t.Context(), pod.Name, metav1.GetOptions{}); err != nil || after.UID != pod.UID || after.Status.Phase != corev1.PodRunning {
		t.Errorf("the workspace without the chart: %v, %+v", err, after)
	}
	for _, p := range r.gateways(t) {
		if p.DeletionTimestamp == nil { // the others are draining
			t.Errorf("%s is left", p.Name)
		}
	}
}

// examine runs the doctor in a gateway's Pod.
func (r *release) examine(t *testing.T) {
	t.Helper()
	var out bytes.Buffer
	_, err := r.api.Exec(t.Context(), r.gateways(t)[0].Name, "gateway",
		backend.Command{Words: []string{"/usr/bin/caddy", "codehub", "doctor", "--json", "--config", "/etc/caddy/Caddyfile"}}, &out, nil)
	if err != nil {
		t.Fatal(err)
	}
	var lines []struct{ Check, Level, Text string }
	if err := json.Unmarshal(out.Bytes(), &lines); err != nil {
		t.Fatalf("%v: %s", err, &out)
	}
	checked := make(map[string]bool)
	for _, l := range lines {
		t.Logf("doctor: %s %s: %s", l.Level, l.Check, l.Text)
		checked[l.Check] = true
		if l.Level == "problem" {
			t.Errorf("doctor finds a problem: %s: %s", l.Check, l.Text)
		}
	}
	for _, c := range []string{"database", "redis", "object store", "cluster", "rights", "namespace", "homes", "policies", "isolation"} {
		if !checked[c] {
			t.Errorf("doctor did not check %s", c)
		}
	}
}

// look runs a command in the workspace and reads its log and its usage, with the rights that the chart grants.
func (r *release) look(t *testing.T, id string) {
	t.Helper()
	var text string
	r.call(t, http.MethodPost, "/api/v1/workspaces/"+id+"/exec", map[string]any{"command": []string{"sh", "-c", "echo one; exit 7"}}, &text)
	if want := "{\"stdout\":\"one\\n\"}\n{\"exit_code\":7}\n"; text != want {
		t.Errorf("a command answers %q, want %q", text, want)
	}
	r.call(t, http.MethodGet, "/api/v1/workspaces/"+id+"/logs?lines=1", nil, &text)
	if !strings.Contains(text, "listening on ") {
		t.Errorf("the log is %q", text)
	}
	var stats struct {
		Processes *int
		Ports     []struct{ Port int }
	}
	r.call(t, http.MethodGet, "/api/v1/workspaces/"+id+"/stats", nil, &stats)
	if stats.Processes == nil || *stats.Processes < 1 || stats.Ports == nil || len(stats.Ports) != 0 {
		t.Errorf("the workspace uses %+v", stats)
	}
}

// isolated checks that the network policies of workspaces admit the gateways of this namespace. A gateway learns its
// namespace from its service account.
func (r *release) isolated(t *testing.T) {
	t.Helper()
	list, err := r.api.NetworkPolicies.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, p := range list.Items {
		for _, rule := range p.Spec.Ingress {
			for _, from := range rule.From {
				if s := from.NamespaceSelector; s != nil && from.PodSelector != nil {
					found = found || s.MatchLabels[corev1.LabelMetadataName] == r.Namespace
				}
			}
		}
	}
	if !found {
		t.Errorf("no policy lets the gateways of %s in: %+v", r.Namespace, list.Items)
	}
}

// measure waits until each gateway serves its metrics, and exactly one of them, the leader, also serves the metrics of
// the archives.
func (r *release) measure(t *testing.T) {
	t.Helper()
	wait.For(t, "the gateways tell their metrics", func() error {
		told := 0
		for _, p := range r.gateways(t) {
			res, err := http.Get("http://" + net.JoinHostPort(p.Status.PodIP, "9180") + "/metrics")
			if err != nil {
				return err
			}
			text, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || !strings.Contains(string(text), "\nprocess_start_time_seconds ") {
				return fmt.Errorf("%s: %s, %w: %.300s", p.Name, res.Status, err, text)
			}
			told += strings.Count(string(text), "\ncodehub_archives ")
		}
		if told != 1 {
			return fmt.Errorf("%d gateways tell how many archives there are", told)
		}
		return nil
	})
}

// lead waits until the gateways together lead all shards, and each leads at least one.
func (r *release) lead(t *testing.T) {
	t.Helper()
	wait.For(t, "the gateways share the work", func() error {
		led := make(map[int]string)
		var idle []string
		for _, p := range r.gateways(t) {
			if p.DeletionTimestamp != nil {
				return fmt.Errorf("%s is still ending", p.Name)
			}
			client := clientOf(t, net.JoinHostPort(p.Status.PodIP, "8080"))
			client.Jar = r.http.Jar // an administrator's cookies
			res, err := client.Get("http://localhost/health/coordinator")
			if err != nil {
				return err
			}
			defer res.Body.Close()
			var h struct {
				NodeID   string `json:"node_id"`
				Shards   []int  `json:"shards"`
				Problems []string
			}
			if err := json.NewDecoder(res.Body).Decode(&h); err != nil {
				return err
			}
			if h.NodeID != p.Name || len(h.Problems) > 0 {
				t.Fatalf("%s says of itself %+v", p.Name, h)
			}
			if len(h.Shards) == 0 {
				idle = append(idle, p.Name)
			}
			for _, s := range h.Shards {
				led[s] = p.Name
			}
		}
		if len(led) != 4 || len(idle) > 0 {
			return fmt.Errorf("led: %v, idle: %v", led, idle)
		}
		return nil
	})
}

// open opens a WebSocket to the workspace's application, which echoes each message.
func (r *release) open(t *testing.T, id string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws://localhost/w/"+id+"/echo", &websocket.DialOptions{HTTPClient: r.http})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

// echoUntilClosed sends messages over a WebSocket until its gateway closes it. It returns how long after the beginning
// of the gateways' replacement this happened.
func (r *release) echoUntilClosed(t *testing.T, conn *websocket.Conn) time.Duration {
	var begun time.Time
	for {
		if err := conn.Write(t.Context(), websocket.MessageText, []byte("key")); err != nil {
			break
		}
		if _, _, err := conn.Read(t.Context()); err != nil {
			break
		}
		if begun.IsZero() {
			// The replacement begins with the first gateway that is told to stop. The gateway that has the WebSocket
			// may be told to stop a little later.
			list, err := r.api.Pods.List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=codehub"})
			if err == nil && slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }) {
				begun = time.Now()
			}
		}
	}
	if begun.IsZero() {
		return 0
	}
	return time.Since(begun)
}

// keepAsking requests a path repeatedly until stop is called.
func (r *release) keepAsking(t *testing.T, path string) (stop func() (asked int, failed []error)) {
	ctx, cancel := context.WithCancel(t.Context())
	var (
		asking sync.WaitGroup
		asked  int
		failed []error
	)
	asking.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			err := r.try(ctx, http.MethodGet, path, nil, nil)
			if ctx.Err() != nil {
				return
			}
			asked++
			if err != nil {
				failed = append(failed, err)
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	})
	return func() (int, []error) {
		cancel()
		asking.Wait()
		return asked, failed
	}
}
