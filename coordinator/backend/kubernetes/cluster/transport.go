package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/transport"

	"github.com/codehub/gateway/coordinator/backend/internal/peer"
)

const (
	// idleConns is how many idle connections stay open, about as many as there are concurrent calls. idleFor is longer
	// than the time between two observations, because each new connection asks for the identity first.
	idleConns = 16
	idleFor   = 5 * time.Minute
	// AnswerLimit bounds a request, and the start of a watch, so that a hanging cluster counts as one that does not
	// answer.
	AnswerLimit = 30 * time.Second
	// whoPath is the object whose uid is the cluster's identity. It exists as long as the cluster.
	whoPath = "/api/v1/namespaces/kube-system"
)

// errSlow is the cause of a request that timed out.
var errSlow = fmt.Errorf("no answer within %s: %w", AnswerLimit, context.DeadlineExceeded)

// newTransport returns a transport to the cluster, and the watcher of its connections. It uses HTTP/1.1: over HTTP/2
// one connection carries all requests. A request that hangs would block the others, and a proxy might send each request
// to a different server.
func newTransport(config *transport.Config, base *url.URL) (*http.Transport, *peer.Watcher, error) {
	conn := onConn{}
	asking, err := transport.HTTPWrappersForConfig(config, conn)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the credential: %w", err)
	}
	w := peer.New("Kubernetes cluster", func(ctx context.Context, c net.Conn) (string, error) {
		id, err := ask(context.WithValue(ctx, conn, c), asking, base)
		if err != nil {
			return "", fmt.Errorf("asking the cluster for its identity, the uid of the namespace kube-system: %w", err)
		}
		return id, nil
	})
	find := config.Proxy
	if find == nil {
		find = http.ProxyFromEnvironment
	}
	dial, err := through(config.DialHolder.Dial, find, base)
	if err != nil {
		return nil, nil, err
	}
	t := &http.Transport{
		DialContext:         w.Wrap(within(dial)),
		MaxIdleConns:        idleConns,
		MaxIdleConnsPerHost: idleConns,
		IdleConnTimeout:     idleFor,
		DisableCompression:  config.DisableCompression,
	}
	if _, err := tlsConfig(config); err != nil { // report wrong settings immediately
		return nil, nil, err
	}
	// The settings are read for each connection, because files with certificates change.
	t.DialTLSContext = w.Wrap(within(peer.Secure(dial, func() (*tls.Config, error) { return tlsConfig(config) })))
	return t, w, nil
}

func tlsConfig(config *transport.Config) (*tls.Config, error) {
	own := *config // it keeps the files' content
	own.TLS.NextProtos = []string{"http/1.1"}
	c, err := transport.TLSConfigFor(&own)
	if err != nil {
		return nil, fmt.Errorf("reading the TLS settings of the cluster: %w", err)
	}
	return c, nil
}

// ask asks for the cluster's identity.
func ask(ctx context.Context, asking http.RoundTripper, base *url.URL) (string, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath(whoPath).String(), nil)
	if err != nil {
		return "", err
	}
	q.Header.Set("Accept", "application/json")
	resp, err := asking.RoundTrip(q)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		var status metav1.Status
		if json.Unmarshal(body, &status) == nil && status.Code == int32(resp.StatusCode) {
			return "", &apierrors.StatusError{ErrStatus: status}
		}
		return "", apierrors.NewGenericServerResponse(resp.StatusCode, "get",
			schema.GroupResource{Resource: "namespaces"}, "kube-system", fmt.Sprintf("%.200s", body), 0, true)
	}
	var who struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(body, &who); err != nil {
		return "", fmt.Errorf("GET %s: %w", whoPath, err)
	}
	if who.Metadata.UID == "" {
		return "", errors.New("it has none; is this the address of a Kubernetes cluster?")
	}
	if resp.Close {
		return "", errors.New("the connection cannot be used for more than one request; a proxy before the cluster " +
			"must keep connections")
	}
	return who.Metadata.UID, nil
}

// onConn sends each request on the connection in the request's context. It is also the context's key.
type onConn struct{}

// RoundTrip implements [http.RoundTripper].
func (k onConn) RoundTrip(q *http.Request) (*http.Response, error) {
	return peer.RoundTrip(q.Context().Value(k).(net.Conn), q)
}

// bounded limits the time that a request takes: until a stream has begun, or until the body of any other answer has
// been read.
type bounded struct {
	base  http.RoundTripper
	limit time.Duration
}

// RoundTrip implements [http.RoundTripper].
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	timer := time.AfterFunc(b.limit, func() { cancel(errSlow) })
	end := func() { timer.Stop(); cancel(nil) }
	resp, err := b.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		end()
		return nil, slow(ctx, err)
	}
	if q := r.URL.Query(); q.Get("watch") != "" || q.Get("follow") != "" ||
		resp.StatusCode == http.StatusSwitchingProtocols {
		if !timer.Stop() {
			resp.Body.Close()
			return nil, slow(ctx, errSlow)
		}
		if begun, ok := r.Context().Value(begins{}).(*atomic.Bool); ok && resp.StatusCode == http.StatusOK {
			begun.Store(true)
		}
	}
	resp.Body = ending{resp.Body, ctx, end}
	return resp, nil
}

// begins is the context's key of an [atomic.Bool] that is true once a watch has begun. If the connection fails,
// Kubernetes' client returns a watch that ends immediately.
type begins struct{}

// slow returns errSlow if that is why ctx ended.
func slow(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, errSlow) {
		return cause
	}
	return err
}

// ending is a body that calls end when it is closed.
type ending struct {
	io.ReadCloser
	ctx context.Context
	end func()
}

// Read implements [io.Reader].
func (e ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	return n, slow(e.ctx, err)
}

// Write implements [io.Writer], which is needed for a connection that was upgraded.
func (e ending) Write(p []byte) (int, error) {
	w, ok := e.ReadCloser.(io.Writer)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return w.Write(p)
}

// Close implements [io.Closer].
func (e ending) Close() error {
	err := e.ReadCloser.Close()
	e.end()
	return err
}
