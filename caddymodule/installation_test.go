package codehub

import (
	"context"
	"encoding/json"
	"maps"
	"net"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/devenv"
)

// installation is Caddy in this process, with CodeHub's API and a real PostgreSQL. There is no leader, so workspaces
// stay as the test makes them. Redis, the object store and the engine are not available. These tests are about Caddy;
// the API's own are in package api.
type installation struct {
	t      *testing.T
	dir    string // of the sockets
	socket string // of the configuration that runs
	loads  int
	listen []string       // addresses besides the socket
	app    map[string]any // the app's settings
	routes []map[string]any
	errors []map[string]any // routes for errors
	server map[string]any   // the server's other settings
	log    string           // the file for Caddy's log, or none
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
		t: t, db: db, dir: t.TempDir(),
		app: map[string]any{
			"database": dsn, "redis": "redis://127.0.0.1:1", "admin_password": testPassword, "main_host": apitest.Host, "workspace_url": "path",
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

// load makes Caddy run the current settings. Every configuration has a socket of its own. After a reload, it takes some
// time until Caddy closes the socket of the former configuration. If both configurations shared a socket, the former
// one would get some of the requests during that time.
func (in *installation) load() error {
	in.loads++
	socket := filepath.Join(in.dir, strconv.Itoa(in.loads))
	srv := map[string]any{
		"listen": append([]string{"unix/" + socket}, in.listen...), "routes": in.routes, "errors": map[string]any{"routes": in.errors},
		"automatic_https": map[string]any{"disable": true},
	}
	maps.Copy(srv, in.server)
	log := map[string]any{"output": "discard"}
	if in.log != "" {
		log = map[string]any{"output": "file", "filename": in.log}
	}
	config, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"writer": log}}},
		"apps": map[string]any{
			"codehub": in.app,
			"http":    map[string]any{"servers": map[string]any{"s": srv}},
		},
	})
	if err != nil {
		in.t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		return err
	}
	in.socket = socket
	return nil
}

// coordinator returns the coordinator that is in use. There must be only one.
func (in *installation) coordinator() *coordinator.Coordinator {
	in.t.Helper()
	var found *coordinator.Coordinator
	coordinators.Range(func(_, v any) bool { found = v.(*shared).coordinator; return true })
	if found == nil || heldCoordinators() != 1 {
		in.t.Fatalf("%d coordinators are held, want 1", heldCoordinators())
	}
	return found
}

func (in *installation) anyone() *apitest.Client {
	return &apitest.Client{T: in.t, Host: apitest.Host, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", in.socket)
	}}
}

// signedIn adds a user, unless it is admin, and signs in.
func (in *installation) signedIn(name string) *apitest.Client {
	in.t.Helper()
	if name != "admin" {
		if _, err := in.coordinator().Auth.AddUser(in.t.Context(), name, testPassword, "user"); err != nil {
			in.t.Fatal(err)
		}
	}
	c := in.anyone()
	c.SignIn(name, testPassword)
	return c
}

func heldCoordinators() int {
	n := 0
	coordinators.Range(func(any, any) bool { n++; return true })
	return n
}
