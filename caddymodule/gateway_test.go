package codehub

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	wsTwo   = workspace.ID("0123abcd-0000-4000-8000-00000000000b")
	onePath = "/w/" + string(wsOne)
	oneHost = "Host: ws-" + string(wsOne) + ".localhost"
)

func TestOwnerReachesTheWorkspace(t *testing.T) {
	w := newWorld(t, nil)
	w.run(wsOne, echo(t))
	got := w.get(200, onePath+"/a%2Fb/?q=%20x", asAlice, "Cookie: a=1; session=secret; b=\"2\"", "Authorization: Basic eA==",
		"Forwarded: for=1.2.3.4", "X-Forwarded-Prefix: /evil", "X-Codehub-User: root", "Remote-User: root", "X-Forwarded-For: 6.6.6.6")
	host := w.url[len("http://"):]
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
	inHost := w.get(200, "/w/x?y", asAlice, oneHost, "X-Forwarded-Prefix: /evil")
	if !strings.Contains(inHost.body, "GET /w/x?y host=ws-") || strings.Contains(inHost.body, "X-Forwarded-Prefix") {
		t.Errorf("host mode: %s", inHost.body)
	}
	if post, err := w.send("POST", onePath+"/p", "hello", asAlice); err != nil || !strings.HasSuffix(post.body, "\nhello") {
		t.Errorf("POST: %v %s", err, post.body)
	}
	if bare := w.get(308, onePath+"?x=1", asAlice); bare.Header.Get("Location") != onePath+"/?x=1" {
		t.Errorf("bare path went to %q", bare.Header.Get("Location"))
	}
	if !w.used(wsOne) {
		t.Error("requests are no activity")
	}
	// What is for no workspace goes on: here, to a proxy without an upstream.
	w.get(503, "/other", asAlice)
}

func TestProgramIsHeldUntilTheApplicationAnswers(t *testing.T) {
	w := newWorld(t, nil)
	w.change(wsOne, func(*store.Route) {})
	up, asked := make(chan struct{}), make(chan struct{}, 1000)
	app := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
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
	}))
	defer app.Close()
	type result struct {
		reply
		err error
	}
	answers := make(chan result, 20)
	for range 10 {
		go func() { r, err := w.send("POST", onePath+"/x", "body", asAlice); answers <- result{r, err} }()
		go func() { r, err := w.send("GET", onePath+"/x", "", asAlice); answers <- result{r, err} }()
	}
	w.eventually("all are held", func() bool { return w.gateway.waking.held.Load() == 20 })
	w.eventually("one wish", func() bool { return w.wished() > 0 })
	w.change(wsOne, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
	w.run(wsOne, app)
	<-asked
	<-asked // it is asked again after an answer that is none
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
	if n := w.wished(); n > 2 {
		t.Errorf("%d wishes for one waking", n)
	}
	w.mu.Lock()
	actor := w.wishes[0]
	w.mu.Unlock()
	if actor != (service.Actor{UserID: "alice", Kind: "gateway"}) {
		t.Errorf("the wish was made by %+v", actor)
	}
}

