package activator

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) { wait.Main(m) }

const id = workspace.ID("0123abcd-0000-4000-8000-00000000000a")

// harness is an activator for one sleeping workspace, in a synctest bubble. It is also the table's source and the service layer.
type harness struct {
	*Activator
	t     *testing.T
	table *route.Table
	entry *route.Entry
	logs  *observer.ObservedLogs
	spans *tracetest.SpanRecorder
	stop  context.CancelFunc

	mu      sync.Mutex
	row     store.Route
	refuse  error
	running []workspace.Workspace
	actors  []service.Actor
	origins []*workspace.Origin
	answers bool
	probes  int

	setting, probing, listing func() // called without mu, if set
}

func newHarness(t *testing.T) *harness {
	core, logs := observer.New(zap.InfoLevel)
	h := &harness{t: t, logs: logs, spans: tracetest.NewSpanRecorder(), row: store.Route{
		ID: id, OwnerID: "alice", Phase: workspace.PhaseStandby, Operation: workspace.OpNone, Desired: workspace.DesiredStandby,
	}}
	h.table = route.New(h, route.Options{}, zap.NewNop())
	h.Activator = New(h.table, h, h.answer, tracing.New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(h.spans)).Tracer(""), func() {}), zap.New(core))
	ctx, cancel := context.WithCancel(t.Context())
	h.stop = cancel
	var run sync.WaitGroup
	run.Go(func() { h.table.Run(ctx) })
	run.Go(func() {
		if err := h.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); run.Wait() })
	<-h.table.Loaded()
	var err error
	if h.entry, err = h.table.Find(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *harness) Wake(ctx context.Context, id workspace.ID, e *route.Entry, timeout time.Duration) *WakeUp {
	return h.Activator.Wake(ctx, id, e, timeout, metrics.Program)
}

func (h *harness) Join(ctx context.Context, id workspace.ID, e *route.Entry, timeout time.Duration) *WakeUp {
	return h.Activator.Join(ctx, id, e, timeout, metrics.Program)
}

func (h *harness) Routes(context.Context, []workspace.ID) ([]store.Route, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return []store.Route{h.row}, nil
}

func (h *harness) AwakeRoutes(context.Context, workspace.ID, int) ([]store.Route, error) {
	return nil, nil
}

