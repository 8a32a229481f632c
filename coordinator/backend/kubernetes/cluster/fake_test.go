package cluster

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// token is the credential of the fake cluster's clients.
const token = "secret-token"

// event is a change of a Pod.
type event struct {
	rv     int
	kind   watch.EventType
	object *corev1.Pod
}

// fake looks to a client like a cluster with Pods. It has no other resources.
type fake struct {
	*httptest.Server
	t testing.TB

	mu        sync.Mutex
	id        string
	rv        int
	pods      map[string]*corev1.Pod
	log       []event
	oldest    int // a watch from before this resource version has expired
	more      chan struct{}
	watching  int
	requests  []string
	questions int
	instead   func(w http.ResponseWriter, r *http.Request) bool // answers a request, or returns false
	end       chan struct{}                                     // ends the watches
}

// newFake starts a cluster with that identity.
func newFake(t testing.TB, id string) *fake {
	f := &fake{t: t, id: id, pods: make(map[string]*corev1.Pod), more: make(chan struct{}), end: make(chan struct{})}
	f.Server = httptest.NewTLSServer(http.HandlerFunc(f.serve))
	t.Cleanup(func() { f.endWatches(); f.CloseClientConnections(); f.Close() })
	return f
}

// options are those of a client of the cluster.
func (f *fake) options() Options {
	f.t.Helper()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	file := filepath.Join(f.t.TempDir(), "kubeconfig")
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": f.URL, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": "somebody", "user": map[string]any{"token": token}}},
		"contexts": []any{map[string]any{"name": "test", "context": map[string]any{"cluster": "c", "user": "somebody", "namespace": "here"}}},
	})
	if err == nil {
		err = os.WriteFile(file, config, 0o600)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return Options{Kubeconfig: file}
}

// connect returns a client of the cluster.
func (f *fake) connect() *Client {
	f.t.Helper()
	c, err := Connect(f.options())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	question := r.URL.Path == whoPath
	if question {
		f.questions++
	} else {
		f.requests = append(f.requests, r.Method+" "+r.URL.Path+" "+r.URL.Query().Get("watch"))
	}
	instead, id := f.instead, f.id
	f.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer "+token {
		refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "Unauthorized")
		return
	}
	if instead != nil && instead(w, r) {
		return
	}
	switch {
	case question:
		answer(w, map[string]any{"metadata": map[string]any{"name": "kube-system", "uid": id}})
	case r.URL.Query().Get("watch") != "":
		f.watch(w, r)
	case strings.HasSuffix(r.URL.Path, "/pods") && r.Method == http.MethodGet:
		f.mu.Lock()
		defer f.mu.Unlock()
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(f.rv)}}
		for _, p := range f.pods {
			list.Items = append(list.Items, *p)
		}
		answer(w, list)
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound, "not found")
	}
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: reason, Message: message, Code: int32(code),
	})
}

// watch streams events, and first the existing objects if the client asks for them.
func (f *fake) watch(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	isPods := strings.HasSuffix(r.URL.Path, "/pods")
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	send := func(kind watch.EventType, object any) {
		_ = json.NewEncoder(w).Encode(map[string]any{"type": kind, "object": object})
	}
	f.mu.Lock()
	end := f.end
	f.watching++
	seen, _ := strconv.Atoi(q.Get("resourceVersion"))
	if q.Get("sendInitialEvents") == "true" {
		if isPods {
			for _, p := range f.pods {
				send(watch.Added, p)
			}
		}
		send(watch.Bookmark, map[string]any{"apiVersion": version(r.URL.Path), "kind": kind(r.URL.Path), "metadata": map[string]any{
			"resourceVersion": strconv.Itoa(f.rv), "annotations": map[string]any{metav1.InitialEventsAnnotationKey: "true"},
		}})
		seen = f.rv
	}
	defer func() {
		f.mu.Lock()
		f.watching--
		f.mu.Unlock()
	}()
	for {
		if seen < f.oldest {
			send(watch.Error, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonExpired, Code: http.StatusGone})
			f.mu.Unlock()
			return
		}
		for _, e := range f.log {
			if isPods && e.rv > seen {
				send(e.kind, e.object)
				seen = e.rv
			}
		}
		more := f.more
		f.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case <-more:
		case <-end:
			return
		case <-r.Context().Done():
			return
		}
		f.mu.Lock()
	}
}

func kind(path string) string {
	return map[string]string{"pods": "Pod", "persistentvolumeclaims": "PersistentVolumeClaim", "jobs": "Job"}[filepath.Base(path)]
}

func version(path string) string {
	if strings.HasPrefix(path, "/apis/batch/") {
		return "batch/v1"
	}
	return "v1"
}

// put creates or changes a Pod of a workspace; remove removes it.
func (f *fake) put(name, workspace string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rv++
	kind := watch.Added
	if f.pods[name] != nil {
		kind = watch.Modified
	}
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "here", UID: types.UID("uid-" + name), ResourceVersion: strconv.Itoa(f.rv),
			Labels:        map[string]string{spec.LabelWorkspace: workspace},
			Annotations:   map[string]string{spec.AnnotationPort: "8080", "example.com/foreign": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}}},
	}
	f.pods[name] = p
	f.happened(event{f.rv, kind, p})
}

func (f *fake) remove(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rv++
	p := f.pods[name].DeepCopy()
	p.ResourceVersion = strconv.Itoa(f.rv)
	delete(f.pods, name)
	f.happened(event{f.rv, watch.Deleted, p})
}

func (f *fake) happened(e event) {
	f.log = append(f.log, e)
	close(f.more)
	f.more = make(chan struct{})
}

// endWatches ends all watches, as a cluster does every few minutes.
func (f *fake) endWatches() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.end)
	f.end = make(chan struct{})
}

// answers replaces the cluster's answers; nil restores the normal ones. The connections end.
func (f *fake) answers(instead func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	f.instead = instead
	f.mu.Unlock()
}

func (f *fake) is(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.id = id
}

func (f *fake) watches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.watching
}

// asked returns the requests so far, except questions for the identity.
func (f *fake) asked() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// away is an answer that the cluster is unavailable.
func away(w http.ResponseWriter, _ *http.Request) bool {
	refuse(w, http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "away")
	return true
}

func names(pods []*corev1.Pod) string {
	var all []string
	for _, p := range pods {
		all = append(all, p.Name)
	}
	slices.Sort(all)
	return fmt.Sprint(all)
}