func TestWakePageBecomesTheWorkspace(t *testing.T) {
	w := newWorld(t, map[string]any{"page_wait": "0"})
	w.change(wsOne, func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseArchived, workspace.DesiredArchived })
	page := w.get(502, onePath+"/deep?x", asAlice, asPage, "Accept-Language: ko-KR,ko;q=0.9,en;q=0.8")
	for _, want := range []string{`<html lang="ko">`, "My &lt;work&gt;", onePath + "/.codehub/status", `http-equiv="refresh"`, `aria-live="polite"`} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	if page.Header.Get("Cache-Control") != "no-store" || !strings.Contains(page.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers: %v", page.Header)
	}
	w.eventually("a wish", func() bool { return w.wished() > 0 })
	ask := func(seen string) (s wakeStatus) {
		got := w.get(200, onePath+"/.codehub/status?wait=25&seen="+url.QueryEscape(seen), asAlice, asTab)
		if err := json.Unmarshal([]byte(got.body), &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	next := func(seen string) <-chan wakeStatus {
		c := make(chan wakeStatus, 1)
		go func() { c <- ask(seen) }()
		w.eventually("the question waits", func() bool { return w.gateway.waking.polls.Load() == 1 })
		return c
	}
	s := ask("nothing")
	if s.Stage != stageQueued || !s.Waking {
		t.Fatalf("status is %+v", s)
	}
	for _, x := range []struct {
		op    workspace.Operation
		phase workspace.Phase
		want  stage
	}{{workspace.OpRestoring, workspace.PhaseArchived, stageRestoring}, {workspace.OpStarting, workspace.PhaseStandby, stageStarting}} {
		answer := next(s.Tag)
		w.change(wsOne, func(r *store.Route) { r.Desired, r.Operation, r.Phase = workspace.DesiredRunning, x.op, x.phase })
		if s = <-answer; s.Stage != x.want || !s.Waking || s.Ready {
			t.Fatalf("during %s the status is %+v", x.op, s)
		}
	}
	answer := next(s.Tag)
	app := echo(t)
	w.run(wsOne, app)
	if s = <-answer; s.Stage == stageAnswering {
		s = ask(s.Tag)
	}
	if !s.Ready {
		t.Fatalf("at the end the status is %+v", s)
	}
	w.get(200, onePath+"/deep?x", asAlice, asPage)
	w.used(wsOne)
	ask("")
	if w.used(wsOne) {
		t.Error("asking for the status is activity")
	}
}

// TestPageWaitsOnlyForWhatIsDecidedSoon: a sleeping workspace shows the wake page
// as soon as the wish is granted; one whose container runs is waited for.
func TestPageWaitsOnlyForWhatIsDecidedSoon(t *testing.T) {
	w := newWorld(t, map[string]any{"page_wait": "10s"})
	w.change(wsOne, func(*store.Route) {})
	w.get(502, onePath+"/", asAlice, asPage)
	if w.wished() == 0 {
		t.Error("the page is shown and nothing was wished")
	}
	w.run(wsOne, echo(t))
	w.get(200, onePath+"/", asAlice, asPage)
}

func TestTabWakesNothing(t *testing.T) {
	w := newWorld(t, nil)
	for _, phase := range []workspace.Phase{workspace.PhaseStandby, workspace.PhaseArchived} {
		w.change(wsOne, func(r *store.Route) { r.Phase = phase })
		got := w.get(503, onePath+"/x", asAlice, asTab)
		if got.Header.Get("Retry-After") == "" || got.Header.Get("Content-Type") != "application/problem+json" || !strings.Contains(got.body, "problem:asleep") {
			t.Errorf("got %v %s", got.Header, got.body)
		}
		w.get(503, onePath+"/ws", asAlice, "Connection: Upgrade", "Upgrade: websocket", "Origin: "+w.url)
		w.get(200, onePath+"/.codehub/status", asAlice, asTab)
	}
	if w.wished() > 0 {
		t.Fatal("a tab woke a workspace")
	}
	// On its way up, everything is held.
	w.change(wsOne, func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
	answer := make(chan int, 1)
	go func() { r, _ := w.send("GET", onePath+"/x", "", asAlice, asTab); answer <- r.StatusCode }()
	w.eventually("it is held", func() bool { return w.gateway.waking.held.Load() == 1 })
	w.run(wsOne, echo(t))
	if got := <-answer; got != 200 {
		t.Fatalf("got %d", got)
	}
}

func TestLimit(t *testing.T) {
	w := newWorld(t, nil)
	w.change(wsOne, func(*store.Route) {})
	w.running = []workspace.Workspace{{ID: wsTwo, Name: "<Other>", LastAccessAt: time.Now().Add(-30 * time.Minute)}}
	w.refuse(&service.LimitError{Scope: "user", Limit: 2})
	page := w.get(502, onePath+"/", asAlice, asPage)
	for _, want := range []string{"/w/" + string(wsTwo) + "/", "&lt;Other&gt;", "idle for 30 min", "At most 2"} {
		if !strings.Contains(page.body, want) {
			t.Errorf("the page lacks %q:\n%s", want, page.body)
		}
	}
	got := w.get(429, onePath+"/", asAlice)
	if !strings.Contains(got.body, `"limit":2`) || got.Header.Get("Retry-After") == "" {
		t.Errorf("got %v %s", got.Header, got.body)
	}
	w.get(503, onePath+"/", asAlice, asTab)
	inHost := w.get(502, "/", asAlice, oneHost+":99", asPage)
	if !strings.Contains(inHost.body, "http://ws-"+string(wsTwo)+".localhost:99/") {
		t.Errorf("host mode: %s", inHost.body)
	}
	w.mu.Lock()
	w.wish = nil
	w.mu.Unlock()
	app := echo(t)
	go func() {
		w.eventually("the wish is granted", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.rows[wsOne].Desired == workspace.DesiredRunning
		})
		w.run(wsOne, app)
	}()
	w.eventually("a place is free", func() bool {
		r, err := w.send("GET", onePath+"/", "", asAlice)
		return err == nil && r.StatusCode == 200
	})
}

func TestFailedWorkspace(t *testing.T) {
	w := newWorld(t, nil)
	w.change(wsOne, func(r *store.Route) {
		r.Phase, r.ErrorReason, r.ErrorMessage = workspace.PhaseError, workspace.ReasonImagePullFailed, "no <image>"
	})
	page := w.get(502, onePath+"/", asAlice, asPage)
	if !strings.Contains(page.body, "no &lt;image&gt;") || !strings.Contains(page.body, "Check the name of the image") {
		t.Errorf("page: %s", page.body)
	}
	if got := w.get(502, onePath+"/", asAlice); !strings.Contains(got.body, "ImagePullFailed: no ") {
		t.Errorf("program: %s", got.body)
	}
	w.get(502, onePath+"/", asAlice, asTab)
	if w.wished() > 0 {
		t.Error("a failed workspace was woken")
	}
}

func TestClientThatGoesIsForgotten(t *testing.T) {
	w := newWorld(t, map[string]any{"max_held": "1"})
	w.change(wsOne, func(*store.Route) {})
	ctx, cancel := context.WithCancel(context.Background())
	r := request("GET", w.url+onePath+"/", asAlice).WithContext(ctx)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		if resp, err := noRedirect.Do(r); err == nil {
			resp.Body.Close()
		}
	}()
	w.eventually("it is held", func() bool { return w.gateway.waking.held.Load() == 1 })
	if got := w.get(503, onePath+"/", asAlice); !strings.Contains(got.body, "too-many-waiting") {
		t.Errorf("beyond the limit of held requests: %s", got.body)
	}
	w.get(502, onePath+"/", asAlice, asPage)
	cancel()
	<-gone
	w.eventually("it is let go", func() bool { return w.gateway.waking.held.Load() == 0 })
}

