package faulty

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Cluster is a proxy in front of the API of a Kubernetes cluster, with its own certificate. It passes requests on,
// and can behave like an API server that restarts or is replaced.
type Cluster struct {
	// Kubeconfig is a file that leads to the proxy.
	Kubeconfig string

	server *httptest.Server
	real   http.Handler

	mu      sync.Mutex
	away    bool
	refused []refusal
	uid     string // of the other cluster; "" is the real one
	changes []string
	all     []string
	epoch   context.Context // ends with the present connections
	end     context.CancelFunc
}

// NewCluster puts a proxy in front of the cluster of a kubeconfig file.
func NewCluster(t testing.TB, kubeconfig string) *Cluster {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.NextProtos = []string{"http/1.1"} // for upgrades
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{real: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorLog:     log.New(io.Discard, "", 0), // what is cut is meant to be
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}}
	c.epoch, c.end = context.WithCancel(context.Background())
	c.server = httptest.NewUnstartedServer(http.HandlerFunc(c.serve))
	c.server.StartTLS()
	t.Cleanup(func() { c.Cut(); c.server.Close() })
	c.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	to := clientcmdapi.NewConfig()
	to.Clusters["proxy"] = &clientcmdapi.Cluster{Server: c.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{
			Type: "CERTIFICATE", Bytes: c.server.Certificate().Raw})}
	to.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy"}
	to.CurrentContext = "proxy"
	if err := clientcmd.WriteToFile(*to, c.Kubeconfig); err != nil {
		t.Fatal(err)
	}
	return c
}

// Cut ends all connections, including watches.
func (c *Cluster) Cut() {
	c.mu.Lock()
	c.end()
	c.epoch, c.end = context.WithCancel(context.Background())
	c.mu.Unlock()
	c.server.CloseClientConnections()
}

// Away ends all connections, and refuses new ones until Away is called again.
func (c *Cluster) Away(on bool) {
	c.mu.Lock()
	c.away = on
	c.mu.Unlock()
	c.Cut()
}

// Replace ends all connections, and directs new ones to another, empty cluster, in which the namespace kube-system has
// that uid; "" directs them back. The other cluster refuses every request that would change something, and Changes
// lists those requests.
func (c *Cluster) Replace(uid string) {
	c.mu.Lock()
	c.uid = uid
	c.mu.Unlock()
	c.Cut()
}

// Changes returns the requests that would have changed something in the other cluster.
func (c *Cluster) Changes() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changes
}

// Requests returns the requests so far, without watches.
func (c *Cluster) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// refusal is the answer to the requests that are not passed on.
type refusal struct {
	such   func(*http.Request) bool
	status int
	reason metav1.StatusReason
}

// Refuse answers such requests with that error of the API server.
func (c *Cluster) Refuse(status int, reason metav1.StatusReason, such func(*http.Request) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = append(c.refused, refusal{such, status, reason})
}

func isWatch(r *http.Request) bool {
	w := r.URL.Query().Get("watch")
	return w == "true" || w == "1"
}

func (c *Cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	away, uid, epoch, refused := c.away, c.uid, c.epoch, c.refused
	if !isWatch(r) {
		c.all = append(c.all, r.Method+" "+r.URL.String())
	}
	c.mu.Unlock()
	if away {
		panic(http.ErrAbortHandler)
	}
	for _, f := range refused {
		if f.such(r) {
			refuse(w, f.status, f.reason)
			return
		}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	defer context.AfterFunc(epoch, func() { cancel(errors.New("cut")) })()
	r = r.WithContext(ctx)
	if uid == "" {
		c.real.ServeHTTP(w, r)
		return
	}
	c.other(w, r, uid)
}

// kinds are the kinds of the objects in each collection.
var kinds = map[string]string{
	"pods": "PodList", "persistentvolumeclaims": "PersistentVolumeClaimList", "jobs": "JobList",
	"secrets": "SecretList", "networkpolicies": "NetworkPolicyList",
}

// answer answers a request with an object.
func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// refuse answers a request with an error of the API server.
func refuse(w http.ResponseWriter, status int, reason metav1.StatusReason) {
	answer(w, status, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status: metav1.StatusFailure, Reason: reason, Code: int32(status), Message: "refused by the test"})
}

// other answers like another, empty cluster.
func (c *Cluster) other(w http.ResponseWriter, r *http.Request, uid string) {
	last := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	group, version := "", "v1"
	if rest, ok := strings.CutPrefix(r.URL.Path, "/apis/"); ok {
		group, rest, _ = strings.Cut(rest, "/")
		version, _, _ = strings.Cut(rest, "/")
		version = group + "/" + version
	}
	switch {
	case r.Method != http.MethodGet:
		c.mu.Lock()
		c.changes = append(c.changes, fmt.Sprintf("%s %s", r.Method, r.URL.Path))
		c.mu.Unlock()
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden)
	case r.URL.Path == "/api/v1/namespaces/kube-system":
		answer(w, http.StatusOK, map[string]any{"kind": "Namespace", "apiVersion": "v1",
			"metadata": map[string]any{"name": "kube-system", "uid": uid}})
	case isWatch(r):
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
		if r.URL.Query().Get("sendInitialEvents") == "true" { // such a client waits for their end
			_ = json.NewEncoder(w).Encode(map[string]any{"type": "BOOKMARK", "object": map[string]any{
				"kind": strings.TrimSuffix(kinds[last], "List"), "apiVersion": version,
				"metadata": map[string]any{"resourceVersion": "1",
					"annotations": map[string]string{metav1.InitialEventsAnnotationKey: "true"}},
			}})
		}
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case kinds[last] != "":
		answer(w, http.StatusOK, map[string]any{"kind": kinds[last], "apiVersion": version,
			"metadata": map[string]any{"resourceVersion": "1"}, "items": []any{}})
	default:
		refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}
