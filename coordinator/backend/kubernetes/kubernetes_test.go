package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"),
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		goleak.Cleanup(func(code int) { os.Exit(unusedOrMissing(code)) }))
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, newEngine(t))
}

// TestIdentity: another namespace of the same cluster is another backend, because it has none of this installation's
// objects.
func TestIdentity(t *testing.T) {
	e := newEngine(t)
	o := e.options(backendtest.Installation())
	here, err := e.with(t, o).Identity(t.Context())
	must(t, err)
	o.Namespace = "default"
	b, err := kubernetes.New(o)
	must(t, err)
	t.Cleanup(func() { b.Close() })
	there, err := b.Identity(t.Context())
	must(t, err)
	if id, _, _ := strings.Cut(here, "/"); here != id+"/"+e.Namespace || there != id+"/default" {
		t.Errorf("identities %s and %s", here, there)
	}
}

// engine is the [backendtest.Fixture] of a namespace in a real cluster.
type engine struct {
	devenv.Cluster
	api   *cluster.Client
	image string
	// account is the kubeconfig of an account that has only the rights that the chart gives.
	account string
	// broken are requests that fail in every backend that New returns.
	broken rules
}

// newEngine returns a new namespace for the test.
func newEngine(t *testing.T) *engine {
	t.Helper()
	if !devenv.OnKubernetes() {
		t.Skip("`make test-k8s` runs it on a cluster")
	}
	e := &engine{Cluster: devenv.Kubernetes(t), image: devenv.TestWorkspaceImage(t)}
	e.account = restrict(t, e.Cluster, "gateway", doctor.Rules())
	var err error
	e.api, err = cluster.Connect(cluster.Options{Kubeconfig: e.Kubeconfig, Namespace: e.Namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.api.Close() })
	t.Cleanup(http.DefaultClient.CloseIdleConnections) // those to workspaces
	return e
}

func (e *engine) options(installation string) kubernetes.Options {
	return kubernetes.Options{
		Options: cluster.Options{Kubeconfig: e.account, Namespace: e.Namespace, Transport: func(next http.RoundTripper) http.RoundTripper { return e.broken.wrap(record(next)) }},
		Spec: spec.Options{
			Installation: installation, Image: e.image, JobImage: e.image,
			MemoryRequestBytes: 8 << 20, NanoCPUsRequest: 1_000_000, HomeBytes: 16 << 20, JobMemoryBytes: 64 << 20, JobScratchBytes: 16 << 20,
		},
	}
}

func (e *engine) New(t *testing.T, installation string) backend.Backend {
	t.Helper()
	return e.with(t, e.options(installation))
}