func TestHeldRequestTimesOut(t *testing.T) {
	w := newWorld(t, map[string]any{"wake_timeout": "200ms"})
	w.change(wsOne, func(*store.Route) {})
	w.refuse(service.ErrOperationInProgress)
	got := w.get(503, onePath+"/", asAlice)
	if got.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	w.eventually("the waker ends", func() bool {
		w.gateway.waking.mu.Lock()
		defer w.gateway.waking.mu.Unlock()
		return len(w.gateway.waking.wakers) == 0
	})
}

func TestContainerThatDied(t *testing.T) {
	w := newWorld(t, map[string]any{"page_wait": "0"})
	dead := echo(t)
	w.run(wsOne, dead)
	w.get(200, onePath+"/", asAlice)
	dead.Close()
	if r, err := w.send("POST", onePath+"/", "body", asAlice); err != nil || r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Fatalf("with a body: %v %+v", err, r)
	}
	w.get(502, onePath+"/", asAlice, asPage)
	answer := make(chan reply, 1)
	go func() { r, _ := w.send("GET", onePath+"/again", "", asAlice); answer <- r }()
	w.eventually("it is held", func() bool { return w.gateway.waking.held.Load() == 1 })
	w.run(wsOne, echo(t))
	if r := <-answer; r.StatusCode != 200 || !strings.Contains(r.body, "GET /again ") {
		t.Fatalf("got %+v", r)
	}
}

func TestReadyWorkspaceIsNotProbed(t *testing.T) {
	w := newWorld(t, nil)
	var all atomic.Int64
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { all.Add(1) }))
	defer app.Close()
	w.run(wsOne, app)
	for range 10 {
		w.get(200, onePath+"/", asAlice)
	}
	if n := all.Load(); n != 11 {
		t.Errorf("%d requests reached the application, want 10 and one probe", n)
	}
}

func TestHeldRequestsSurviveAReload(t *testing.T) {
	w := newWorld(t, nil)
	w.change(wsOne, func(*store.Route) {})
	var wg sync.WaitGroup
	wg.Go(func() {
		r, err := w.send("GET", onePath+"/", "", asAlice)
		if err != nil || r.StatusCode != 200 {
			t.Errorf("the held request: %v %+v", err, r)
		}
	})
	w.eventually("it is held", func() bool { return w.gateway.waking.held.Load() == 1 })
	old := w.gateway.waking
	w.serve(map[string]any{"max_held": "7"}, nil)
	if w.gateway.waking != old {
		t.Error("a reload started waking anew")
	}
	w.run(wsOne, echo(t))
	wg.Wait()
}
