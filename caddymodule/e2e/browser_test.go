package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestBrowser follows a workspace as its user sees it in a browser. The user signs in, creates the workspace, works in
// it, comes back after standby and after archiving, and deletes it.
func TestBrowser(t *testing.T) {
	t.Parallel()
	in := install(t, "TTL_STANDBY_SECONDS=12", "TTL_ARCHIVE_SECONDS=8")
	me := in.admin(t)
	b := openTab(t)

	b.do("opening it", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.click("a new one", `#new`)
	b.fill("a name", `#create-name`, "from the browser")
	b.click("creating a workspace", `#create`)
	b.do("seeing it run without a reload", chromedp.WaitVisible(chromedp.CSS(`[data-workspace][data-phase=RUNNING]`)))
	id := read(b, "its id", chromedp.AttributeValue(chromedp.CSS(`[data-workspace]`), "data-workspace")).Value
	href := read(b, "its address", chromedp.AttributeValue(chromedp.CSS(`[data-workspace] a.open`), "href")).Value
	address := in.url(href)
	if strings.HasPrefix(href, "http") {
		address = href
	}

	b.do("opening it", chromedp.Navigate(address))
	b.inTerminal("echo kept > file; echo s$((1+1))d", "s2d")

	// A page that is open but unused does not keep its workspace running.
	me.awaitPhase(t, id, "STANDBY")
	b.documents()
	b.do("opening it in standby", chromedp.Navigate(address))
	b.inTerminal("cat file", "kept")
	b.wokeUp()

	b.do("leaving", chromedp.Navigate(in.url("/")))
	w := me.awaitPhase(t, id, "ARCHIVED")
	if keys := in.objects(t, id); in.hasVolume(t, id) || len(keys) != 2 {
		t.Errorf("archived (%s) with volume %v and objects %v", w.ArchiveKey, in.hasVolume(t, id), keys)
	}
	b.documents()
	b.do("opening the archived one", chromedp.Navigate(address))
	b.inTerminal("cat file", "kept")
	b.wokeUp()

	// It is not put to sleep while it is being deleted.
	me.keepAwake(t, id, 1)
	card := fmt.Sprintf(`[data-workspace="%s"]`, id)
	b.do("back to the list", chromedp.Navigate(in.url("/")))
	b.do("it is at rest", chromedp.WaitVisible(chromedp.CSS(card+`[data-operation=NONE]`)))
	b.choose(card, "delete")
	b.click("it runs: that is asked", `#confirm-ok`)
	b.do("the card goes", chromedp.WaitNotPresent(chromedp.CSS(card)))
	wait.For(t, "container and volume are gone", func() error { return in.leftovers(t, id) })
}
