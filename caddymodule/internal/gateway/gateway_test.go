package gateway

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestOwnerReachesTheWorkspace(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	got := h.get(200, onePath+"/a%2Fb/?q=%20x", asAlice, "Cookie: a=1; session=secret; b=\"2\"", "Authorization: Basic eA==",
		"Forwarded: for=1.2.3.4", "X-Forwarded-Prefix: /evil", "X-Codehub-User: root", "Remote-User: root", "X-Forwarded-For: 6.6.6.6")
	host := h.url[len("http://"):]
	for _, want := range []string{
		"GET /a%2Fb/?q=%20x host=" + host, "Cookie: a=1; b=\"2\"\r\n", "X-Forwarded-Prefix: " + onePath + "\r\n",
		"X-Forwarded-Host: " + host, "X-Forwarded-Proto: http\r\n", "X-Forwarded-For: 127.0.0.1\r\n", "Authorization: Basic eA==",
	} {
		if !strings.Contains(got.body, want) {
			t.Errorf("the workspace did not get %q:\n%s", want, got.body)
		}
	}
	for _, secret := range []string{"secret", "Forwarded: for", "/evil", "root", "6.6.6.6"} {
		if strings.Contains(got.body, secret) {
			t.Errorf("the workspace got %q:\n%s", secret, got.body)
		}
	}
	inHost := h.get(200, "/w/x?y", asAlice, oneHost, "X-Forwarded-Prefix: /evil")
	if !strings.Contains(inHost.body, "GET /w/x?y host=ws-") || strings.Contains(inHost.body, "X-Forwarded-Prefix") {
		t.Errorf("host mode: %s", inHost.body)
	}
	if post, err := h.send("POST", onePath+"/p", "hello", asAlice); err != nil || !strings.HasSuffix(post.body, "\nhello") {
		t.Errorf("POST: %v %s", err, post.body)
	}
	if bare := h.get(308, onePath+"?x=1", asAlice); bare.Header.Get("Location") != onePath+"/?x=1" {
		t.Errorf("bare path went to %q", bare.Header.Get("Location"))
	}
	if !h.Used(one) {
		t.Error("a request does not count as activity")
	}
	// A request for another path is not for a workspace.
	h.get(http.StatusTeapot, "/other", asAlice)
}

// While the database does not answer, a workspace that does not run may or may not exist. So the gateway does not
// answer that it does not exist. A running one is served.
func TestWithoutTheDatabaseASleepingWorkspaceIsUnavailable(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(*store.Route) {})
	h.Run(two, gatewaytest.Echo(t))
	h.get(200, gatewaytest.TwoPath+"/", asAlice, asProgram)
	h.Away(true)
	h.get(503, onePath+"/", asAlice, asPage)
	if got := h.get(503, onePath+"/", asAlice, asProgram); got.Header.Get("Retry-After") == "" || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answered with %v", got.Header)
	}
	h.get(503, "/w/0123abcd-0000-4000-8000-0000000000ff/", asAlice, asProgram)
	h.get(401, onePath+"/", asProgram)
	h.get(200, gatewaytest.TwoPath+"/", asAlice, asProgram)
	h.Away(false)
	h.get(404, "/w/0123abcd-0000-4000-8000-0000000000ff/", asAlice, asProgram)
	h.get(502, onePath+"/", asAlice, asPage)
	if !h.Woken() {
		t.Error("the workspace is not woken when the database is back")
	}
}

