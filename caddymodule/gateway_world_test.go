package codehub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The handler is tested behind a real Caddy server and in front of a real
// reverse_proxy. What it needs of the rest of the product, the world, is in
// memory: these tests are about the gateway's decisions, and the world must be
// brought into every state.

func init() {
	caddy.RegisterModule(new(worldGateway))
	caddy.RegisterModule(new(worldUser))
}

// worldGateway is the gateway handler with a world of the test.
type worldGateway struct{ Gateway }

var (
	worldsMu sync.Mutex
	worlds   = map[string]*world{} // by the name in Identity's place
)

func (*worldGateway) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_gateway", New: func() caddy.Module { return new(worldGateway) }}
}

func (g *worldGateway) Provision(ctx caddy.Context) error {
	worldsMu.Lock()
	w := worlds["now"]
	worldsMu.Unlock()
	stopping := make(chan struct{})
	err := g.provision(ctx.Logger(), gatewayDeps{
		routes: w.routes, wishes: w, sessions: w, activity: w.activity,
		waitReady: func(ctx context.Context) error { return nil }, stopping: stopping,
	})
	w.gateway = &g.Gateway
	return err
}

// worldUser signs in whoever the header X-Test-User names.
type worldUser struct{}

func (*worldUser) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.test_user", New: func() caddy.Module { return new(worldUser) }}
}

func (*worldUser) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	if r.Header.Get("X-Test-User") == "database away" {
		caddyhttp.SetVar(r.Context(), authErrorVar, errors.New("away"))
	} else {
		caddyhttp.SetVar(r.Context(), "test", true)
		r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer).Set("http.auth.user.id", r.Header.Get("X-Test-User"))
	}
	return next.ServeHTTP(w, r)
}

// world is the rest of the product.
type world struct {
	t        testing.TB
	url      string // of the server, without a slash
	routes   *route.Table
	activity *activity.Buffer
	redis    *redis.Client
	gateway  *Gateway

	mu      sync.Mutex
	rows    map[workspace.ID]store.Route
	wish    func(id workspace.ID) error // nil grants
	wishes  []service.Actor
	running []workspace.Workspace
	tokens  map[string]string // token → user id
	clock   time.Time
}

// newWorld starts Caddy with the gateway. Settings are those of the handler.
func newWorld(t testing.TB, settings map[string]any) *world {
	t.Helper()
	w := &world{t: t, rows: map[workspace.ID]store.Route{}, tokens: map[string]string{}, clock: time.Unix(1_000_000, 0)}
	w.routes = route.New(w, 0, zap.NewNop())
	options, err := redis.ParseURL(devenv.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	w.redis = redis.NewClient(options)
	w.activity = activity.NewBuffer(w.redis, activity.Options{Now: w.now}, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	var run sync.WaitGroup
	run.Go(func() { w.routes.Run(ctx) })
	t.Cleanup(func() { cancel(); run.Wait(); _ = w.redis.Close() })
	<-w.routes.Loaded()
	worldsMu.Lock()
	worlds["now"] = w
	worldsMu.Unlock()
	w.serve(settings, nil)
	return w
}

// serve starts Caddy, or gives the running one another configuration.
func (w *world) serve(settings, server map[string]any) {
	w.t.Helper()
	if w.url == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		w.url = "http://" + l.Addr().String()
		_ = l.Close()
		w.t.Cleanup(func() { _ = caddy.Stop() })
	}
	handler := map[string]any{"handler": "test_gateway"}
	for k, v := range settings {
		handler[k] = v
	}
	srv := map[string]any{
		"listen":          []string{w.url[len("http://"):]},
		"automatic_https": map[string]any{"disable": true},
		"routes": []any{map[string]any{"handle": []any{
			map[string]any{"handler": "test_user"},
			handler,
			map[string]any{"handler": "reverse_proxy", "dynamic_upstreams": map[string]any{"source": "codehub"}, "stream_close_delay": "1h"},
		}}},
	}
	apps := map[string]any{}
	for k, v := range server {
		if k == "tls" {
			apps["tls"] = v
		} else {
			srv[k] = v
		}
	}
	apps["http"] = map[string]any{"grace_period": "1s", "servers": map[string]any{"s": srv}}
	config, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"storage": map[string]any{"module": "file_system", "root": w.t.TempDir()},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"level": "PANIC"}}},
		"apps":    apps,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var cfg caddy.Config
	if err := json.Unmarshal(config, &cfg); err != nil {
		w.t.Fatal(err)
	}
	if err := caddy.Run(&cfg); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clock
}

// Routes is the table's source.
func (w *world) Routes(_ context.Context, ids ...workspace.ID) ([]store.Route, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []store.Route
	for _, row := range w.rows {
		out = append(out, row)
	}
	if len(ids) > 0 {
		out = nil
		for _, id := range ids {
			if row, ok := w.rows[id]; ok {
				out = append(out, row)
			}
		}
	}
	return out, nil
}