func (h *harness) SetDesired(ctx context.Context, a service.Actor, _ workspace.ID, d workspace.DesiredState) error {
	if h.setting != nil {
		h.setting()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.actors = append(h.actors, a)
	h.origins = append(h.origins, tracing.Origin(ctx))
	if h.refuse == nil {
		h.row.Desired, h.row.DozeAt = d, time.Time{}
		h.row.Revision++
	}
	return h.refuse
}

func (h *harness) Running(context.Context, string) ([]workspace.Workspace, error) {
	if h.listing != nil {
		h.listing()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.running, nil
}

func (h *harness) answer(context.Context, string, string) bool {
	if h.probing != nil {
		h.probing()
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.probes++
	return h.answers
}

// set changes how the harness behaves.
func (h *harness) set(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// change changes the workspace's row, and waits until the route table has the new row.
func (h *harness) change(f func(*store.Route)) {
	h.set(func() {
		revision := h.row.Revision
		f(&h.row)
		h.row.Revision = revision + 1
	})
	h.table.Refresh(id)
	synctest.Wait()
}

func (h *harness) probed() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.probes
}

func (h *harness) attempts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.actors)
}

func bubble(t *testing.T, test func(h *harness)) {
	synctest.Test(t, func(t *testing.T) { test(newHarness(t)) })
}

func running(r *store.Route) {
	r.Phase, r.Desired, r.Operation, r.Endpoint = workspace.PhaseRunning, workspace.DesiredRunning, workspace.OpNone, "10.0.0.1:1"
}

func TestWakesAndProbesUntilTheApplicationAnswers(t *testing.T) {
	bubble(t, func(h *harness) {
		w := h.Wake(t.Context(), id, h.entry, time.Minute)
		synctest.Wait()
		if h.attempts() != 1 || h.actors[0] != (service.Actor{UserID: "alice", Through: "gateway"}) {
			h.t.Fatalf("the desired state was set by %+v", h.actors)
		}
		if h.Wake(t.Context(), id, h.entry, time.Minute) != w || h.Join(t.Context(), id, h.entry, time.Minute) != w || h.InProgress(id, time.Minute) != w {
			h.t.Error("one workspace has several wake-ups")
		}
		h.change(running)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := h.probed(); n < 3 || h.entry.State().Ready() {
			h.t.Fatalf("after %d probes without an answer the workspace is %+v", n, h.entry.State())
		}
		h.set(func() { h.answers = true })
		<-w.Done()
		if !h.entry.State().Ready() || w.Refusal() != nil || h.InProgress(id, time.Minute) != nil {
			h.t.Error("the wake-up has not ended with a ready workspace")
		}
		if h.attempts() > 2 {
			h.t.Errorf("the desired state was set %d times", h.attempts())
		}
	})
}

func TestTriesAgainWhileAnOperationIsInProgress(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = service.ErrOperationInProgress
		h.Wake(t.Context(), id, h.entry, time.Minute)
		time.Sleep(5500 * time.Millisecond)
		if n := h.attempts(); n < 5 || n > 7 {
			h.t.Fatalf("%d attempts in 5.5 s", n)
		}
		// The activator notices the end of the operation immediately.
		before := h.attempts()
		h.change(func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseArchived, workspace.DesiredArchived })
		if h.attempts() != before+1 {
			h.t.Fatal("a changed route does not cause another attempt")
		}
	})
}

func TestEndsWhenNoRequestExtendsIt(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = errors.New("the database does not answer")
		first := h.Wake(t.Context(), id, h.entry, time.Minute)
		time.Sleep(40 * time.Second)
		if h.InProgress(id, time.Minute) != first {
			h.t.Fatal("the wake-up ended early")
		}
		time.Sleep(40 * time.Second) // 20 s beyond the first minute
		select {
		case <-first.Done():
			h.t.Fatal("InProgress did not extend the wake-up")
		default:
		}
		time.Sleep(30 * time.Second)
		<-first.Done()
		if h.InProgress(id, time.Minute) != nil {
			h.t.Fatal("the wake-up is still in progress")
		}
		n := h.attempts()
		time.Sleep(time.Minute)
		if h.attempts() != n || n > 60 {
			h.t.Fatalf("%d attempts, then %d", n, h.attempts())
		}
		if h.logs.Len() != 1 {
			h.t.Errorf("the outage was logged %d times", h.logs.Len())
		}
	})
}

// TestAnOutageIsLoggedOnceForAllWakeUps: an outage of the database is logged once, however many workspaces are woken
// and however often.
func TestAnOutageIsLoggedOnceForAllWakeUps(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = errors.New("the database does not answer")
		for range 3 {
			<-h.Wake(t.Context(), id, h.entry, time.Second).Done()
		}
		if h.logs.Len() != 1 {
			h.t.Errorf("the outage was logged %d times", h.logs.Len())
		}
		h.set(func() { h.refuse = nil })
		h.Wake(t.Context(), id, h.entry, time.Second)
		synctest.Wait()
		if all := h.logs.All(); len(all) != 2 || all[1].Message != "workspaces can be woken again" {
			h.t.Errorf("its end: %v", all)
		}
	})
}

func TestJoinNeverWakes(t *testing.T) {
	bubble(t, func(h *harness) {
		<-h.Join(t.Context(), id, h.entry, time.Minute).Done()
		if h.attempts() != 0 {
			h.t.Fatal("a request that must not wake the workspace set the desired state")
		}
		h.change(func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpStarting })
		w := h.Join(t.Context(), id, h.entry, time.Minute)
		synctest.Wait()
		h.change(func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredStandby, workspace.OpNone })
		<-w.Done()
		if h.attempts() != 0 {
			h.t.Fatal("it set the desired state after the workspace was put to sleep")
		}
	})
}