func TestProgramIsHeldUntilTheApplicationAnswers(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(*store.Route) {})
	up, asked := make(chan struct{}), make(chan struct{}, 1000)
	app := gatewaytest.App(t, func(rw http.ResponseWriter, r *http.Request) {
		select {
		case asked <- struct{}{}:
		default:
		}
		select {
		case <-up:
			_, _ = io.Copy(rw, r.Body)
		default:
			rw.WriteHeader(503)
		}
	})
	type result struct {
		reply
		err error
	}
	answers := make(chan result, 20)
	for range 10 {
		go func() { r, err := h.send("POST", onePath+"/x", "body", asAlice); answers <- result{r, err} }()
		go func() { r, err := h.send("GET", onePath+"/x", "", asAlice); answers <- result{r, err} }()
	}
	h.WaitHeld(20)
	wait.Until(t, "the workspace is woken", func() bool { return h.Woken() })
	h.Change(one, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
	h.Run(one, app)
	<-asked
	<-asked // it is asked again after an invalid answer
	select {
	case r := <-answers:
		t.Fatalf("released before the application was up: %v", r)
	default:
	}
	close(up)
	for range 20 {
		r := <-answers
		if r.err != nil || r.StatusCode != 200 || r.Request.Method == "POST" && r.body != "body" {
			t.Fatalf("got %+v", r)
		}
	}
	actors := h.Actors()
	if len(actors) > 2 {
		t.Errorf("the desired state was set %d times for one wake-up", len(actors))
	}
	if actors[0] != (service.Actor{UserID: "alice", Through: "gateway"}) {
		t.Errorf("the desired state was set by %+v", actors[0])
	}
}

func TestWakePageBecomesTheWorkspace(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.PageWait = 0 })
	h.Change(one, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseArchived, workspace.DesiredArchived })
	page := h.get(502, onePath+"/deep?x", asAlice, asPage, "Accept-Language: ko-KR,ko;q=0.9,en;q=0.8")
	for _, want := range []string{`<html lang="ko"`, "My &lt;work&gt;", onePath + "/.codehub/status", `http-equiv="refresh"`, `role="status"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	if page.Header.Get("Cache-Control") != "no-store" || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers: %v", page.Header)
	}
	wait.Until(t, "the workspace is woken", func() bool { return h.Woken() })
	ask := func(seen string) (s progress.Status) {
		got := h.get(200, onePath+"/.codehub/status?wait=25&seen="+url.QueryEscape(seen), asAlice, asSubrequest)
		if err := json.Unmarshal([]byte(got.body), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	next := func(seen string) <-chan progress.Status {
		c := make(chan progress.Status, 1)
		go func() { c <- ask(seen) }()
		wait.Until(t, "the status request is held", func() bool { return h.gateway.polls.Load() == 1 })
		return c
	}
	s := ask("nothing")
	if s.Stage != progress.StageQueued || !s.Waking {
		t.Fatalf("status is %+v", s)
	}
	for _, x := range []struct {
		op    workspace.Operation
		phase workspace.Phase
		want  progress.Stage
	}{{workspace.OpRestoring, workspace.PhaseArchived, progress.StageRestoring}, {workspace.OpStarting, workspace.PhaseStandby, progress.StageStarting}} {
		answer := next(s.Tag)
		h.Change(one, func(r *store.Route) { r.Desired, r.Operation, r.Phase = workspace.DesiredRunning, x.op, x.phase })
		if s = <-answer; s.Stage != x.want || !s.Waking || s.Ready {
			t.Fatalf("during %s the status is %+v", x.op, s)
		}
	}
	answer := next(s.Tag)
	app := gatewaytest.Echo(t)
	h.Run(one, app)
	if s = <-answer; s.Stage == progress.StageAnswering {
		s = ask(s.Tag)
	}
	if !s.Ready {
		t.Fatalf("at the end the status is %+v", s)
	}
	h.get(200, onePath+"/deep?x", asAlice, asPage)
	h.waitServed()
	h.Used(one)
	ask("")
	if h.Used(one) {
		t.Error("polling the status counts as activity")
	}
}

// TestPageWait: a navigation to a sleeping workspace gets the
// wake page as soon as the desired state is granted; while the container runs, it waits
// for the first answer.
func TestPageWait(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.PageWait = 10 * time.Second })
	h.Change(one, func(*store.Route) {})
	h.get(502, onePath+"/", asAlice, asPage)
	if !h.Woken() {
		t.Error("the wake page was sent without waking the workspace")
	}
	h.Run(one, gatewaytest.Echo(t))
	h.get(200, onePath+"/", asAlice, asPage)
}

func TestSubresourceWakesNothing(t *testing.T) {
	h := newHarness(t)
	for _, phase := range []workspace.Phase{workspace.PhaseStandby, workspace.PhaseArchived} {
		h.Change(one, func(r *store.Route) { r.Phase = phase })
		got := h.get(503, onePath+"/x", asAlice, asSubrequest)
		if got.Header.Get("Retry-After") == "" || got.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, "problem:asleep") {
			t.Errorf("got %v %s", got.Header, got.body)
		}
		h.get(503, onePath+"/ws", asAlice, "Connection: Upgrade", "Upgrade: websocket", "Origin: "+h.url)
		h.get(200, onePath+"/.codehub/status", asAlice, asSubrequest)
	}
	if h.Woken() {
		t.Fatal("a subresource woke a workspace")
	}
	// While the workspace starts, every request is held.
	h.Change(one, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
	answer := make(chan int, 1)
	go func() { r, _ := h.send("GET", onePath+"/x", "", asAlice, asSubrequest); answer <- r.StatusCode }()
	h.WaitHeld(1)
	h.Run(one, gatewaytest.Echo(t))
	if got := <-answer; got != 200 {
		t.Fatalf("got %d", got)
	}
}

func TestLimit(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(*store.Route) {})
	h.SetRunning(workspace.Workspace{ID: two, Name: "<Other>", DesiredState: workspace.DesiredRunning, Operation: workspace.OpNone, LastAccessAt: time.Now().Add(-30 * time.Minute)})
	h.Refuse(&service.LimitError{Scope: "user", Limit: 2})
	page := h.get(502, onePath+"/", asAlice, asPage)
	for _, want := range []string{"/w/" + string(two) + "/", "&lt;Other&gt;", "Not used for 30 min", "At most 2", "No room for My &lt;work&gt;", "“My &lt;work&gt;” 워크스페이스를 실행할 자리"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	got := h.get(429, onePath+"/", asAlice)
	if !strings.Contains(got.body, `"limit":2`) || !strings.Contains(got.body, `"running":[{"id":"`+string(two)) || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %v %s", got.Header, got.body)
	}
	h.get(503, onePath+"/", asAlice, asSubrequest)
	if inHost := h.get(429, "/", asAlice, oneHost); !strings.Contains(inHost.body, `"running":[{"id":"`+string(two)) {
		t.Errorf("a program, host mode: %s", inHost.body)
	}
	if form, err := h.send("POST", "/", "a=b", append(asForm, asAlice, oneHost, "Sec-Fetch-User: ?1")...); err != nil || form.StatusCode != 429 || strings.Contains(form.body, string(two)) {
		t.Errorf("a page of the workspace can read which others run: %v %s", err, form.body)
	}
	h.Refuse(nil)
	app := gatewaytest.Echo(t)
	go func() {
		wait.Until(t, "the desired state is granted", func() bool { return h.Desired(one) == workspace.DesiredRunning })
		h.Run(one, app)
	}()
	wait.Until(t, "the workspace may run", func() bool {
		r, err := h.send("GET", onePath+"/", "", asAlice)
		return err == nil && r.StatusCode == 200
	})
}