func (e *engine) with(t *testing.T, o kubernetes.Options) backend.Backend {
	t.Helper()
	t.Cleanup(func() { e.sweep(t, o.Spec.Installation) })
	b, err := kubernetes.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// sweep ends everything running with the installation's label. The rest is removed with the namespace.
func (e *engine) sweep(t *testing.T, installation string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	own := metav1.ListOptions{LabelSelector: spec.LabelInstallation + "=" + installation}
	jobs, err := e.api.Jobs.List(ctx, own)
	check(t, err)
	how, grace := metav1.DeletePropagationBackground, int64(1)
	for _, j := range jobs.Items {
		check(t, ignoreGone(e.api.Jobs.Delete(ctx, j.Name, metav1.DeleteOptions{PropagationPolicy: &how})))
	}
	pods, err := e.api.Pods.List(ctx, own)
	check(t, err)
	for _, p := range pods.Items {
		check(t, ignoreGone(e.api.Pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &grace})))
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func ignoreGone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (e *engine) JobName(s backend.JobSpec) string { return spec.JobName(s) }

// UnlabeledContainer creates a Pod that is never scheduled.
func (e *engine) UnlabeledContainer(t *testing.T, id workspace.ID) {
	t.Helper()
	_, err := e.api.Pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: id.ContainerName()},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "test.invalid/never"}},
			Containers:      []corev1.Container{{Name: "other", Image: e.image}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func (e *engine) UnlabeledVolume(t *testing.T, id workspace.ID) {
	t.Helper()
	c := spec.Claim(e.options("x").Spec, backend.VolumeSpec{ID: id})
	c.Labels = nil
	if _, err := e.api.Claims.Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *engine) LegacyVolume(t *testing.T, installation string, id workspace.ID) {
	t.Helper()
	if _, err := e.api.Claims.Create(t.Context(), spec.Claim(e.options(installation).Spec, backend.VolumeSpec{ID: id}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (e *engine) ContainerExists(t *testing.T, id workspace.ID) bool {
	t.Helper()
	_, err := e.api.Pods.Get(t.Context(), id.ContainerName(), metav1.GetOptions{})
	check(t, ignoreGone(err))
	return err == nil
}

func (e *engine) VolumeExists(t *testing.T, id workspace.ID) bool {
	t.Helper()
	_, err := e.api.Claims.Get(t.Context(), id.VolumeName(), metav1.GetOptions{})
	check(t, ignoreGone(err))
	return err == nil
}

// JobCount counts Jobs, and Pods of Jobs that are gone.
func (e *engine) JobCount(t *testing.T, id workspace.ID) (n int) {
	t.Helper()
	jobs, err := e.api.Jobs.List(t.Context(), metav1.ListOptions{})
	check(t, err)
	pods, err := e.api.Pods.List(t.Context(), metav1.ListOptions{})
	check(t, err)
	prefix := id.ContainerName() + "-"
	for _, j := range jobs.Items {
		if strings.HasPrefix(j.Name, prefix) {
			n++
		}
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return metav1.IsControlledBy(&p, &j) })
	}
	for _, p := range pods.Items {
		if strings.HasPrefix(p.Name, prefix) {
			n++
		}
	}
	return n
}

func (e *engine) MissingImage(*testing.T) string { return "registry.invalid/codehub/no-such-image:1" }

func (e *engine) PullableImage(t *testing.T) string {
	t.Fatal("nodes pull images themselves")
	return ""
}

func (e *engine) SickImage(*testing.T) string { return "" }

func (e *engine) ShellImage(*testing.T) string { return "" }

func (e *engine) Pause(*testing.T, workspace.ID) bool { return false }

// of lists the workspace's Pods and Jobs.
func (e *engine) of(t *testing.T, id workspace.ID) (pods []corev1.Pod, jobs []metav1.Object) {
	t.Helper()
	own := metav1.ListOptions{LabelSelector: spec.LabelWorkspace + "=" + string(id)}
	podList, err := e.api.Pods.List(t.Context(), own)
	check(t, err)
	jobList, err := e.api.Jobs.List(t.Context(), own)
	check(t, err)
	for i := range jobList.Items {
		jobs = append(jobs, &jobList.Items[i])
	}
	return podList.Items, jobs
}

func (e *engine) Break(t *testing.T, id workspace.ID) (ends bool, repair func()) {
	t.Helper()
	var paths []string
	pods, _ := e.of(t, id)
	for _, p := range pods {
		paths = append(paths, "/pods/"+p.Name+"/log")
	}
	return false, e.broken.add(func(r *http.Request) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return strings.HasSuffix(r.URL.Path, path) })
	})
}

func (e *engine) Hold(t *testing.T, installation string) (backend.Backend, <-chan struct{}, func()) {
	t.Helper()
	held, released := make(chan struct{}), make(chan struct{})
	o := e.options(installation)
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		next = record(next)
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/persistentvolumeclaims/") {
				held <- struct{}{}
				<-released
			}
			return next.RoundTrip(r)
		})
	}
	return e.with(t, o), held, func() { close(released) }
}

