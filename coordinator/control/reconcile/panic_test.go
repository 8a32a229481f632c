package reconcile_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// breaking panics in each of the controller's calls about one workspace.
type breaking struct {
	reconcile.Backend
	id    atomic.Pointer[workspace.ID]
	calls atomic.Int32
}

func (b *breaking) about(id workspace.ID) {
	if broken := b.id.Load(); broken != nil && *broken == id {
		b.calls.Add(1)
		panic("injected")
	}
}

func (b *breaking) Start(ctx context.Context, spec backend.StartSpec) error {
	b.about(spec.ID)
	return b.Backend.Start(ctx, spec)
}

func (b *breaking) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	b.about("") // while the id is empty, each listing
	return b.Backend.Containers(ctx, ids...)
}

// breakingStore panics when it saves one workspace.
type breakingStore struct {
	*store.Store
	id atomic.Pointer[workspace.ID]
}

func (s *breakingStore) Save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace,
	archived *workspace.ArchiveRecord) (bool, error) {
	if broken := s.id.Load(); broken != nil && *broken == prev.ID {
		panic("injected")
	}
	return s.Store.Save(ctx, f, prev, next, archived)
}

// faulty starts a controller with faults, and returns its error log.
func (h *harness) faulty() *observer.ObservedLogs {
	core, logs := observer.New(zap.ErrorLevel)
	h.use(h.archives, zap.New(core), nil)
	h.lead()
	return logs
}

// concernsAlone checks that the program fails only for the workspace id, logs that once, and continues with other
// workspaces. Once mend has removed the cause, the controller continues with id, too.
func (h *harness) concernsAlone(id workspace.ID, logs *observer.ObservedLogs, other func(), mend func(), after workspace.Phase) {
	h.t.Helper()
	wait.Until(h.t, "the fault is noted", func() bool {
		found := h.controller.Faults()
		return len(found) == 1 && found[0].ID == id && found[0].Cause != ""
	})
	was := h.row(id)
	other()
	lines := logs.FilterField(zap.String("workspace", string(id))).All()
	if len(lines) != 1 {
		h.t.Errorf("logged %d times: %v", len(lines), lines)
	}
	if now := h.row(id); now.Phase != was.Phase || now.Phase == workspace.PhaseError || now.ErrorCount != 0 || now.ErrorReason != "" {
		h.t.Errorf("the workspace did not stay as it was: %s with %q, before it was %s", now.Phase, now.ErrorReason, was.Phase)
	}
	mend()
	if w := h.settles(id, after); w.ErrorCount != 0 {
		h.t.Errorf("errors were counted: %+v", w)
	}
	h.await(id, "the end of the wait", func(w workspace.Workspace) bool { return w.Waiting == nil })
	wait.Until(h.t, "the fault is over", func() bool { return len(h.controller.Faults()) == 0 })
}

func TestAPanicOfAnActuatorConcernsItsWorkspaceAlone(t *testing.T) {
	h := newHarness(t)
	b := &breaking{Backend: h.backend}
	h.engine = b
	logs := h.faulty()
	id := h.asleep(workspace.DesiredStandby)
	b.id.Store(&id)
	h.setDesired(id, workspace.DesiredRunning)
	h.concernsAlone(id, logs, func() {
		h.settles(h.create(), workspace.PhaseRunning)
		if w := h.waits(id, workspace.WaitInternalError); w.Operation != workspace.OpStarting {
			t.Errorf("%+v", w)
		}
		// The pause grows: not every look tries again.
		calls := b.calls.Load()
		h.settles(h.create(), workspace.PhaseRunning)
		if more := b.calls.Load() - calls; more > 3 {
			t.Errorf("tried %d times while another one started", more)
		}
	}, func() { b.id.Store(nil) }, workspace.PhaseRunning)
}