func TestFailedWorkspace(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(r *store.Route) {
		r.Phase, r.ErrorReason, r.ErrorMessage = workspace.PhaseError, workspace.ReasonImagePullFailed, "dial tcp 10.0.0.5:443: no <image>"
	})
	page := h.get(502, onePath+"/", asAlice, asPage)
	if !strings.Contains(page.body, "Its image could not be pulled.") || strings.Contains(page.body, "10.0.0.5") || !strings.Contains(page.body, "Choose another image") {
		t.Errorf("page: %s", page.body)
	}
	if got := h.get(502, onePath+"/", asAlice); !strings.Contains(got.body, "ImagePullFailed: Its image") || strings.Contains(got.body, "10.0.0.5") {
		t.Errorf("program: %s", got.body)
	}
	h.get(502, onePath+"/", asAlice, asSubrequest)
	if h.Woken() {
		t.Error("a failed workspace was woken")
	}
}

func TestDisconnectedClientIsReleased(t *testing.T) {
	h := newHarness(t)
	h.Wakes.SetMaxHeld(1, 0)
	h.Change(one, func(*store.Route) {})
	ctx, cancel := context.WithCancel(context.Background())
	r := gatewaytest.NewRequest("GET", h.url+onePath+"/", asAlice).WithContext(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := client.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	h.WaitHeld(1)
	if got := h.get(503, onePath+"/", asAlice); !strings.Contains(got.body, "too-many-waiting") {
		t.Errorf("beyond the limit of held requests: %s", got.body)
	}
	h.get(502, onePath+"/", asAlice, asPage)
	cancel()
	<-gone
	h.WaitHeld(0)
}

func TestHeldRequestTimesOut(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.WakeTimeout = 200 * time.Millisecond })
	h.Change(one, func(*store.Route) {})
	h.Refuse(service.ErrOperationInProgress)
	got := h.get(503, onePath+"/", asAlice)
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	wait.Until(t, "the wake-up ends", func() bool { return h.Wakes.InProgress(one, 0) == nil })
}