// change puts a workspace into a state, and waits until the table has it.
func (w *world) change(id workspace.ID, f func(*store.Route)) {
	w.t.Helper()
	w.mu.Lock()
	row, ok := w.rows[id]
	if !ok {
		row = store.Route{ID: id, OwnerID: "alice", Name: "My <work>", Operation: workspace.OpNone, Desired: workspace.DesiredStandby, Phase: workspace.PhaseStandby}
	}
	was := row
	f(&row)
	if row.Phase != was.Phase {
		w.clock = w.clock.Add(time.Second)
		row.PhaseChangedAt = w.clock
	}
	w.rows[id] = row
	w.mu.Unlock()
	w.routes.Refresh(id)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for {
		if e, ok := w.routes.Lookup(id); ok {
			st := e.State()
			if st.Route.Phase == row.Phase && st.Route.Endpoint == row.Endpoint && st.Route.Desired == row.Desired && st.Route.Operation == row.Operation {
				return
			}
		}
		select {
		case <-ctx.Done():
			w.t.Fatal("the table did not follow")
		case <-time.After(time.Millisecond):
		}
	}
}

// run makes the workspace RUNNING at the backend.
func (w *world) run(id workspace.ID, backend *httptest.Server) {
	w.t.Helper()
	w.change(id, func(r *store.Route) {
		r.Phase, r.Desired, r.Operation = workspace.PhaseRunning, workspace.DesiredRunning, workspace.OpNone
		r.Endpoint = backend.Listener.Addr().String()
	})
}

func (w *world) SetDesired(_ context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error {
	w.mu.Lock()
	w.wishes = append(w.wishes, a)
	wish := w.wish
	w.mu.Unlock()
	if wish != nil {
		if err := wish(id); err != nil {
			return err
		}
	}
	w.mu.Lock()
	row := w.rows[id]
	row.Desired = d
	w.rows[id] = row
	w.mu.Unlock()
	return nil
}

func (w *world) wished() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.wishes)
}

func (w *world) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wish = func(workspace.ID) error { return err }
}

func (w *world) Running(context.Context, string) ([]workspace.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running, nil
}

func (w *world) Redeem(_ context.Context, ticket string, id workspace.ID) (string, error) {
	if ticket != "ticket-"+string(id) {
		return "", auth.ErrBadTicket
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens["token-"+string(id)] = "alice"
	return "token-" + string(id), nil
}

func (w *world) WorkspaceSession(_ context.Context, token string, id workspace.ID) (auth.User, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if token != "token-"+string(id) || w.tokens[token] == "" {
		return auth.User{}, auth.ErrNoSession
	}
	return auth.User{ID: w.tokens[token]}, nil
}

// used flushes the activity and returns when the workspace was used last; the
// clock then moves on.
func (w *world) used(id workspace.ID) bool {
	w.t.Helper()
	ctx := context.Background()
	if err := w.activity.Flush(ctx); err != nil {
		w.t.Fatal(err)
	}
	n, err := w.redis.ZRem(ctx, activity.DefaultKey, string(id)).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.clock = w.clock.Add(time.Minute)
	w.mu.Unlock()
	if err := w.activity.Flush(ctx); err != nil { // takes note of the time
		w.t.Fatal(err)
	}
	return n > 0
}

// reply is an answer, read to its end.
type reply struct {
	*http.Response
	body string
}

// noRedirect is a client that shows redirects.
var noRedirect = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Timeout:       20 * time.Second,
}

// send makes a request to the server. A host other than the server's is given as
// a line "Host: …".
func (w *world) send(method, path, body string, lines ...string) (reply, error) {
	r := request(method, w.url+path, lines...)
	if h := r.Header.Get("Host"); h != "" {
		r.Host = h
		r.Header.Del("Host")
	}
	if body != "" {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader([]byte(body))), int64(len(body))
	}
	resp, err := noRedirect.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp, string(b)}, err
}

// get sends a GET and expects a status.
func (w *world) get(want int, path string, lines ...string) reply {
	w.t.Helper()
	got, err := w.send("GET", path, "", lines...)
	if err != nil {
		w.t.Fatal(err)
	}
	if got.StatusCode != want {
		w.t.Fatalf("GET %s %q: got %d, want %d: %s", path, lines, got.StatusCode, want, got.body)
	}
	return got
}

// eventually waits for what another goroutine does.
func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			w.t.Fatalf("it did not happen: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

const (
	asAlice = "X-Test-User: alice"
	asBob   = "X-Test-User: bob"
	asPage  = "Sec-Fetch-Mode: navigate"
	asTab   = "Sec-Fetch-Mode: cors"
)

// echo is an application that answers with what it has received.
func echo(t testing.TB) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s host=%s\n", r.Method, r.RequestURI, r.Host)
		_ = r.Header.Write(w)
		fmt.Fprintf(w, "\n%s", b)
	}))
	t.Cleanup(s.Close)
	return s
}