func TestAPanicOfThePlannerConcernsItsWorkspaceAlone(t *testing.T) {
	h := newHarness(t)
	var broken atomic.Bool
	h.newOpID = func() string {
		if broken.Load() {
			panic("injected")
		}
		return uuid.NewString()
	}
	logs := h.faulty()
	other := h.create()
	h.settles(other, workspace.PhaseRunning)
	broken.Store(true)
	id := h.create()
	h.concernsAlone(id, logs, func() {
		h.waits(id, workspace.WaitInternalError)
		h.setDesired(other, workspace.DesiredStandby)
		h.settles(other, workspace.PhaseStandby)
	}, func() { broken.Store(false) }, workspace.PhaseRunning)
}

func TestAPanicWhileARowIsSavedConcernsItsWorkspaceAlone(t *testing.T) {
	h := newHarness(t)
	db := &breakingStore{Store: h.store}
	h.database = db
	logs := h.faulty()
	id := h.asleep(workspace.DesiredStandby)
	db.id.Store(&id)
	h.setDesired(id, workspace.DesiredRunning)
	h.concernsAlone(id, logs, func() { h.settles(h.create(), workspace.PhaseRunning) }, func() { db.id.Store(nil) }, workspace.PhaseRunning)
}

func TestAPanicOfAProbeConcernsItsWorkspaceAlone(t *testing.T) {
	h := newHarness(t)
	var broken atomic.Pointer[string]
	b := &bucket{stat: func(key string) error {
		if k := broken.Load(); k != nil && *k == key {
			panic("injected")
		}
		return nil
	}}
	b.Store = h.archives
	core, logs := observer.New(zap.ErrorLevel)
	h.use(b, zap.New(core), nil)
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	key := h.row(id).ArchiveKey
	broken.Store(&key)
	h.setDesired(id, workspace.DesiredRunning)
	h.concernsAlone(id, logs, func() { h.settles(h.create(), workspace.PhaseRunning) }, func() { broken.Store(nil) }, workspace.PhaseRunning)
}

// A listing that panics counts as one that is missing: the controller concludes nothing from it for any workspace.
func TestAPanicOfASensorIsAnAnswerThatIsMissing(t *testing.T) {
	h := newHarness(t)
	b := &breaking{Backend: h.backend}
	h.engine = b
	h.faulty()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	b.id.Store(new(workspace.ID))
	h.setDesired(id, workspace.DesiredStandby)
	wait.Until(t, "two listings have panicked", func() bool { h.controller.Wake(id); return b.calls.Load() > 2 })
	if w := h.row(id); w.Phase != workspace.PhaseRunning || w.ErrorCount != 0 {
		t.Errorf("%+v", w)
	}
	b.id.Store(nil)
	h.settles(id, workspace.PhaseStandby)
}

// The database accepts each of these rows, but the program cannot read them.
func TestARowThatCannotBeReadConcernsItsWorkspaceAlone(t *testing.T) {
	h := newHarness(t)
	logs := h.faulty()
	id, other := h.create(), h.create()
	h.settles(id, workspace.PhaseRunning)
	for name, c := range map[string]struct{ spoil, mend string }{
		"home_ctx":   {`home_ctx = home_ctx || '{"dirty": 5}'`, `home_ctx = home_ctx || '{"dirty": true}'`},
		"conditions": {`conditions = conditions || '{"new": 5}'`, `conditions = conditions - 'new'`},
		"busy":       {`busy = '{"reason": []}'`, `busy = NULL`},
		"a time":     {`last_access_at = 'infinity'`, `last_access_at = now()`},
		"recovery":   {`recovery = '{"id": {}}'`, `recovery = NULL`},
	} {
		t.Run(name, func(t *testing.T) {
			h.t = t
			logs.TakeAll()
			storetest.Set(t, h.store, id, c.spoil)
			h.controller.Wake(id)
			rows, err := h.store.Workspaces(t.Context(), []workspace.ID{id, other})
			if err != nil || len(rows) != 2 {
				t.Fatalf("%d rows, %v", len(rows), err)
			}
			h.concernsAlone(id, logs, func() {
				h.reach(other, workspace.DesiredStandby, workspace.PhaseStandby)
				h.setDesired(other, workspace.DesiredRunning)
				h.settles(other, workspace.PhaseRunning)
			}, func() { storetest.Set(t, h.store, id, c.mend); h.controller.Wake(id) }, workspace.PhaseRunning)
		})
	}
}