func TestContainerThatDied(t *testing.T) {
	h := newHarness(t, func(o *Options) { o.PageWait = 0 })
	dead := gatewaytest.Echo(t)
	h.Run(one, dead)
	h.get(200, onePath+"/", asAlice)
	gatewaytest.Kill(t, dead)
	if r, err := h.send("POST", onePath+"/", "body", asAlice); err != nil || r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Fatalf("with a body: %v %+v", err, r)
	}
	h.get(502, onePath+"/", asAlice, asPage)
	answer := make(chan reply, 1)
	go func() { r, _ := h.send("GET", onePath+"/again", "", asAlice); answer <- r }()
	h.WaitHeld(1)
	h.Run(one, gatewaytest.Echo(t))
	if r := <-answer; r.StatusCode != 200 || !strings.Contains(r.body, "GET /again ") {
		t.Fatalf("got %+v", r)
	}
}

func TestReadyWorkspaceIsNotProbed(t *testing.T) {
	h := newHarness(t)
	var all atomic.Int64
	app := gatewaytest.App(t, func(http.ResponseWriter, *http.Request) { all.Add(1) })
	h.Run(one, app)
	for range 10 {
		h.get(200, onePath+"/", asAlice)
	}
	if n := all.Load(); n != 11 {
		t.Errorf("%d requests reached the application, want 10 and one probe", n)
	}
}

func TestHeldRequestsOutliveAReplacedConfiguration(t *testing.T) {
	stopping := make(chan struct{})
	h := newHarness(t, func(o *Options) { o.Stopping = stopping })
	h.Change(one, func(*store.Route) {})
	held := h.getting(onePath+"/", asAlice)
	h.WaitHeld(1)
	close(stopping) // the process continues
	h.Run(one, gatewaytest.Echo(t))
	if got := <-held; got.StatusCode != 200 {
		t.Errorf("the held request got %d: %s", got.StatusCode, got.body)
	}
}

func TestHeldRequestsAreAnsweredWhenTheProcessEnds(t *testing.T) {
	stopping := make(chan struct{})
	h := newHarness(t, func(o *Options) { o.Stopping = stopping; o.PageWait = time.Minute })
	h.Change(one, func(*store.Route) {})
	h.Refuse(service.ErrOperationInProgress)
	program, page := h.getting(onePath+"/", asAlice), h.getting(onePath+"/", asAlice, asPage)
	h.WaitHeld(2)
	h.exiting.Store(true)
	close(stopping)
	if got := <-program; got.StatusCode != 503 || got.Header.Get("Retry-After") == "" {
		t.Errorf("the program got %d", got.StatusCode)
	}
	if got := <-page; got.StatusCode != 502 || !strings.Contains(got.body, "/.codehub/status") {
		t.Errorf("the page got %d", got.StatusCode)
	}
	h.WaitHeld(0)
}

// TestStoppedActivator checks that a status request is answered immediately when the activator has stopped, and so all
// wake-ups have ended. This also holds if nothing signals the end of the configuration.
func TestStoppedActivator(t *testing.T) {
	h := newHarness(t, func(o *Options) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		o.Activator = activator.New(o.Routes, nil, nil, tracing.Off(), zap.NewNop())
		_ = o.Activator.Run(ended)
	})
	h.Change(one, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
	h.get(503, onePath+"/", asAlice)
	ctx, cancel := context.WithTimeout(t.Context(), 55*time.Second) // less than the request would wait
	defer cancel()
	resp, err := client.Do(gatewaytest.NewRequest("GET", h.url+onePath+"/.codehub/status?wait=60", asAlice).WithContext(ctx))
	if err != nil {
		t.Fatalf("the status request waits for a wake-up that cannot happen: %v", err)
	}
	_ = resp.Body.Close()
}
