package gateway

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// dozes is a gateway with a dozing workspace.
func dozes(t *testing.T, change ...func(*Options)) *harness {
	h := newHarness(t, change...)
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	h.get(200, onePath+"/", asAlice, asProgram)
	h.waitServed()
	h.Used(one) // a minute passes
	h.doze()
	return h
}

// doze lets the workspace doze.
func (h *harness) doze() {
	h.Change(one, func(r *store.Route) { r.DozeAt = time.Now() })
}

// dozing reports whether the workspace dozes.
func (h *harness) dozing() bool {
	e, _ := h.Table.Lookup(one)
	return e.State().Dozes()
}

// The rows are all the ways in which a person can request a dozing workspace, and the requests that its pages send by
// themselves.
func TestWhatWakesAWorkspaceThatDozes(t *testing.T) {
	for name, c := range map[string]struct {
		ask   func(h *harness)
		wakes bool
	}{
		"a navigation":                     {func(h *harness) { h.get(200, onePath+"/", asAlice, asPage) }, true},
		"a program":                        {func(h *harness) { h.get(200, onePath+"/", asAlice, asProgram) }, true},
		"a message on an open connection":  {func(h *harness) { h.Activity.Slot(one).Touch(metrics.ByMessage) }, true},
		"input in a page":                  {func(h *harness) { h.tell(`{"input":true}`) }, true},
		"who wants to stay":                {func(h *harness) { h.tell(`{"stay":true}`) }, true},
		"a page that loads itself":         {func(h *harness) { h.get(503, onePath+"/", asAlice, asPage, "Sec-Fetch-Site: same-origin") }, false},
		"a page that was loaded":           {func(h *harness) { h.tell(`{"hello":true}`) }, false},
		"the state that a page asks for":   {func(h *harness) { h.get(200, onePath+"/.codehub/presence", asAlice, asSubrequest) }, false},
		"the state that a wake page polls": {func(h *harness) { h.get(200, onePath+"/.codehub/status", asAlice, asSubrequest) }, false},
		"what another user sends":          {func(h *harness) { h.get(404, onePath+"/", asBob, asPage) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := dozes(t)
			c.ask(h)
			if c.wakes {
				wait.Until(t, "it goes on", func() bool { return h.Woken() && !h.dozing() })
			} else if h.Woken() || !h.dozing() || h.Wakes.WakeUps() != 0 {
				t.Error("it is woken")
			}
		})
	}
}

// TestAMessageWithoutAPlaceIsNoUse checks that a message to a dozing workspace does not count as use if the limit
// forbids waking the workspace. Otherwise the message would end the doze, and one workspace more than allowed would
// run.
func TestAMessageWithoutAPlaceIsNoUse(t *testing.T) {
	h := dozes(t)
	h.Refuse(&service.LimitError{Limit: 1})
	h.Activity.Slot(one).Touch(metrics.ByMessage)
	wait.Until(t, "it is refused", func() bool { return h.Woken() })
	if h.Used(one) || !h.dozing() {
		t.Error("it counts as use")
	}
	h.Refuse(nil)
	wait.Until(t, "another message has it go on", func() bool {
		h.Activity.Slot(one).Touch(metrics.ByMessage)
		return !h.dozing()
	})
}

// TestInputThatCountsNoMoreWakes checks reports of input that have come for hours without a pause. They may come from a
// script or from a person. So they no longer count as use, but they still wake the workspace now and then.
func TestInputThatCountsNoMoreWakes(t *testing.T) {
	h := newHarness(t)
	now := time.Now()
	h.gateway.tabs.Now = func() time.Time { return now }
	h.Run(one, gatewaytest.App(t, pageApp(t)))
	for end := now.Add(h.WorkCap()); !now.After(end); now = now.Add(9 * time.Minute) {
		h.tell(`{"tab":"A","input":true}`)
	}
	wakes := 0
	for range 30 {
		h.doze()
		h.Used(one)
		status := h.tell(`{"tab":"A","input":true}`)
		if h.Used(one) {
			t.Fatal("it counts as use")
		}
		if status == 429 {
			break
		}
		wakes++
		wait.Until(t, "it goes on", func() bool { return !h.dozing() && h.Wakes.InProgress(one, 0) == nil })
	}
	if wakes < 3 || wakes == 30 {
		t.Errorf("it was woken %d times", wakes)
	}
}

// TestWhatAPageSendsByItselfWaits checks that a request that a page sends by itself waits for a person's input. The
// report of that input gets through even if no more requests may be held.
func TestWhatAPageSendsByItselfWaits(t *testing.T) {
	h := dozes(t, func(o *Options) { o.PageWait = time.Minute })
	h.Wakes.SetMaxHeld(1, 1)
	waits := h.getting(onePath+"/x", asAlice, asSubrequest)
	h.WaitHeld(1)
	if h.Woken() {
		t.Fatal("it wakes the workspace")
	}
	if s := h.tell(`{"input":true}`); s != 200 {
		t.Errorf("the person gets %d", s)
	}
	if got := <-waits; got.StatusCode != 200 {
		t.Errorf("it gets %d: %s", got.StatusCode, got.body)
	}
}

