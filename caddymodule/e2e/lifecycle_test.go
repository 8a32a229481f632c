package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/devenv/collector"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestLifecycle follows a workspace through its phases over HTTP. One workspace is reached by path, and another by
// host. The workspace runs, goes to standby, wakes up, and is archived, restored and deleted. The metrics record it.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	traced := collector.New(t)
	in := install(t, append(traced.Env(), "CODEHUB_WORKSPACE_URL=path", "COORDINATOR_NODE_ID=leads")...) // where both addresses serve browsers
	me := in.admin(t)
	second := in.traced(t, traced)
	for _, a := range addresses {
		t.Run(a.name, func(t *testing.T) { testLifecycle(t, in, second, traced, me, a) })
	}
	metricsTellLives(t, float64(len(addresses)), in, second)
}

func testLifecycle(t *testing.T, in, second *installation, traced *collector.Collector, me *user, a address) {
	w := me.create(t, "reached by "+a.name)
	base := a.base(in, w.ID)
	me.navigate(t, base)

	conn := me.dial(t, base+"echo")
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("안녕")); err != nil {
		t.Fatal(err)
	}
	if _, b, err := conn.Read(t.Context()); err != nil || string(b) != "안녕" {
		t.Fatalf("the WebSocket echoed %q, %v", b, err)
	}
	if out := me.run(t, base, "echo 파일 > 'my file' && ln 'my file' link && cat link"); out != "파일" {
		t.Fatalf("the terminal printed %q", out)
	}

	me.setDesiredState(t, w.ID, "STANDBY")
	me.awaitPhase(t, w.ID, "STANDBY")
	if s := in.container(t, w.ID); s != "" || !in.hasVolume(t, w.ID) {
		t.Fatalf("in standby: container %q, volume %v", s, in.hasVolume(t, w.ID))
	}
	subresourceDoesNotWake(t, me, w, base)
	navigationWakes(t, me, w, base)
	if out := me.run(t, base, "cat 'my file'"); out != "파일" {
		t.Fatalf("after standby the file holds %q", out)
	}

	me.setDesiredState(t, w.ID, "ARCHIVED")
	w = me.awaitPhase(t, w.ID, "ARCHIVED")
	if in.hasVolume(t, w.ID) || in.container(t, w.ID) != "" {
		t.Fatal("archived, but its volume or container still exists")
	}
	want := "archives/" + w.ArchiveKey
	if got := strings.Join(in.objects(t, w.ID), " "); got != want+" "+want+".meta" {
		t.Fatalf("in the object store: %s, want %s and its .meta", got, want)
	}
	// A program's request is held until the workspace is restored, started and answering. Here the request is sent to
	// the process that does not lead.
	if res, body := me.get(t, a.base(second, w.ID)+"healthz", program); res.StatusCode != http.StatusOK || body != "ok\n" {
		t.Fatalf("a program at an archived workspace: %s %q", res.Status, body)
	}
	oneTrace(t, traced, w.ID, in, second)
	// The shell writes its history file by itself, so this file does not count.
	if out := me.run(t, base, "cat link && stat -c %h link && ls -A | grep -v history"); out != "파일\n2\nlink\nmy file" {
		t.Fatalf("after the restore the home holds %q", out)
	}

	me.call(t, http.MethodDelete, "/api/v1/workspaces/"+w.ID, nil, http.StatusAccepted, nil)
	wait.For(t, "container and volume are gone", func() error { return in.leftovers(t, w.ID) })
	if res, _ := me.get(t, base, navigation); res.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted workspace answers %s", res.Status)
	}
}

// subresourceDoesNotWake checks that a request that an open page makes by itself does not wake a workspace in standby
// (SPEC 8).
func subresourceDoesNotWake(t *testing.T, me *user, w workspace, base string) {
	t.Helper()
	res, _ := me.get(t, base+"healthz", subresource)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("a subresource of a workspace in standby: %s, Retry-After %q", res.Status, res.Header.Get("Retry-After"))
	}
	if now := me.workspace(t, w.ID); now.Phase != "STANDBY" || now.DesiredState != "STANDBY" {
		t.Errorf("a subresource woke the workspace: %+v", now)
	}
}

// navigationWakes checks that a navigation to a workspace in standby gets the wake page
// and wakes it (SPEC 8).
func navigationWakes(t *testing.T, me *user, w workspace, base string) {
	t.Helper()
	res, body := me.get(t, base, navigation)
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(res.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("the wake page: %s %s\n%s", res.Status, res.Header.Get("Content-Type"), body)
	}
	me.awaitPhase(t, w.ID, "RUNNING")
	wait.For(t, "the address shows the workspace", func() error { return me.showsTerminal(t, base) })
}
