package api

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/events"
	recovery "github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// localTimeout is how long a command's request waits for the database. It can be long, because the person at the
// terminal can interrupt the command.
const localTimeout = time.Hour

// Local returns a transport that answers requests in this process, for the commands on an installation's own servers.
// They need no running gateway. Each request is the operator's, with an administrator's rights; the history names it
// "cli". A refused request returns the error itself, with its cause, instead of a problem. Local itself sets those
// options in o that a server would add: Site, Hub, Health, WaitReady, Client, Authenticated, Refused and
// DatabaseTimeout. Only the routes that look into containers need Containers; no command uses them here.
//
// Only Local's transport acts for an operator. It is not an [http.Handler], so no server can expose it to a
// network.
func Local(o Options, operator audit.Actor) (http.RoundTripper, error) {
	o.Site, o.Hub, o.DatabaseTimeout = site.New(site.Options{}), events.NewHub(), localTimeout
	o.Health = func() coordinator.Health { return coordinator.Health{} }
	o.WaitReady = func(context.Context) error { return nil }
	o.Client = func(*http.Request) audit.Actor { return operator }
	o.Authenticated = func(*http.Request, auth.User) {}
	o.Refused = func() *postgres.OlderError { return nil }
	h, err := New(o)
	if err != nil {
		return nil, err
	}
	h.local = true
	return localTransport{h}, nil
}

// localTransport answers requests in this process. It MUST NOT implement [http.Handler].
type localTransport struct{ handler http.Handler }

// RoundTrip implements [http.RoundTripper]. The caller can read the body of the response while the handler is still
// writing it.
func (t localTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(r.Context())
	served := r.WithContext(ctx)
	if r.Body == nil {
		served.Body = http.NoBody
	}
	body, out := io.Pipe()
	w := &localWriter{header: http.Header{}, out: out, begun: make(chan error, 1)}
	go func() {
		err := recovery.Call(recovery.Task, func() error {
			defer served.Body.Close()
			t.handler.ServeHTTP(w, served)
			return nil
		})
		w.begin(http.StatusOK, err)
		_ = out.CloseWithError(err) // nil is the end of the body
	}()
	if err := <-w.begun; err != nil {
		cancel()
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.sent, Body: localBody{body, cancel}, ContentLength: -1, Request: r,
	}, nil
}

// localBody is the body of a response. Closing it cancels the request.
type localBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

// Close implements [io.Closer].
func (b localBody) Close() error {
	b.cancel()
	return b.ReadCloser.Close()
}

// localWriter is the response of a request in this process.
type localWriter struct {
	header, sent http.Header
	status       int // 0 before the response begins
	out          *io.PipeWriter
	begun        chan error // receives nil when the response begins, or the error that prevents it
}

// Header implements [http.ResponseWriter].
func (w *localWriter) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter].
func (w *localWriter) WriteHeader(status int) { w.begin(status, nil) }

// Write implements [http.ResponseWriter].
func (w *localWriter) Write(p []byte) (int, error) {
	w.begin(http.StatusOK, nil)
	return w.out.Write(p)
}

// FlushError lets a handler flush. It has nothing to do, because the client receives every write immediately.
func (w *localWriter) FlushError() error { return nil }

// begin begins the response, or ends the request with err. Only the first call has an effect.
func (w *localWriter) begin(status int, err error) {
	if w.status == 0 {
		w.status, w.sent = status, w.header.Clone()
		w.begun <- err
	}
}