// TestWhatAPageSendsByItselfWaitsForAMomentOnly, not for as long as a program.
func TestWhatAPageSendsByItselfWaitsForAMomentOnly(t *testing.T) {
	h := dozes(t, func(o *Options) { o.WakeTimeout = time.Hour; o.PageWait = 200 * time.Millisecond })
	got := h.get(504, onePath+"/x", asAlice, asSubrequest)
	if !strings.Contains(got.body, "problem:asleep") || got.Header.Get("Retry-After") == "" || h.Woken() {
		t.Errorf("nobody comes, and it gets %v: %s", got.Header, got.body)
	}
}

// TestAFewRequestsOfEachTabWaitForTheThaw checks that a few requests of each tab wait until the workspace resumes.
// Otherwise a page that polls its frozen application would get an error and end its session.
func TestAFewRequestsOfEachTabWaitForTheThaw(t *testing.T) {
	h := dozes(t, func(o *Options) { o.WakeTimeout = time.Hour; o.PageWait = time.Millisecond })
	h.Wakes.SetMaxHeld(1, 1)
	from := "Referer: " + h.url + onePath + "/app"
	h.tell(`{"tab":"A","hello":true}`, sameOrigin, from)
	var waiting []<-chan reply
	entry, _ := h.Table.Lookup(one)
	for n := int64(1); n <= 2; n++ {
		waiting = append(waiting, h.getting(onePath+"/l", asAlice, asSubrequest, from))
		wait.Until(t, "it waits", func() bool { return entry.PageRequests.Load() == n })
	}
	h.get(504, onePath+"/l", asAlice, asSubrequest, from)
	ctx, leave := context.WithCancel(t.Context())
	other := "Referer: " + h.url + onePath + "/other"
	h.tell(`{"tab":"B","hello":true}`, sameOrigin, other)
	r := gatewaytest.NewRequest("GET", h.url+onePath+"/l", asAlice, asSubrequest, other).WithContext(ctx)
	gone := make(chan error, 1)
	go func() {
		_, err := client.Do(r)
		gone <- err
	}()
	wait.Until(t, "that of another tab waits, too", func() bool { return entry.PageRequests.Load() == 3 })
	leave()
	if err := <-gone; err == nil {
		t.Error("it is answered")
	}
	wait.Until(t, "the end of the tab ends it", func() bool { return entry.PageRequests.Load() == 2 })
	if h.Woken() || h.Used(one) {
		t.Fatal("one of them wakes the workspace")
	}
	if s := h.tell(`{"input":true}`); s != 200 {
		t.Errorf("the person gets %d", s)
	}
	for _, c := range waiting {
		if got := <-c; got.StatusCode != 200 {
			t.Errorf("one that waits gets %d: %s", got.StatusCode, got.body)
		}
	}
}

// TestAPersonHasAConnectionLeft checks that, over HTTP/1.1, requests that wait for the workspace to resume do not take
// the browser's last connection.
func TestAPersonHasAConnectionLeft(t *testing.T) {
	h := dozes(t, func(o *Options) { o.PageWait = time.Millisecond })
	from := "Referer: " + h.url + onePath + "/app"
	h.tell(`{"tab":"A","hello":true}`, sameOrigin, from)
	entry, _ := h.Table.Lookup(one)
	entry.PageRequests.Add(sharedConnections) // streams that were open before
	h.get(504, onePath+"/l", asAlice, asSubrequest, from)
}

func TestATabIsToldThatItsWorkspaceDozes(t *testing.T) {
	h := dozes(t)
	ask := func() (s pageState) {
		if err := json.Unmarshal([]byte(h.get(200, onePath+"/.codehub/presence", asAlice, asSubrequest).body), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	h.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(time.Minute) })
	dozing := ask()
	if dozing.State != "dozing" || dozing.Run == "" || dozing.SleepIn == nil {
		t.Errorf("dozing: %+v", dozing)
	}
	h.Refuse(&service.LimitError{Scope: "user", Limit: 1})
	if s := h.tell(`{"input":true}`); s != 429 || !h.dozing() {
		t.Errorf("input at the limit: %d", s)
	}
	if h.Used(one) { // it would end the doze beyond the limit
		t.Error("input that was refused counts as a use")
	}
	h.Refuse(nil)
	wait.Until(t, "it goes on", func() bool { return h.tell(`{"input":true}`) == 200 })
	if s := ask(); s.State != "running" || s.Run != dozing.Run || s.Tag == dozing.Tag {
		t.Errorf("it goes on: %+v, before %+v", s, dozing)
	}
}