func TestInProgressDoesNotRenewTheRightToWake(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = service.ErrOperationInProgress
		w := h.Wake(t.Context(), id, h.entry, 10*time.Second)
		h.Join(t.Context(), id, h.entry, time.Minute)
		time.Sleep(11 * time.Second) // the request that may wake is gone
		n := h.attempts()
		h.InProgress(id, time.Minute)
		time.Sleep(10 * time.Second)
		if h.attempts() != n {
			h.t.Error("it continues to set the desired state for a request that must not wake")
		}
		<-w.Done()
	})
}

func TestARefusalIsKeptForAMoment(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = &service.LimitError{Scope: "user", Limit: 2}
		for range 100 {
			w := h.Wake(t.Context(), id, h.entry, time.Minute)
			<-w.Done()
			if w.Refusal() == nil {
				h.t.Fatal("not refused")
			}
		}
		if h.attempts() != 2 { // the second one confirms it; see TestALimitIsAskedOnceMore
			h.t.Fatalf("%d attempts for 100 requests", h.attempts())
		}
		time.Sleep(2 * refusalKept)
		<-h.Wake(t.Context(), id, h.entry, time.Minute).Done()
		if h.attempts() != 4 {
			h.t.Fatal("a refusal is kept forever")
		}
	})
}

// TestALimitIsWaitedForWhileAnotherWorkspaceStops: while one of the workspaces that count against a limit is being put
// to sleep, the wake-up waits. Only otherwise is the limit's refusal final.
func TestALimitIsWaitedForWhileAnotherWorkspaceStops(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = &service.LimitError{Scope: "user", Limit: 1}
		h.running = []workspace.Workspace{
			{ID: "0123abcd-0000-4000-8000-00000000000c", Name: "stays", DesiredState: workspace.DesiredRunning},
			{ID: "0123abcd-0000-4000-8000-00000000000b", Name: "stops", DesiredState: workspace.DesiredStandby},
		}
		w := h.Wake(t.Context(), id, h.entry, time.Minute)
		time.Sleep(10 * time.Second)
		select {
		case <-w.Done():
			h.t.Fatal("the wake-up has ended although there will be room")
		default:
		}
		if p := w.Progress(); p.Room != "stops" || p.From != workspace.PhaseStandby {
			h.t.Errorf("its progress is %+v", p)
		}
		h.set(func() { h.running, h.refuse = nil, nil })
		time.Sleep(2 * checkAgain)
		synctest.Wait()
		if h.entry.State().Route.Desired != workspace.DesiredRunning {
			h.t.Fatal("the workspace is not woken although there is room")
		}
	})
}

// TestALimitIsAskedOnceMore: after a refusal, the wake-up looks for workspaces that are being put to sleep. If it finds
// none, it makes one more attempt, because the other workspace may have stopped between the first attempt and the look.
func TestALimitIsAskedOnceMore(t *testing.T) {
	for _, scope := range []string{"user", "global"} {
		t.Run(scope, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.refuse = &service.LimitError{Scope: scope, Limit: 1}
				h.listing = func() { h.set(func() { h.refuse = nil }) }
				w := h.Wake(t.Context(), id, h.entry, time.Minute)
				synctest.Wait()
				if w.Refusal() != nil || h.entry.State().Route.Desired != workspace.DesiredRunning {
					h.t.Fatal("the workspace is not woken although there is room")
				}
			})
		})
	}
}

