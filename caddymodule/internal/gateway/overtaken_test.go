package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// putToSleep puts the workspace to sleep during the wake-up, as its owner would. From then on, the service layer
// refuses to grant this wake-up again.
func (h *harness) putToSleep() {
	h.t.Helper()
	h.Refuse(service.ErrOvertaken)
	h.Change(one, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredStandby, workspace.OpNone })
}

// starting grants the wake-up of the workspace, which then makes no progress because it waits for its image.
func (h *harness) starting() {
	h.t.Helper()
	wait.Until(h.t, "the workspace is woken", h.Woken)
	h.Change(one, func(r *store.Route) {
		r.Desired, r.Waiting = workspace.DesiredRunning, &workspace.Waiting{Reason: workspace.WaitPullingImage}
	})
}

// TestALaterSleepEndsTheWait checks that a program, and a page that was just opened, stop waiting for a workspace when
// its owner puts it to sleep. Neither wakes the workspace again; the next request does.
func TestALaterSleepEndsTheWait(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.PageWait = 10 * time.Second })
	h.Change(one, func(*store.Route) {})
	held := h.getting(onePath+"/x", asAlice, asProgram)
	h.WaitHeld(1)
	h.starting()
	h.putToSleep()
	got := <-held
	if got.StatusCode != 409 || !strings.Contains(got.body, "problem:asleep") || !strings.Contains(got.body, "was put to sleep") || got.Header.Get("Retry-After") != "" {
		t.Errorf("the program gets %d %v %s", got.StatusCode, got.Header, got.body)
	}
	page := h.get(503, onePath+"/", asAlice, asPage)
	if !strings.Contains(page.body, `action="`+onePath+`/.codehub/wake"`) || !strings.Contains(page.body, "was put to sleep while") {
		t.Errorf("the page is\n%s", page.body)
	}
	before := len(h.Actors())
	h.Refuse(nil)
	next := h.getting(onePath+"/x", asAlice, asProgram)
	wait.Until(t, "the next request wakes it", func() bool { return len(h.Actors()) > before })
	h.Run(one, gatewaytest.Echo(t))
	if got := <-next; got.StatusCode != 200 {
		t.Errorf("got %d", got.StatusCode)
	}
}

// TestAPollNeitherWakesNorHidesASleep: the page that polls learns that the workspace sleeps.
func TestAPollNeitherWakesNorHidesASleep(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.PageWait = 0 })
	h.Change(one, func(*store.Route) {})
	h.get(502, onePath+"/", asAlice, asPage)
	h.starting()
	if s := h.asked(); !s.Waking {
		t.Fatalf("the status is %+v", s)
	}
	h.putToSleep()
	wait.Until(t, "the wake-up has ended", func() bool { return h.Wakes.InProgress(one, time.Minute) == nil })
	tried := len(h.Actors())
	h.Refuse(nil)
	for range 3 {
		if s := h.asked(); s.Waking || s.Stage != progress.StageAsleep {
			t.Errorf("the status is %+v", s)
		}
	}
	if n := len(h.Actors()); n != tried || h.Desired(one) != workspace.DesiredStandby {
		t.Errorf("polling has asked %d times for %s", n-tried, h.Desired(one))
	}
}

// TestTheWakePageBecomesThatOfASleep checks what the wake page does when the workspace is put to sleep meanwhile. It
// becomes the page of a sleeping workspace, and sends no request that could wake the workspace. The button on that page
// then wakes it.
func TestTheWakePageBecomesThatOfASleep(t *testing.T) {
	b := openEditor(t)
	b.asleep()
	_, port, _ := strings.Cut(strings.TrimPrefix(b.url, "http://"), ":")
	b.do("opening the workspace", chromedp.Navigate("http://"+gatewaytest.OneHost+":"+port+"/deep?x#part"), chromedp.WaitVisible(chromedp.CSS(`#wake`)))
	b.starting()
	b.putToSleep()
	b.do("the button", chromedp.WaitVisible(chromedp.CSS(`#asleep button`)))
	b.picture("put-to-sleep")
	if seen := js[string](b, `document.querySelector("#wake").innerText`); !strings.Contains(seen, "is asleep") || strings.Contains(seen, "Waking") {
		t.Errorf("the page says %q", seen)
	}
	tried := len(b.Actors())
	b.Refuse(nil)
	b.do("pressing the button", chromedp.Click(chromedp.CSS(`#asleep button`)), chromedp.WaitVisible(chromedp.CSS(`#steps`)))
	if len(b.Actors()) == tried || b.Desired(one) != workspace.DesiredRunning {
		t.Errorf("the button does not wake it: %s", b.Desired(one))
	}
	if at := js[string](b, `location.pathname + location.search + location.hash`); at != "/deep?x#part" {
		t.Errorf("the button leads to %s", at)
	}
}