func (e *engine) JobReport(t *testing.T, id workspace.ID) string {
	t.Helper()
	var all strings.Builder
	pods, jobs := e.of(t, id)
	text, err := json.Marshal([]any{pods, jobs})
	check(t, err)
	all.Write(text)
	for _, p := range pods {
		logs, err := e.api.Logs(t.Context(), p.Name, &corev1.PodLogOptions{})
		if apierrors.IsBadRequest(err) || apierrors.IsNotFound(err) { // it has not printed anything, or has not begun
			continue
		}
		check(t, err)
		if err == nil {
			_, err = io.Copy(&all, logs)
			check(t, errors.Join(err, logs.Close()))
		}
	}
	return all.String()
}

func (e *engine) Terms(t *testing.T, id workspace.ID) (terms []string) {
	t.Helper()
	pods, jobs := e.of(t, id)
	for _, p := range pods {
		if p.Labels[spec.LabelKind] == spec.KindWorkspace {
			terms = append(terms, p.Annotations[spec.AnnotationTerm])
		}
	}
	for _, j := range jobs {
		terms = append(terms, j.GetAnnotations()[spec.AnnotationTerm])
	}
	return terms
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// rules select the requests to which the test's cluster answers with an internal error.
type rules struct {
	mu  sync.Mutex
	all map[int]func(*http.Request) bool
	n   int
}

func (f *rules) add(such func(*http.Request) bool) (remove func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = make(map[int]func(*http.Request) bool)
	}
	f.n++
	n := f.n
	f.all[n] = such
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.all, n)
	}
}

func (f *rules) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		f.mu.Lock()
		fails := false
		for _, such := range f.all {
			fails = fails || such(r)
		}
		f.mu.Unlock()
		if !fails {
			return next.RoundTrip(r)
		}
		return refusal(r, http.StatusInternalServerError, metav1.StatusReasonInternalError, "it is broken"), nil
	})
}

// refusal returns the API server's refusal of a request.
func refusal(r *http.Request, code int, reason metav1.StatusReason, message string) *http.Response {
	body := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d,"message":%q}`, reason, code, message)
	return &http.Response{
		Status: fmt.Sprint(code, " ", http.StatusText(code)), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
	}
}

// TestUnreachable: while the cluster does not answer, the backend reports nothing about any workspace.
func TestUnreachable(t *testing.T) {
	file := t.TempDir() + "/config"
	b, err := kubernetes.New(kubernetes.Options{
		Options: cluster.Options{Kubeconfig: writeKubeconfig(t, file, "https://127.0.0.1:1"), Namespace: "test"},
		Spec:    spec.Options{Installation: "test", Image: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, id := t.Context(), workspace.ID("00000000-0000-4000-8000-000000000000")
	_, containers := b.Containers(ctx)
	_, volumes := b.Volumes(ctx)
	_, jobs := b.Jobs(ctx)
	_, events := b.Events(ctx)
	_, logs := b.Logs(ctx, id, 1)
	_, look := b.Look(ctx, id)
	_, objects := b.Objects(ctx)
	_, identity := b.Identity(ctx)
	for what, err := range map[string]error{"Containers": containers, "Volumes": volumes, "Jobs": jobs, "Events": events, "Logs": logs,
		"Look": look, "Objects": objects, "Identity": identity,
		"Start": b.Start(ctx, backend.StartSpec{ID: id}), "Delete": b.Delete(ctx, id), "Provision": b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}),
		"DeleteVolume": b.DeleteVolume(ctx, id, "op"), "DeleteJobs": b.DeleteJobs(ctx, id),
		"StartJob": b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"}),
	} {
		var f *workspace.Failure
		if !errors.As(err, &f) || f.Reason != workspace.ReasonUnreachable {
			t.Errorf("%s: %v, want reason %s", what, err, workspace.ReasonUnreachable)
		}
	}
}

func writeKubeconfig(t *testing.T, file, server string) string {
	t.Helper()
	text := `{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"` + server +
		`","insecure-skip-tls-verify":true}}],"users":[{"name":"u","user":{"token":"x"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
