package gateway

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	one, two = gatewaytest.One, gatewaytest.Two
	onePath  = gatewaytest.OnePath
	oneHost  = "Host: " + gatewaytest.OneHost

	asAlice      = gatewaytest.UserHeader + ": alice"
	asBob        = gatewaytest.UserHeader + ": bob"
	asPage       = "Sec-Fetch-Mode: navigate"
	asSubrequest = "Sec-Fetch-Mode: cors"
	asProgram    = "Accept: */*"
)

// harness is a gateway behind an HTTP server, in front of the standard library's
// reverse proxy. Caddy's is tested in the adapter and end to end.
type harness struct {
	*gatewaytest.Product
	t       *testing.T
	url     string // of the server, without a slash
	gateway *Gateway
	exiting atomic.Bool
	refused atomic.Pointer[postgres.OlderError]
	serving atomic.Int64  // requests that the server has not finished
	events  chan struct{} // what the application sends on an event stream
}

// newHarness starts a gateway. Each change may edit its options.
func newHarness(t *testing.T, change ...func(*Options)) *harness {
	t.Helper()
	t.Parallel()
	h := &harness{Product: gatewaytest.New(t), t: t}
	o := Options{
		Site: site.New(site.Options{}), Routes: h.Table, Activator: h.Wakes, Activity: h.Activity,
		Sessions: h.Product, Service: h.Product, Identity: h.Identity, Token: h.Token, Proxy: proxyTo,
		Exiting: h.exiting.Load, Refused: h.refused.Load, PageWait: DefaultPageWait, WakeTimeout: DefaultWakeTimeout,
		PageStatus: DefaultPageStatus, Log: zap.NewNop(), Tracer: tracing.Off(),
		WaitReady:     func(context.Context) error { return nil },
		Client:        func(*http.Request) audit.Actor { return audit.Actor{} },
		ClientAddress: func(*http.Request) string { return "" },
		NoIdleTimeout: func(*http.Request) func() { return func() {} },
		RequestID:     func(*http.Request) string { return "" },
		Answered:      func(*http.Request, workspace.ID, string, string, time.Duration) {},
	}
	for _, f := range change {
		f(&o)
	}
	h.gateway = New(o)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.serving.Add(1)
		defer h.serving.Add(-1)
		at := o.Site.Parse(r)
		if !at.ForWorkspace() {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		if err := h.gateway.Serve(w, r, at); err != nil && !errors.Is(err, ErrClientGone) {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
	}))
	t.Cleanup(server.Close)
	h.url = server.URL
	return h
}

// waitServed waits until the server has finished every request. The client may have its answer before that, but the
// last bytes of a request still count as activity.
func (h *harness) waitServed() {
	h.t.Helper()
	wait.Until(h.t, "every request is finished", func() bool { return h.serving.Load() == 0 })
}

// proxyTo is the proxy of the tests.
func proxyTo(w http.ResponseWriter, r *http.Request, st *route.State) (err error) {
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(&url.URL{Scheme: "http", Host: st.Route.Endpoint})
			p.Out.Host = p.In.Host
			p.SetXForwarded()
		},
		Transport:     &http.Transport{DisableKeepAlives: true},
		FlushInterval: -1,
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, failure error) {
			var op *net.OpError
			if r.Context().Err() != nil { // a page was left before its requests were answered
				err = ErrClientGone
			} else if err = (&forward.NoAnswerError{Status: http.StatusBadGateway, Err: failure}); errors.As(failure, &op) && op.Op == "dial" {
				err = forward.ErrUnreachable
			}
		},
	}
	proxy.ServeHTTP(w, r)
	return err
}

// reply is a response, read to its end.
type reply struct {
	*http.Response
	body string
}

// client shows redirects.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       time.Minute,
}

// send makes a request to the server.
func (h *harness) send(method, path, body string, lines ...string) (reply, error) {
	r := gatewaytest.NewRequest(method, h.url+path, lines...)
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	}
	resp, err := client.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp, string(b)}, err
}

// get sends a GET and expects a status.
func (h *harness) get(want int, path string, lines ...string) reply {
	h.t.Helper()
	got, err := h.send("GET", path, "", lines...)
	if err != nil {
		h.t.Fatal(err)
	}
	if got.StatusCode != want {
		h.t.Fatalf("GET %s %q: got %d, want %d: %s", path, lines, got.StatusCode, want, got.body)
	}
	return got
}

// getting sends a GET that is expected to be held, and returns its reply later.
func (h *harness) getting(path string, lines ...string) <-chan reply {
	c := make(chan reply, 1)
	go func() {
		got, err := h.send("GET", path, "", lines...)
		if err != nil {
			h.t.Errorf("GET %s: %v", path, err)
		}
		c <- got
	}()
	return c
}
