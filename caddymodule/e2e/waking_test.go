package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/words"
)

// withoutScripts switches the tab's scripts off or on.
func (b *tab) withoutScripts(off bool) {
	b.t.Helper()
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: off}); err != nil {
		b.t.Fatal(err)
	}
}

// at waits until the tab shows the workspace's terminal at exactly this address.
func (b *tab) at(address string) {
	b.t.Helper()
	b.do("the terminal is shown", chromedp.WaitVisible(chromedp.CSS(`#terminal`)))
	if got := read(b, "the address", chromedp.Evaluate[string](`location.href`)); got != address {
		b.t.Errorf("the tab is at %s, want %s", got, address)
	}
}

// comesTo waits until the tab is at exactly this address. The page's answer can be seen before the tab shows its
// address.
func (b *tab) comesTo(address string) {
	b.t.Helper()
	wait.For(b.t, "the tab comes to "+address, func() error {
		if got := read(b, "the address", chromedp.Location()); got != address {
			return errors.New(got)
		}
		return nil
	})
}

// TestOneAddressFromArchivedToRunning: a person opens the address of an archived workspace, with a query and a
// fragment. After the sign-in, the ticket and the wake page, the same address shows the workspace, with and without
// scripts.
func TestOneAddressFromArchivedToRunning(t *testing.T) {
	t.Parallel()
	in := install(t, "CODEHUB_WORKSPACE_URL=path") // where both addresses serve browsers
	me := in.admin(t)
	w := me.create(t, "cs-path")
	archive := func() {
		me.setDesiredState(t, w.ID, "ARCHIVED")
		me.awaitPhase(t, w.ID, "ARCHIVED")
	}
	b := openTab(t)
	for _, a := range addresses {
		archive()
		address := a.base(in, w.ID) + "?folder=%2Fhome#line=7"
		b.documents()
		b.do("opening it", chromedp.Navigate(address))
		if a.name == byPath.name { // the other host gets its session from this one
			b.signIn("admin", in.password)
		}
		b.at(address)
		if !strings.Contains(fmt.Sprint(b.documents()), "502") {
			t.Errorf("%s: there was no wake page", a.name)
		}
	}
	// Without scripts, a page cannot reload itself if its address has a fragment, so this address has none.
	archive()
	address := byPath.base(in, w.ID) + "?folder=%2Fhome"
	b.withoutScripts(true)
	b.documents()
	b.do("opening it without scripts", chromedp.Navigate(address+"#line=7"))
	wait.For(t, "the page without scripts becomes the workspace", func() error {
		if s := b.documents(); len(s) == 0 || s[len(s)-1] != http.StatusOK {
			return fmt.Errorf("statuses %v", s)
		}
		return nil
	})
	b.withoutScripts(false)
	b.comesTo(address)
}

