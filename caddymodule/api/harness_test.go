package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/api"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/auth"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/wait"
	"github.com/codehub/gateway/coordinator/events"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
)

const (
	testPassword = "correct horse battery"
	sessionTTL   = 5 * time.Hour
)

// harness is the API behind an HTTP server of the test, over real PostgreSQL. No
// controller runs, so workspaces stay as the test makes them. Redis is away, so
// changes reach event streams by notifications of PostgreSQL.
type harness struct {
	t      *testing.T
	server *httptest.Server
	store  *store.Store
	db     *pgx.Conn
	auth   *auth.Auth
	hub    *events.Hub
}

// newHarness starts the API; the options may be changed before. Requests that the API
// hands on are answered with "next".
func newHarness(t *testing.T, change ...func(*api.Options)) *harness {
	t.Helper()
	t.Parallel()
	dsn := devenv.PostgreSQL(t)
	st, err := store.Open(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	nowhere := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = nowhere.Close() })

	in := &harness{
		t: t, store: st, db: db,
		auth: auth.New(st, auth.Options{SessionTTL: sessionTTL}),
		hub:  events.NewHub(nowhere, events.Prefixes{}, zap.NewNop()),
	}
	t.Cleanup(in.auth.Close)
	if _, err := in.auth.EnsureUser(t.Context(), "admin", testPassword, auth.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	in.listen(st)

	workspaces := service.New(st, service.Options{InstanceBackend: "docker", StorageBackend: "docker", Logger: zap.NewNop()})
	workspaces.SetLimits(service.Limits{PerUser: 2, Global: 100})
	options := api.Options{
		Site:    web.NewSite(web.DefaultDomain, "", nil),
		Service: workspaces, Auth: in.auth, Hub: in.hub,
		Health:    func() api.Health { return api.Health{NodeID: "here", Uptime: 90 * time.Second} },
		WaitReady: func(context.Context) error { return nil },
	}
	for _, f := range change {
		f(&options)
	}
	handler, err := api.New(options)
	if err != nil {
		t.Fatal(err)
	}
	in.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := handler.Serve(w, r, func(w http.ResponseWriter, _ *http.Request) error {
			_, err := io.WriteString(w, "next")
			return err
		})
		if err != nil { // the server's own error page
			http.Error(w, "error page: "+err.Error(), web.ProblemOf(err).Status)
		}
	}))
	t.Cleanup(in.server.Close)
	return in
}

// listen hands PostgreSQL's notifications to auth and the hub until the test ends.
func (in *harness) listen(st *store.Store) {
	in.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	listening, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		_ = st.Listen(ctx, func() { close(listening) }, func(n store.Notification) {
			if n.Channel == store.ChannelRevoked {
				in.auth.Revoked(n.SessionID)
				return
			}
			in.hub.Notify(n)
		})
	}()
	in.t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-listening:
	case <-time.After(wait.Timeout):
		in.t.Fatal("no connection for notifications")
	}
}

func (in *harness) exec(sql string, args ...any) {
	in.t.Helper()
	if _, err := in.db.Exec(in.t.Context(), sql, args...); err != nil {
		in.t.Fatal(err)
	}
}

// client is one browser or program.
type client struct {
	in     *harness
	host   string
	cookie string
}

func (in *harness) anyone() *client { return &client{in: in, host: "codehub.test:8080"} }

// signedIn adds a user, unless it is admin, and signs in.
func (in *harness) signedIn(name string) *client {
	in.t.Helper()
	if name != "admin" {
		if _, err := in.auth.AddUser(in.t.Context(), name, testPassword, auth.RoleUser); err != nil {
			in.t.Fatal(err)
		}
	}
	c := in.anyone()
	a := c.do("POST", "/api/v1/auth/login", map[string]any{"username": name, "password": testPassword})
	if a.StatusCode != http.StatusOK || len(a.Cookies()) != 1 {
		in.t.Fatalf("signing in: status %d, cookies %v: %s", a.StatusCode, a.Cookies(), a.body)
	}
	c.cookie = a.Cookies()[0].Value
	return c
}

type answer struct {
	*http.Response
	body []byte
}

// do sends a request; v is its body as JSON, or a string that is sent unchanged.
// Header lines follow as "Name: value".
func (c *client) do(method, path string, v any, header ...string) answer {
	c.in.t.Helper()
	res := c.open(c.in.t.Context(), method, path, v, header...)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		c.in.t.Fatal(err)
	}
	return answer{res, body}
}

func (c *client) open(ctx context.Context, method, path string, v any, header ...string) *http.Response {
	c.in.t.Helper()
	var body io.Reader
	switch v := v.(type) {
	case nil:
	case string:
		body = strings.NewReader(v)
	default:
		b, err := json.Marshal(v)
		if err != nil {
			c.in.t.Fatal(err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.host+path, body)
	if err != nil {
		c.in.t.Fatal(err)
	}
	if v != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.cookie != "" {
		req.AddCookie(&http.Cookie{Name: "session", Value: c.cookie})
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, c.in.server.Listener.Addr().String())
		},
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		c.in.t.Fatal(err)
	}
	return res
}

// create makes a workspace and returns its object.
func (c *client) create(name string) map[string]any {
	c.in.t.Helper()
	a := c.do("POST", "/api/v1/workspaces", map[string]any{"name": name})
	if a.StatusCode != http.StatusCreated {
		c.in.t.Fatalf("creating a workspace: status %d: %s", a.StatusCode, a.body)
	}
	return a.object(c.in.t)
}

func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.body, &v); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return v
}

// problem checks that the answer is a problem of this status and type.
func (a answer) problem(t *testing.T, status int, kind string) map[string]any {
	t.Helper()
	if a.StatusCode != status || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got status %d, %s: %s; want %d, a problem", a.StatusCode, a.Header.Get("Content-Type"), a.body, status)
	}
	p := a.object(t)
	if p["type"] != "urn:codehub:problem:"+kind || p["status"] != float64(status) || p["title"] == "" {
		t.Fatalf("got %s, want the type %s", a.body, kind)
	}
	return p
}

func workspacePath(w map[string]any) string { return fmt.Sprintf("/api/v1/workspaces/%s", w["id"]) }