func TestALimitEndsTheWakeUpOnceTheOtherWorkspaceIsWantedAgain(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = &service.LimitError{Scope: "user", Limit: 1}
		h.running = []workspace.Workspace{{ID: "0123abcd-0000-4000-8000-00000000000b", Name: "other", DesiredState: workspace.DesiredStandby}}
		w := h.Wake(t.Context(), id, h.entry, time.Minute)
		synctest.Wait()
		h.set(func() {
			h.running = []workspace.Workspace{{ID: h.running[0].ID, DesiredState: workspace.DesiredRunning}}
		})
		time.Sleep(2 * checkAgain)
		if w.Refusal() == nil {
			h.t.Fatal("the limit does not stand")
		}
		attempts := h.attempts()
		h.Forget(id)
		h.Wake(t.Context(), id, h.entry, time.Minute)
		synctest.Wait()
		if h.attempts() != attempts+2 {
			h.t.Error("a refusal that was to be forgotten still answers")
		}
	})
}

func TestProgressOfAWakeUp(t *testing.T) {
	bubble(t, func(h *harness) {
		h.change(func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseArchived, workspace.DesiredArchived })
		w := h.Wake(t.Context(), id, h.entry, time.Hour)
		synctest.Wait()
		began := time.Now()
		time.Sleep(5 * time.Second)
		h.change(func(r *store.Route) { r.Desired, r.Operation = workspace.DesiredRunning, workspace.OpRestoring })
		restoring := time.Now()
		time.Sleep(5 * time.Second)
		h.change(func(r *store.Route) { r.Waiting = &workspace.Waiting{Reason: "PullingImage"} })
		if p := w.Progress(); !p.Began.Equal(began) || !p.StepBegan.Equal(restoring) || p.From != workspace.PhaseArchived || p.During != workspace.OpNone {
			h.t.Errorf("the progress is %+v, want a step since %s", p, restoring)
		}
	})
}

// TestTheTableKeepsTheEntryOfAWakeUp: the route table keeps the entry of a workspace during its wake-up, even if the
// wake-up lasts longer than the table keeps other entries without requests.
func TestTheTableKeepsTheEntryOfAWakeUp(t *testing.T) {
	bubble(t, func(h *harness) {
		h.refuse = service.ErrOperationInProgress
		w := h.Wake(t.Context(), id, h.entry, time.Hour)
		time.Sleep(59 * time.Minute)
		h.change(running)
		h.set(func() { h.answers = true })
		<-w.Done()
		if !h.entry.State().Ready() {
			h.t.Fatalf("the entry is %+v", h.entry.State())
		}
		h.change(func(r *store.Route) { r.Phase, r.Desired = workspace.PhaseStandby, workspace.DesiredStandby })
		time.Sleep(time.Hour)
		if _, ok := h.table.Lookup(id); ok {
			h.t.Error("the entry stays after its wake-up has ended")
		}
	})
}

func TestEndsForAWorkspaceThatFailedOrIsGone(t *testing.T) {
	bubble(t, func(h *harness) {
		for _, end := range []func(*store.Route){
			func(r *store.Route) { r.Phase, r.ErrorReason = workspace.PhaseError, workspace.ReasonTimeout },
			func(r *store.Route) { r.Deleted = true },
		} {
			h.change(func(r *store.Route) {
				*r = store.Route{ID: id, OwnerID: "alice", Phase: workspace.PhaseStandby, Operation: workspace.OpStarting, Desired: workspace.DesiredRunning}
			})
			w := h.Wake(t.Context(), id, h.entry, time.Hour)
			synctest.Wait()
			h.change(end)
			<-w.Done()
		}
	})
}

func TestStopEndsWakeUpsAndStartsNone(t *testing.T) {
	bubble(t, func(h *harness) {
		h.change(running)
		w := h.Wake(t.Context(), id, h.entry, time.Hour)
		synctest.Wait()
		h.stop()
		<-w.Done()
		<-h.Stopped()
		<-h.Wake(t.Context(), id, h.entry, time.Hour).Done() // a late request gets an ended wake-up
	})
}