// TestWakePage: the page lists only the stages of this particular wake-up. The page is in the language that was chosen
// on the dashboard, even on a workspace's own host.
func TestWakePage(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	w := me.create(t, "cs-path")
	b := openTab(t)
	b.do("opening the dashboard", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("the dashboard's scripts run", chromedp.WaitVisible(chromedp.CSS(`#connection[data-state=live]`)))
	read(b, "the language switch", chromedp.Evaluate[bool](`((e) => { e.value = "ko"; return e.dispatchEvent(new Event("change")); })(document.getElementById("language"))`))
	me.setDesiredState(t, w.ID, "ARCHIVED")
	me.awaitPhase(t, w.ID, "ARCHIVED")
	address := me.enter(t, w.ID)
	b.do("opening it", chromedp.Navigate(address))
	b.at(address)
	if cookies := read(b, "the cookies", chromedp.Evaluate[string](`document.cookie`)); !strings.Contains(cookies, "codehub_lang=ko") {
		t.Errorf("on the workspace's own host the cookies are %q", cookies)
	}
	me.setDesiredState(t, w.ID, "ARCHIVED")
	me.awaitPhase(t, w.ID, "ARCHIVED")
	inKorean := navigation.Clone()
	inKorean.Set("Cookie", "codehub_lang=ko")
	_, page := me.get(t, address, inKorean)
	title := words.Of("wake.title", words.Values{"Name": "<bdi>cs-path</bdi>"}).In("ko")
	for _, want := range []string{`<html lang="ko"`, title, `data-stage="restoring"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if strings.Contains(page, `data-stage="creating"`) || strings.Contains(page, `data-stage="pulling"`) {
		t.Errorf("the page lists stages of another way:\n%s", page)
	}
	me.awaitPhase(t, w.ID, "RUNNING")
}

// TestLimitPage: a user at the limit opens another workspace. One click puts the running workspace to sleep and opens
// the wanted workspace at the complete address. It works in both modes, and without scripts.
func TestLimitPage(t *testing.T) {
	t.Parallel()
	in := install(t, "LIMITS_MAX_RUNNING_PER_USER=1", "CODEHUB_WORKSPACE_URL=path") // where both addresses serve browsers
	me := in.admin(t)
	wanted := me.create(t, "wanted")
	me.setDesiredState(t, wanted.ID, "STANDBY")
	me.awaitPhase(t, wanted.ID, "STANDBY")
	running := me.create(t, "running")
	b := openTab(t)
	b.do("opening the dashboard", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("the dashboard is shown", chromedp.WaitVisible(chromedp.CSS(`#new`)))
	for _, c := range []struct {
		address address
		scripts bool
	}{{byPath, true}, {byHost, true}, {byPath, false}} {
		to := c.address.base(in, wanted.ID) + "?x=1"
		if c.scripts {
			to += "#line=7"
		}
		b.do("opening it at the limit", chromedp.Navigate(to), chromedp.WaitVisible(chromedp.CSS(`form.leads-back button`)))
		if text := read(b, "the page", chromedp.Text(chromedp.CSS(`main`))); !strings.Contains(text, "No room for wanted") || !strings.Contains(text, "Put running to sleep and open wanted") {
			t.Errorf("the page says %s", text)
		}
		b.documents()
		b.withoutScripts(!c.scripts)
		b.click("putting the other to sleep", `form.leads-back button`)
		wait.For(t, "the wanted workspace is shown", func() error {
			if s := b.documents(); len(s) == 0 || s[len(s)-1] != http.StatusOK {
				return fmt.Errorf("statuses %v", s)
			}
			return nil
		})
		b.withoutScripts(false)
		b.comesTo(to)
		me.awaitPhase(t, running.ID, "STANDBY")
		// Swap back for the next round.
		me.setDesiredState(t, wanted.ID, "STANDBY")
		me.awaitPhase(t, wanted.ID, "STANDBY")
		me.setDesiredState(t, running.ID, "RUNNING")
		me.awaitPhase(t, running.ID, "RUNNING")
	}
	// When the API refuses a start, its answer says what the user can do.
	var problem struct {
		Running []struct{ ID, Name string } `json:"running"`
	}
	me.call(t, http.MethodPatch, "/api/v1/workspaces/"+wanted.ID, map[string]string{"desired_state": "RUNNING"}, http.StatusTooManyRequests, &problem)
	if len(problem.Running) != 1 || problem.Running[0].ID != running.ID || problem.Running[0].Name != "running" {
		t.Errorf("the problem names %+v", problem)
	}
}

// TestNothingThere: an address without a workspace gets a page for people and a problem for programs. The address of
// another user's workspace gives the same answer on the workspace's own host as on the main site.
func TestNothingThere(t *testing.T) {
	t.Parallel()
	in := install(t)
	w := in.admin(t).create(t, "mine")
	other, anonymous := in.addUser(t, "someone"), in.anonymous()
	for _, path := range []string{"/nothing", "/apis", "/a/b?c=d", "/assets/nothing.js", "/w"} {
		if res, body := anonymous.get(t, in.url(path), navigation); res.StatusCode != 404 || !strings.Contains(body, "찾을 수 없습니다") {
			t.Errorf("%s: a person gets %s\n%s", path, res.Status, body)
		}
		if res, body := anonymous.get(t, in.url(path), program); res.StatusCode != 404 || res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: a program gets %s\n%s", path, res.Status, body)
		}
	}
	for _, id := range []string{w.ID, unknown} {
		for _, a := range addresses {
			if res, body := other.navigate(t, a.base(in, id)); res.StatusCode != 404 || !strings.Contains(body, "찾을 수 없습니다") {
				t.Errorf("%s, %s: %s\n%s", id, a.name, res.Status, body)
			}
		}
	}
}
