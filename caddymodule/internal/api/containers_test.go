package api_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// containers are the test's containers.
type containers struct {
	*memory.Backend
	stats     backend.Stats
	err       error
	following atomic.Int64
	lines     atomic.Int64 // that Logs was called with
}

func (c *containers) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	c.lines.Add(int64(lines))
	return c.Backend.Logs(ctx, id, lines)
}

func (c *containers) Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error {
	c.following.Add(1)
	defer c.following.Add(-1)
	return c.Backend.Follow(ctx, id, lines, to)
}

func (c *containers) Stats(ctx context.Context, id workspace.ID) (backend.Stats, error) {
	if _, err := c.Backend.Stats(ctx, id); err != nil {
		return backend.Stats{}, err
	}
	return c.stats, c.err
}

func (c *containers) HomeDisk(context.Context) int64 { return 1000 }

// ImageSizes knows only the first size.
func (c *containers) ImageSizes(_ context.Context, references []string) map[string]int64 {
	return map[string]int64{references[0]: 1.5e9}
}

// newContainers starts the API with the test's containers.
func newContainers(t *testing.T, change ...func(*api.Options)) (*harness, *containers) {
	t.Helper()
	engine := memory.NewEngine()
	t.Cleanup(engine.Close)
	c := &containers{Backend: engine.Backend("test")}
	return newHarness(t, append(change, func(o *api.Options) { o.Containers = c })...), c
}

// run creates a workspace with a running container.
func (c *containers) run(t *testing.T, owner *apitest.Client) (w map[string]any, id workspace.ID) {
	t.Helper()
	w = owner.Create("one")
	id = workspace.ID(w["id"].(string))
	if err := c.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context(), backend.StartSpec{ID: id}); err != nil {
		t.Fatal(err)
	}
	return w, id
}

func TestTheLogsOfAWorkspace(t *testing.T) {
	in, c := newContainers(t)
	ann, bob, admin := in.signedIn("ann"), in.signedIn("bob"), in.signedIn("admin")
	none := ann.Create("none")
	ann.Do("GET", apitest.WorkspacePath(none)+"/logs", nil).Problem(t, 409, "not-running")
	ann.Do("GET", apitest.WorkspacePath(none)+"/logs?follow=true", nil).Problem(t, 409, "not-running")
	w, id := c.run(t, ann)
	path := apitest.WorkspacePath(w) + "/logs"
	for n := range 300 {
		c.Print(id, fmt.Sprintf("line %d\n", n))
	}
	c.Print(id, "<script>\x1b[31m한글\n")
	a := ann.Do("GET", path, nil)
	if a.StatusCode != 200 || a.Header.Get("Content-Type") != "text/plain; charset=utf-8" || a.Header.Get("X-Content-Type-Options") != "nosniff" ||
		!strings.HasPrefix(string(a.Text), "line 101\n") || !strings.HasSuffix(string(a.Text), "<script>\x1b[31m한글\n") {
		t.Errorf("status %d, %v\n%s", a.StatusCode, a.Header, a.Text)
	}
	if a := ann.Do("GET", path+"?lines=2", nil); string(a.Text) != "line 299\n<script>\x1b[31m한글\n" {
		t.Errorf("two lines: %q", a.Text)
	}
	if a := ann.Do("HEAD", path+"?follow=true", nil); a.StatusCode != 200 || len(a.Text) != 0 {
		t.Errorf("HEAD: status %d, %q", a.StatusCode, a.Text)
	}
	for _, bad := range []string{"?lines=0", "?lines=10001", "?lines=x", "?follow=maybe"} {
		ann.Do("GET", path+bad, nil).Problem(t, 400, "invalid-field")
	}
	for name, other := range map[string]*apitest.Client{"another user": bob, "an administrator": admin} {
		if a := other.Do("GET", path, nil); a.StatusCode != 404 {
			t.Errorf("%s: status %d", name, a.StatusCode)
		}
	}
	in.anyone().Do("GET", path, nil).Problem(t, 401, "not-signed-in")
}

func TestLogsAreFollowed(t *testing.T) {
	in, c := newContainers(t)
	ann := in.signedIn("ann")
	w, id := c.run(t, ann)
	path := apitest.WorkspacePath(w) + "/logs?follow=true&lines=1"
	c.Print(id, "before\nlast\n")
	follow := func() (next func(want string), end func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
		t.Cleanup(cancel)
		res := ann.Open(ctx, "GET", path, nil)
		t.Cleanup(func() { _ = res.Body.Close() })
		if res.StatusCode != 200 || res.Header.Get("X-Accel-Buffering") != "no" {
			t.Fatalf("status %d, %v", res.StatusCode, res.Header)
		}
		r := bufio.NewReader(res.Body)
		return func(want string) {
				t.Helper()
				if got, err := r.ReadString('\n'); got != want {
					t.Fatalf("got %q, %v; want %q", got, err, want)
				}
			}, func() {
				t.Helper()
				if rest, err := io.ReadAll(r); len(rest) != 0 || err != nil {
					t.Errorf("at the end: %q, %v", rest, err)
				}
			}
	}
	first, firstEnd := follow()
	first("last\n")
	c.Print(id, "\xff and \xed\x95")
	c.Print(id, "\x9c\n")
	first("\ufffd and 한\n")

	// The client leaves.
	ctx, leave := context.WithCancel(t.Context())
	res := ann.Open(ctx, "GET", path, nil)
	leave()
	_ = res.Body.Close()
	wait.Until(t, "nobody follows for who has left", func() bool { return c.following.Load() == 1 })

	// The session has too many streams.
	for range 63 {
		openStream(t, ann)
	}
	ann.Do("GET", path, nil).Problem(t, 429, "too-many-streams")

	c.Exit(id, 3, time.Second, "exiting\n")
	first("exiting\n")
	firstEnd()
	if n := c.lines.Load(); n != 0 {
		t.Errorf("%d lines were read once more", n)
	}
	openStream(t, ann).until("heartbeat", nil)
}

