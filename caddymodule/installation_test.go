package codehub

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/devenv"
)

// installation is Caddy in this process with CodeHub's API and real PostgreSQL, and
// without a leader: workspaces stay as the test makes them. Redis, the object store
// and the engine are away. Only what is about Caddy is tested here; the API's own
// tests are in package api.
type installation struct {
	t      *testing.T
	socket string
	app    map[string]any // the app's settings
	routes []map[string]any
	errors []map[string]any // routes for errors
	db     *pgx.Conn
}

const testPassword = "correct horse battery"

func install(t *testing.T) *installation {
	t.Helper()
	dsn := devenv.PostgreSQL(t)
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	if _, err := db.Exec(t.Context(), "SELECT pg_advisory_lock(12345)"); err != nil {
		t.Fatal(err)
	}
	in := &installation{
		t: t, db: db, socket: filepath.Join(t.TempDir(), "s"),
		app: map[string]any{
			"database": dsn, "redis": "redis://127.0.0.1:1", "admin_password": testPassword,
			"s3":     map[string]any{"endpoint": "http://127.0.0.1:1", "access_key": "a", "secret_key": "b"},
			"docker": map[string]any{"host": "unix:///nowhere/docker.sock"},
		},
		routes: []map[string]any{
			{"handle": []map[string]any{{"handler": "codehub_api"}}},
			{"handle": []map[string]any{{"handler": "static_response", "body": "next"}}},
		},
	}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
		if n := heldCoordinators(); n != 0 {
			t.Errorf("%d coordinators are still referred to at the end", n)
		}
	})
	return in
}

// load makes Caddy run the current settings.
func (in *installation) load() error {
	config, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"writer": map[string]any{"output": "discard"}}}},
		"apps": map[string]any{
			"codehub": in.app,
			"http": map[string]any{"servers": map[string]any{"s": map[string]any{
				"listen": []string{"unix/" + in.socket}, "routes": in.routes, "errors": map[string]any{"routes": in.errors},
				"automatic_https": map[string]any{"disable": true},
			}}},
		},
	})
	if err != nil {
		in.t.Fatal(err)
	}
	return caddy.Load(config, true)
}

// coordinator returns the only one that is referred to.
func (in *installation) coordinator() *coordinator.Coordinator {
	in.t.Helper()
	var found *coordinator.Coordinator
	coordinators.Range(func(_, v any) bool { found = v.(*shared).coordinator; return true })
	if found == nil || heldCoordinators() != 1 {
		in.t.Fatalf("%d coordinators are held, want 1", heldCoordinators())
	}
	return found
}

// client is one browser or program.
type client struct {
	in     *installation
	host   string
	cookie string
}

func (in *installation) anyone() *client { return &client{in: in, host: "codehub.test:8080"} }

// signedIn adds a user, unless it is admin, and signs in.
func (in *installation) signedIn(name string) *client {
	in.t.Helper()
	if name != "admin" {
		if _, err := in.coordinator().Auth().AddUser(in.t.Context(), name, testPassword, "user"); err != nil {
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

// do sends a request; v is its body as JSON. Header lines follow as "Name: value".
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
	if v != nil {
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
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", c.in.socket)
		},
	}
	res, err := transport.RoundTrip(req)
	// A listener that closes drops connections that it has not accepted yet, and Caddy
	// closes the old one some time after a reload.
	for range 3 {
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			break
		}
		if req.GetBody != nil {
			if req.Body, err = req.GetBody(); err != nil {
				c.in.t.Fatal(err)
			}
		}
		res, err = transport.RoundTrip(req)
	}
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

func heldCoordinators() int {
	n := 0
	coordinators.Range(func(any, any) bool { n++; return true })
	return n
}
