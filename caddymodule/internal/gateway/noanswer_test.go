package gateway

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/forward"
	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
)

func TestWorkspaceThatClosesTheConnection(t *testing.T) {
	h := newHarness(t)
	app := gatewaytest.App(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/later" {
			fmt.Fprint(rw, "part")
			_ = http.NewResponseController(rw).Flush()
		}
		if r.URL.Path != "/" {
			panic(http.ErrAbortHandler)
		}
	})
	h.Run(one, app)
	h.get(200, onePath+"/", asAlice)
	page := h.get(502, onePath+"/x?y", asAlice, asPage)
	if !strings.Contains(page.body, "gave no answer") || !strings.Contains(page.body, `href="`+onePath+`/x?y"`) {
		t.Errorf("page: %s", page.body)
	}
	for _, kind := range []string{asSubrequest, "Accept: */*"} {
		if got := h.get(502, onePath+"/x", asAlice, kind); !strings.Contains(got.body, "problem:no-answer") {
			t.Errorf("%s: %s", kind, got.body)
		}
	}
	// An answer that has begun is not continued with another one.
	if got, err := h.send("GET", onePath+"/later", "", asAlice, asPage); err == nil || got.body != "part" {
		t.Errorf("got %v %q", err, got.body)
	}
	h.get(200, onePath+"/", asAlice)
}

// TestRepeatedRequestIsDecidedAfresh checks a request that was held and then could not be passed on, because the dial
// failed. The result of that hold does not affect the next decision.
func TestRepeatedRequestIsDecidedAfresh(t *testing.T) {
	h := newHarness(t, func(o *Options) {
		o.Proxy = func(http.ResponseWriter, *http.Request, *route.State) error { return forward.ErrUnreachable }
	})
	h.Change(one, func(*store.Route) {})
	e, _ := h.Table.Find(t.Context(), one)
	req := &request{w: httptest.NewRecorder(), r: gatewaytest.NewRequest("GET", onePath+"/"), at: site.Address{WorkspaceHost: site.WorkspaceHost{ID: one}, Prefix: onePath}, entry: e}
	s := decision.Facts{Attempt: decision.WakeUpEnded}
	if done, err := h.gateway.forward(req, &s, e.State()); done || err != nil || !req.retried || s.Attempt != decision.NotTried {
		t.Errorf("after the first failed dial: %v, %v, %+v", done, err, s)
	}
	if done, err := h.gateway.forward(req, &s, e.State()); done || err != nil || s.Attempt != decision.Unreachable {
		t.Errorf("after the second: %v, %v, %+v", done, err, s)
	}
}

// TestWakeUpThatSucceededForAMoment checks a wake-up after which the application is soon gone again. A request that
// notices the success only after that stays held, and joins another wake-up.
func TestWakeUpThatSucceededForAMoment(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.WakeTimeout = time.Minute })
	app := gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	h.Run(one, app)
	e, _ := h.Table.Find(t.Context(), one)
	hold := hold{gateway: h.gateway, request: &request{r: gatewaytest.NewRequest("GET", onePath+"/"), at: site.Address{WorkspaceHost: site.WorkspaceHost{ID: one}}, entry: e}}
	defer hold.release()
	d := decision.Decision{Wake: decision.StartWakeUp, Wait: decision.WakeTimeout}
	hold.joinWakeUp(d, e.State())
	e.SetAnswered(e.State(), true)
	<-hold.wakeUp.Done()
	e.SetAnswered(e.State(), false)
	s := decision.Facts{}
	if err := hold.wait(d, &s, e.State()); err != nil || s.Attempt != decision.NotTried || hold.wakeUp != nil {
		t.Errorf("%v, %+v, still waits for the wake-up that has ended: %v", err, s, hold.wakeUp != nil)
	}
}
