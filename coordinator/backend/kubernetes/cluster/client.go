package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/internal/peer"
	"github.com/codehub/gateway/coordinator/dialer"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// protobuf is the content type of requests. It takes a fraction of the time and memory that JSON takes.
const protobuf = "application/vnd.kubernetes.protobuf"

// userAgent names this program in the cluster's audit log.
const userAgent = "codehub"

// Client makes requests in one namespace of one cluster, whose identity it checks. It sends a request that
// changes something only while the context's lease is held ([backend.WithLease]).
type Client struct {
	Pods            *Resource[*corev1.Pod, *corev1.PodList]
	Claims          *Resource[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList]
	Jobs            *Resource[*batchv1.Job, *batchv1.JobList]
	Secrets         *Resource[*corev1.Secret, *corev1.SecretList]
	NetworkPolicies *Resource[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList]
	Quotas          *Resource[*corev1.ResourceQuota, *corev1.ResourceQuotaList]
	// endpoints are the endpoints in the client's namespace; see [Client.Endpoints] for other namespaces.
	endpoints *Resource[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]

	settings settings
	core     rest.Interface
	params   runtime.ParameterCodec
	http     *http.Client
	base     *http.Transport
	watch    *peer.Watcher

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	mu     sync.Mutex // so that no task starts after Close
	tasks  sync.WaitGroup
}

// Connect returns a client. Its only I/O is reading the settings' files.
func Connect(o Options) (*Client, error) {
	s, err := o.load()
	if err != nil {
		return nil, err
	}
	return connect(s, o.Transport)
}

func connect(s settings, around func(http.RoundTripper) http.RoundTripper) (*Client, error) {
	s.Dial = dialer.New(limits).DialContext
	s.QPS = -1 // the cluster limits its clients itself (priority and fairness)
	s.WarningHandlerWithContext = rest.NoWarnings{}
	s.UserAgent = userAgent
	s.ContentType, s.AcceptContentTypes = protobuf, protobuf+",application/json"
	config, err := s.TransportConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the credential of the cluster: %w", err)
	}
	address, _, err := rest.DefaultServerUrlFor(s.Config)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the cluster: %w", err)
	}
	c := &Client{settings: s}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if c.base, c.watch, err = newTransport(config, address); err != nil {
		return nil, err
	}
	asked, err := transport.HTTPWrappersForConfig(config, backend.Leased(c.base))
	if err != nil {
		return nil, fmt.Errorf("reading the credential of the cluster: %w", err)
	}
	asked = bounded{asked, AnswerLimit}
	if around != nil {
		asked = around(asked)
	}
	c.http = &http.Client{Transport: asked, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // a redirect would send the credential elsewhere
	}}
	return c, c.resources()
}

// resources sets the client's resources.
func (c *Client) resources() error {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), batchv1.AddToScheme(scheme),
		discoveryv1.AddToScheme(scheme), networkingv1.AddToScheme(scheme)); err != nil {
		return err
	}
	c.params = runtime.NewParameterCodec(scheme)
	c.settings.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	var failed error
	group := func(path string, gv schema.GroupVersion) rest.Interface {
		own := rest.CopyConfig(c.settings.Config)
		own.APIPath, own.GroupVersion = path, &gv
		r, err := rest.RESTClientForConfigAndClient(own, c.http)
		failed = errors.Join(failed, err)
		return r
	}
	core := group("/api", corev1.SchemeGroupVersion)
	batch := group("/apis", batchv1.SchemeGroupVersion)
	networking := group("/apis", networkingv1.SchemeGroupVersion)
	discovery := group("/apis", discoveryv1.SchemeGroupVersion)
	if failed != nil {
		return fmt.Errorf("reading the settings of the cluster: %w", failed)
	}
	c.core = core
	c.Pods = resource[*corev1.Pod, *corev1.PodList](c, core, "pods")
	c.Claims = resource[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList](c, core, "persistentvolumeclaims")
	c.Secrets = resource[*corev1.Secret, *corev1.SecretList](c, core, "secrets")
	c.Quotas = resource[*corev1.ResourceQuota, *corev1.ResourceQuotaList](c, core, "resourcequotas")
	c.Jobs = resource[*batchv1.Job, *batchv1.JobList](c, batch, "jobs")
	c.NetworkPolicies = resource[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList](c, networking, "networkpolicies")
	c.endpoints = resource[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList](c, discovery, "endpointslices")
	return nil
}

// Endpoints returns the endpoints of a service in that namespace. Empty means the client's namespace.
func (c *Client) Endpoints(ctx context.Context, namespace, service string) (*discoveryv1.EndpointSliceList, error) {
	in := *c.endpoints
	in.namespace = cmp.Or(namespace, in.namespace)
	return in.List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
}

func resource[T object, L runtime.Object](c *Client, client rest.Interface, name string) *Resource[T, L] {
	return &Resource[T, L]{client: client, params: c.params, namespace: c.settings.namespace, name: name, explain: c.explain}
}

// Namespace is the client's namespace.
func (c *Client) Namespace() string { return c.settings.namespace }

// Identity returns the uid of the namespace kube-system. Every new connection asks for it. So Identity makes a request
// only if there was no connection yet. The uid is that of the cluster that answered last: see package peer.
func (c *Client) Identity(ctx context.Context) (string, error) {
	const doing = "asking the cluster for its identity"
	id, err := c.watch.ID()
	if err == nil && id == "" {
		// Any request will do: it opens a connection, which asks for the identity.
		if err := c.core.Get().AbsPath(whoPath).Do(ctx).Error(); err != nil {
			return "", Wrap(doing, c.explain(err))
		}
		id, err = c.watch.ID()
	}
	if err != nil {
		return "", workspace.Fail(workspace.ReasonUnreachable, fmt.Errorf("%s: %w", doing, err))
	}
	return id, nil
}

// Close ends all caches and closes idle connections.
func (c *Client) Close() error {
	c.mu.Lock()
	c.cancel()
	c.mu.Unlock()
	c.tasks.Wait()
	c.base.CloseIdleConnections()
	return nil
}

// Logs returns the Pod's output so far; with Follow in the options, also its output
// until the Pod or ctx ends. The caller closes the reader.
func (c *Client) Logs(ctx context.Context, pod string, o *corev1.PodLogOptions) (io.ReadCloser, error) {
	r, err := c.core.Get().Namespace(c.settings.namespace).Resource("pods").Name(pod).SubResource(
		"log").VersionedParams(o, c.params).Stream(ctx)
	return r, c.explain(err)
}

// task runs f in the background, with a context that Close ends. If the client is already closed, task calls the
// function otherwise instead. doing is a gerund that tells what f does; it is logged if f panics.
func (c *Client) task(doing string, f func(context.Context), otherwise func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx.Err() != nil {
		if otherwise != nil {
			otherwise()
		}
		return
	}
	c.tasks.Go(func() { guard.Run(doing, func() { f(c.ctx) }) })
}
