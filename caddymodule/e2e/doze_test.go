package e2e

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/wait"
)

// dozing are settings with which workspaces doze soon after their last use. They never sleep, even if this host is
// short of memory.
var dozing = []string{"TTL_DOZE_SECONDS=4", "TTL_STANDBY_SECONDS=3600", "CODEHUB_MEMORY_PRESSURE=off"}

// frozen reports whether the engine has frozen the workspace's container.
func (in *installation) frozen(t testing.TB, id string) bool {
	t.Helper()
	c, err := in.docker.ContainerInspect(t.Context(), "ws-"+id)
	if err != nil {
		t.Fatal(err)
	}
	return c.State.Paused
}

// awaitFrozen waits until the workspace dozes, or resumes.
func (in *installation) awaitFrozen(t testing.TB, id string, want bool) {
	t.Helper()
	wait.For(t, "the container freezes or goes on", func() error {
		if got := in.frozen(t, id); got != want {
			return errors.New("it does not")
		}
		return nil
	})
}

// TestDoze: an idle workspace is frozen, with everything that runs in it. It resumes where it was when a person uses
// its page, when a request arrives, and when a message arrives on a connection that was open before (SPEC 6).
func TestDoze(t *testing.T) {
	t.Parallel()
	in := install(t, dozing...)
	me := in.admin(t)
	w := me.create(t, "dozes")
	b := openTab(t)
	b.do("opening it", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("the list is shown", chromedp.WaitVisible(chromedp.CSS(`[data-workspace]`)))
	b.do("opening it", chromedp.Navigate(byPath.base(in, w.ID)),
		chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)),
		chromedp.Focus(chromedp.CSS(`.xterm-helper-textarea`)))
	b.inTerminal("VALUE=kept; echo is$VALUE", "iskept")
	in.awaitFrozen(t, w.ID, true)
	if got := me.workspace(t, w.ID); got.Phase != "RUNNING" {
		t.Errorf("while it dozes it is %s", got.Phase)
	}
	wait.For(t, "the tab says so", func() error {
		if said := read(b, "what the tab says", chromedp.Evaluate[string](`document.querySelector("codehub-notice")?.shadowRoot.textContent || ""`)); said == "" {
			return errors.New("it says nothing")
		}
		return nil
	})
	b.documents()
	b.inTerminal("echo still$VALUE", "stillkept")
	if s := b.documents(); len(s) != 0 {
		t.Errorf("the page was loaded again: %v", s)
	}

	in.awaitFrozen(t, w.ID, true)
	if res, body := me.get(t, byPath.base(in, w.ID)+"healthz", program); res.StatusCode != http.StatusOK {
		t.Errorf("a program's request: %s %s", res.Status, body)
	}
	in.awaitFrozen(t, w.ID, false)

	messages := me.dial(t, me.enter(t, w.ID)+"echo")
	in.awaitFrozen(t, w.ID, true)
	if err := messages.Write(t.Context(), websocket.MessageText, []byte("there")); err != nil {
		t.Fatal(err)
	}
	if _, got, err := messages.Read(t.Context()); err != nil || string(got) != "there" {
		t.Errorf("the answer on a connection that was open before is %q, %v", got, err)
	}
	var opened struct {
		Items []struct {
			Actor struct{ Kind, Name, Through string }
		}
	}
	me.call(t, "GET", "/api/v1/admin/audit?limit=1&action=workspace.open&workspace="+w.ID, nil, http.StatusOK, &opened)
	if len(opened.Items) != 1 || opened.Items[0].Actor.Kind != "user" || opened.Items[0].Actor.Name != "admin" || opened.Items[0].Actor.Through != "page" {
		t.Errorf("the audit says that %+v had it go on", opened.Items)
	}

	// Now it sleeps, and is deleted while asleep.
	in.awaitFrozen(t, w.ID, true)
	me.setDesiredState(t, w.ID, "STANDBY")
	me.awaitPhase(t, w.ID, "STANDBY")
}

// TestNothingStaysFrozen: when the gateway or the engine ends, no workspace that should run stays frozen.
func TestNothingStaysFrozen(t *testing.T) {
	t.Parallel()
	in := install(t, dozing...)
	me := in.admin(t)
	w := me.create(t, "dozes")
	in.awaitFrozen(t, w.ID, true)
	in.kill()
	in.start(t)
	began := time.Now()
	if res, body := me.get(t, byPath.base(in, w.ID)+"healthz", program); res.StatusCode != http.StatusOK {
		t.Errorf("after %s: %s %s", time.Since(began), res.Status, body)
	}
}

// TestAPauseByHandIsNoticed pauses a container by hand and unpauses it. The process must notice both within a second:
// from the engine's events, and not only at its next full observation (SPEC 5).
func TestAPauseByHandIsNoticed(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	w := me.create(t, "paused")
	me.awaitPhase(t, w.ID, "RUNNING")
	paused := func(want bool) func() bool {
		return func() bool {
			var got struct {
				Conditions map[string]struct{ Reason string }
			}
			me.call(t, "GET", "/api/v1/workspaces/"+w.ID, nil, http.StatusOK, &got)
			return (got.Conditions["infra.container_ready"].Reason == "ContainerPaused") == want
		}
	}
	wait.Until(t, "it runs", paused(false))
	noticed := func(what string, by func() error, want bool) {
		t.Helper()
		began := time.Now()
		if err := by(); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, what, paused(want))
		if took := time.Since(began); took > 5*time.Second { // an idle look comes after 15 s; a busy machine takes longer than a second
			t.Errorf("%s is noticed after %s", what, took)
		} else {
			t.Logf("%s is noticed after %s", what, took.Round(time.Millisecond))
		}
	}
	for range 4 {
		noticed("a pause", func() error { return in.docker.ContainerPause(t.Context(), "ws-"+w.ID) }, true)
		noticed("its end", func() error { return in.docker.ContainerUnpause(t.Context(), "ws-"+w.ID) }, false)
	}
}