func TestHoldIsBounded(t *testing.T) {
	a := New(nil, nil, nil, tracing.Off(), zap.NewNop())
	a.SetMaxHeld(4, 2)
	for i, c := range []struct {
		user string
		want Admission
	}{
		{"alice", Granted}, {"alice", Granted}, {"alice", ShareFull}, // she leaves places for others
		{"bob", Granted}, {"carol", Granted}, {"carol", Full}, {"alice", Full},
	} {
		if got := a.Admit(c.user); got != c.want {
			t.Errorf("request %d of %s: %v, want %v", i, c.user, got, c.want)
		}
	}
	if a.Held() != 4 {
		t.Fatalf("%d are held, want 4", a.Held())
	}
	a.Leave("alice")
	if a.Admit("alice") != Granted || a.Admit("alice") != Full {
		t.Error("Leave does not make room for exactly one other request")
	}
	for _, user := range []string{"alice", "alice", "bob", "carol"} {
		a.Leave(user)
	}
	if a.Held() != 0 || len(a.held.byUser) != 0 {
		t.Errorf("%d are held of %v", a.Held(), a.held.byUser)
	}
	a.SetMaxHeld(0, 0)
	if a.Admit("alice") != Full {
		t.Error("a request is held although the limit is 0")
	}
	a.SetMaxHeld(5, 0) // the default share is a tenth, but at least one
	if a.Admit("alice") != Granted || a.Admit("alice") != ShareFull || a.Admit("bob") != Granted {
		t.Error("the default share is not one of five")
	}
}

// TestProbeAsksBelowTheBasePath: the probe requests the base path, because an application that keeps its prefix may
// serve nothing at the root.
func TestProbeAsksBelowTheBasePath(t *testing.T) {
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer s.Close()
	if !ProbeHTTP()(t.Context(), s.Listener.Addr().String(), "/w/"+string(id)) {
		t.Error("not answered")
	}
	if path := <-asked; path != "/w/"+string(id)+"/" {
		t.Errorf("asked %s", path)
	}
}

func TestProbeTellsAServerThatIsNotUpYet(t *testing.T) {
	for status, want := range map[int]bool{200: true, 302: true, 401: true, 404: true, 500: true, 502: false, 503: false, 504: false} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://192.0.2.1/")
			w.WriteHeader(status)
		}))
		endpoint := s.Listener.Addr().String()
		if got := ProbeHTTP()(t.Context(), endpoint, ""); got != want {
			t.Errorf("status %d: got %v", status, got)
		}
		s.Close()
		if ProbeHTTP()(t.Context(), endpoint, "") {
			t.Error("the probe succeeds although nothing listens")
		}
	}
}

// TestTheRequestOfAWakeUp: the change of the desired state, the log line and the spans of a wake-up belong to the
// request that began it. The traces of other requests that wait for the wake-up link to it.
func TestTheRequestOfAWakeUp(t *testing.T) {
	bubble(t, func(h *harness) {
		request := func(name string) (context.Context, trace.Span) {
			return h.tracer.Start(tracing.WithRequest(t.Context(), func() string { return name }), name)
		}
		first, firstSpan := request("first")
		other, otherSpan := request("other")
		w := h.Wake(first, id, h.entry, time.Minute)
		h.Wake(first, id, h.entry, time.Minute)
		h.Join(other, id, h.entry, time.Minute)
		synctest.Wait()
		h.change(func(r *store.Route) { r.Phase, r.Endpoint = workspace.PhaseRunning, "10.0.0.1:80" })
		h.set(func() { h.answers = true })
		<-w.Done()
		otherSpan.End()
		spans := make(map[string]sdktrace.ReadOnlySpan)
		for _, s := range h.spans.Ended() {
			spans[s.Name()] = s
		}
		wake, answer := spans[tracing.Wake], spans[tracing.Answer]
		if wake == nil || answer == nil {
			t.Fatalf("recorded %v", spans)
		}
		if wake.Parent().SpanID() != firstSpan.SpanContext().SpanID() || answer.Parent().SpanID() != wake.SpanContext().SpanID() {
			t.Error("the request, the wake-up and the first answer are no chain")
		}
		if links := spans["other"].Links(); len(links) != 1 || links[0].SpanContext.SpanID() != wake.SpanContext().SpanID() {
			t.Errorf("the other request has the links %v", links)
		}
		traceID := wake.SpanContext().TraceID().String()
		if o := h.origins[0]; o == nil || o.Request != "first" || !strings.Contains(o.Trace, traceID+"-"+wake.SpanContext().SpanID().String()) {
			t.Errorf("the desired state was set for %v", o)
		}
		lines := h.logs.FilterMessage("workspace woken: it answers").All()
		if len(lines) != 1 || lines[0].ContextMap()["uuid"] != "first" || lines[0].ContextMap()["traceID"] != traceID ||
			lines[0].ContextMap()["workspace"] != string(id) {
			t.Errorf("logged %v", lines)
		}
	})
}