func TestFollowingLogsEndsWithTheSessionAndTheServer(t *testing.T) {
	stopping := make(chan struct{})
	in, c := newContainers(t, func(o *api.Options) { o.Stopping = stopping })
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	for _, client := range []*apitest.Client{ann, bob} {
		w, _ := c.run(t, client)
		res := client.Open(t.Context(), "GET", apitest.WorkspacePath(w)+"/logs?follow=true", nil)
		defer res.Body.Close()
	}
	wait.Until(t, "both follow", func() bool { return c.following.Load() == 2 })
	if a := ann.Do("POST", "/api/v1/auth/logout", nil); a.StatusCode != 204 {
		t.Fatalf("status %d", a.StatusCode)
	}
	wait.Until(t, "nobody follows after the sign-out", func() bool { return c.following.Load() == 1 })
	close(stopping)
	wait.Until(t, "nobody follows", func() bool { return c.following.Load() == 0 })
}

func TestTheStatsOfAWorkspace(t *testing.T) {
	in, c := newContainers(t, func(o *api.Options) { o.Site = site.New(site.Options{MainHost: apitest.Host, PerHost: true}) })
	ann, bob, admin := in.signedIn("ann"), in.signedIn("bob"), in.signedIn("admin")
	none := ann.Create("none")
	ann.Do("GET", apitest.WorkspacePath(none)+"/stats", nil).Problem(t, 409, "not-running")
	w, _ := c.run(t, ann)
	path := apitest.WorkspacePath(w) + "/stats"
	in.exec("UPDATE workspaces SET endpoint = '10.0.0.1:8080', home_bytes = 500, home_files = 5, home_measured_at = now() WHERE id = $1", w["id"])
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c.stats = backend.Stats{
		At: at, CPU: 1500 * time.Millisecond, Cores: 2, Memory: 100, MemoryLimit: 200, Processes: 3, Ports: []int{3000, 8080},
	}
	want := map[string]any{
		"at": "2026-01-02T03:04:05Z", "cpu": map[string]any{"seconds": 1.5, "limit_cores": 2.0},
		"memory":    map[string]any{"used_bytes": 100.0, "limit_bytes": 200.0},
		"home":      map[string]any{"used_bytes": 500.0, "limit_bytes": nil, "disk_free_bytes": 1000.0},
		"processes": 3.0,
	}
	for _, client := range []*apitest.Client{ann, admin} {
		got := client.Do("GET", path, nil).Object(t)
		ports := got["ports"].([]any)
		delete(got, "ports")
		if !reflect.DeepEqual(got, want) || len(ports) != 1 {
			t.Errorf("got %v, ports %v; want %v", got, ports, want)
		} else if p := ports[0].(map[string]any); p["port"] != 3000.0 || !strings.Contains(fmt.Sprint(p["url"]), fmt.Sprintf("://3000--ws-%s.", w["id"])) {
			t.Errorf("the port %v", p)
		}
	}
	c.stats = backend.Stats{At: at, CPU: -1, Memory: -1, Processes: -1}
	got := ann.Do("GET", path, nil).Object(t)
	for _, null := range []any{got["processes"], got["cpu"].(map[string]any)["seconds"], got["cpu"].(map[string]any)["limit_cores"], got["memory"].(map[string]any)["used_bytes"]} {
		if null != nil {
			t.Errorf("what is not known: %v", got)
		}
	}
	if ports, ok := got["ports"].([]any); !ok || len(ports) != 0 {
		t.Errorf("ports that are not known: %v", got)
	}
	if a := bob.Do("GET", path, nil); a.StatusCode != 404 {
		t.Errorf("another user: status %d", a.StatusCode)
	}
	c.err = errors.New("the engine does not answer")
	ann.Do("GET", path, nil).Problem(t, 503, "engine-away")
	// In a process without containers, none runs.
	other := in.another()
	client := other.anyone()
	client.Cookie = ann.Cookie
	client.Do("GET", path, nil).Problem(t, 409, "not-running")
	client.Do("GET", apitest.WorkspacePath(w)+"/logs", nil).Problem(t, 409, "not-running")
}
