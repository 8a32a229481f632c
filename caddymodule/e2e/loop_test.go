package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// TestLoop is the main job over HTTP: a workspace runs, falls asleep, wakes, is
// archived, comes back, and is deleted, by its path and by its host.
func TestLoop(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	for _, a := range addresses {
		t.Run(a.name, func(t *testing.T) { loop(t, in, me, a) })
	}
}

func loop(t *testing.T, in *installation, me *person, a address) {
	w := me.create(t, "loop by "+a.name)
	base := a.base(in, w.ID)
	me.enter(t, base)

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

	me.wish(t, w.ID, "STANDBY")
	me.await(t, w.ID, "STANDBY")
	if s := in.container(t, w.ID); s != "" || !in.hasVolume(t, w.ID) {
		t.Fatalf("asleep: container %q, volume %v", s, in.hasVolume(t, w.ID))
	}
	sleepsOn(t, me, w, base)
	wakes(t, me, w, base)

	me.wish(t, w.ID, "ARCHIVED")
	w = me.await(t, w.ID, "ARCHIVED")
	if in.hasVolume(t, w.ID) || in.container(t, w.ID) != "" {
		t.Fatal("archived, and its volume or container is still there")
	}
	want := "archives/" + w.ArchiveKey
	if got := strings.Join(in.objects(t, w.ID), " "); got != want+" "+want+".meta" {
		t.Fatalf("in the object store: %s, want %s and its .meta", got, want)
	}
	// A program is held until the workspace answers, restored and started.
	if res, body := me.get(t, base+"healthz", asProgram); res.StatusCode != http.StatusOK || body != "ok\n" {
		t.Fatalf("a program at an archived workspace: %s %q", res.Status, body)
	}
	// The shell's own history is none of ours.
	if out := me.run(t, base, "cat link && stat -c %h link && ls -A | grep -v history"); out != "파일\n2\nlink\nmy file" {
		t.Fatalf("after the restore the home holds %q", out)
	}

	me.call(t, http.MethodDelete, "/api/v1/workspaces/"+w.ID, nil, http.StatusAccepted, nil)
	eventually(t, "container and volume are gone", func() error {
		return in.leftovers(t, w.ID)
	})
	if res, _ := me.get(t, base, navigation); res.StatusCode != http.StatusNotFound {
		t.Errorf("a deleted workspace answers %s", res.Status)
	}
}

// sleepsOn: what an open tab sends by itself wakes nobody (SPEC 8).
func sleepsOn(t testing.TB, me *person, w item, base string) {
	t.Helper()
	res, _ := me.get(t, base+"healthz", background)
	if res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("a tab at a sleeping workspace: %s, Retry-After %q", res.Status, res.Header.Get("Retry-After"))
	}
	var now item
	me.call(t, http.MethodGet, "/api/v1/workspaces/"+w.ID, nil, http.StatusOK, &now)
	if now.Phase != "STANDBY" || now.DesiredState != "STANDBY" {
		t.Errorf("a tab woke the workspace: %+v", now)
	}
}

// wakes: a navigation gets the wake page and wakes; the file is there.
func wakes(t testing.TB, me *person, w item, base string) {
	t.Helper()
	res, body := me.get(t, base, navigation)
	if res.StatusCode != http.StatusBadGateway || !strings.Contains(res.Header.Get("Content-Type"), "text/html") {
		t.Fatalf("the wake page: %s %s\n%s", res.Status, res.Header.Get("Content-Type"), body)
	}
	me.await(t, w.ID, "RUNNING")
	eventually(t, "the address shows the workspace", func() error { return me.shows(t, base) })
	if out := me.run(t, base, "cat 'my file'"); out != "파일" {
		t.Fatalf("after the sleep the file holds %q", out)
	}
}