func TestWhatDozesGoesOn(t *testing.T) {
	bubble(t, func(h *harness) {
		h.answers = true
		h.change(running)
		<-h.Wake(t.Context(), id, h.entry, time.Minute).Done()
		attempts, probes := h.attempts(), h.probed()
		h.Used(id, nil) // it does not doze
		synctest.Wait()
		if h.WakeUps() != 0 || h.attempts() != attempts {
			h.t.Fatal("a workspace is woken that does not doze")
		}
		h.change(func(r *store.Route) { r.DozeAt = time.Now() })
		if h.entry.State().Ready() || !h.entry.State().Dozes() {
			h.t.Fatalf("dozing: %+v", h.entry.State())
		}
		h.Used(id, nil)
		synctest.Wait()
		if h.attempts() != attempts+1 || h.probed() != probes || !h.entry.State().Ready() || h.WakeUps() != 0 {
			h.t.Errorf("%d attempts, %d probes, %d wake-ups, ready %v", h.attempts(), h.probed(), h.WakeUps(), h.entry.State().Ready())
		}
		// A limit forbids it.
		h.change(func(r *store.Route) { r.DozeAt = time.Now() })
		h.set(func() { h.refuse = &service.LimitError{Scope: "user", Limit: 1} })
		w := h.Wake(t.Context(), id, h.entry, time.Minute)
		<-w.Done()
		if w.Refusal() == nil || !h.entry.State().Dozes() {
			h.t.Errorf("at the limit: %v, %+v", w.Refusal(), h.entry.State())
		}
	})
}

func TestAPanicEndsItsWakeUpAlone(t *testing.T) {
	for name, inject := range map[string]func(h *harness, f func()){
		"while the state is set": func(h *harness, f func()) { h.setting = f },
		"while it is probed":     func(h *harness, f func()) { h.probing = f },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				inject(h, func() { panic("injected") })
				h.set(func() { h.answers = true })
				w := h.Wake(t.Context(), id, h.entry, time.Minute)
				synctest.Wait()
				h.change(running)
				<-w.Done()
				if h.entry.State().Ready() || w.Refusal() != nil || h.WakeUps() != 0 {
					t.Errorf("ready %t, refused %v, %d wake-ups", h.entry.State().Ready(), w.Refusal(), h.WakeUps())
				}
				if all := h.logs.FilterField(zap.String("workspace", string(id))).FilterMessage("waking a workspace panicked").All(); len(all) != 1 ||
					all[0].ContextMap()["stack"] == nil {
					t.Errorf("logged %v", h.logs.All())
				}
				inject(h, nil)
				again := h.Wake(t.Context(), id, h.entry, time.Minute)
				<-again.Done()
				if again == w || !h.entry.State().Ready() {
					t.Error("the next request does not wake it")
				}
			})
		})
	}
}
