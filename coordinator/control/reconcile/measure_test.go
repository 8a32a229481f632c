package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestHomesAreMeasured: the homes of running workspaces are measured, and those that were used since their last
// measurement. A large home is logged once.
func TestHomesAreMeasured(t *testing.T) {
	h := newHarness(t)
	core, log := observer.New(zapcore.WarnLevel)
	h.use(h.archives, zap.New(core), func(s *reconcile.Settings) {
		s.MeasureInterval, s.MeasureAge, s.HomeWarn = 10*time.Millisecond, time.Hour, 1000
	})
	h.lead()
	id := h.create()
	h.settles(id, workspace.PhaseRunning)
	measured := func(what string, want workspace.HomeSize) {
		t.Helper()
		h.await(id, what, func(w workspace.Workspace) bool {
			got := w.Home
			got.MeasuredAt = time.Time{}
			return got == want && !w.Home.MeasuredAt.IsZero()
		})
	}
	measured("the empty home to be measured", workspace.HomeSize{})
	h.backend.Fill(id, backend.Usage{Bytes: 999, Files: 2, AtLeast: true})
	storetest.Exec(t, h.store, `UPDATE workspaces SET home_measured_at = now() - interval '2 hours' WHERE id = $1`, string(id))
	measured("the home to be measured again", workspace.HomeSize{Bytes: 999, Files: 2, AtLeast: true})
	h.backend.Fill(id, backend.Usage{Bytes: 1000, Files: 3})
	h.setDesired(id, workspace.DesiredStandby)
	measured("the sleeping home to be measured", workspace.HomeSize{Bytes: 1000, Files: 3})
	wait.Until(t, "a warning", func() bool { return log.FilterMessageSnippet("home_warn").Len() == 1 })
	before := h.settles(id, workspace.PhaseStandby).Home.MeasuredAt
	h.setDesired(id, workspace.DesiredRunning)
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, workspace.DesiredStandby)
	h.await(id, "another measurement", func(w workspace.Workspace) bool {
		return w.Home.MeasuredAt.After(before) && w.Phase == workspace.PhaseStandby
	})
	if n := log.FilterMessageSnippet("home_warn").Len(); n != 1 {
		t.Errorf("%d warnings about one home", n)
	}
}

// TestASaveKeepsAMeasurement that was made during the decision.
func TestASaveKeepsAMeasurement(t *testing.T) {
	h := newHarness(t)
	h.lead()
	id := h.create()
	w := h.settles(id, workspace.PhaseRunning)
	h.resign()
	f := h.epoch()
	size := workspace.HomeSize{Bytes: 5, Files: 1, AtLeast: true, MeasuredAt: time.Now().UTC().Truncate(time.Microsecond)}
	save := func(size workspace.HomeSize) bool {
		t.Helper()
		saved, err := h.store.SaveHome(t.Context(), f, id, size)
		if err != nil {
			t.Fatal(err)
		}
		return saved
	}
	if !save(size) {
		t.Fatal("not saved")
	}
	next := w
	next.ObservedAt = time.Now()
	if saved, err := h.store.Save(t.Context(), f, w, next, nil); !saved || err != nil {
		t.Fatal(saved, err)
	}
	if got := h.row(id).Home; got != size {
		t.Errorf("a save without a size left %+v, want %+v", got, size)
	}
	older := size
	older.MeasuredAt = size.MeasuredAt.Add(-time.Minute)
	if save(older) {
		t.Error("an older measurement took the place of a newer one")
	}
	was := f
	f = h.epoch()
	next.Home = workspace.HomeSize{Bytes: 9, Files: 2, MeasuredAt: size.MeasuredAt.Add(time.Minute)}
	if saved, err := h.store.Save(t.Context(), f, h.row(id), next, nil); !saved || err != nil || h.row(id).Home != next.Home {
		t.Errorf("the size of a job was not saved: %v, %v, %+v", saved, err, h.row(id).Home)
	}
	f, next.Home.MeasuredAt = was, next.Home.MeasuredAt.Add(time.Minute)
	if save(next.Home) {
		t.Error("a former leader has saved a size")
	}
}

// TestAFullDisk: while the disk is full, a new workspace waits. It continues as soon as there is room, however long it
// has waited.
func TestAFullDisk(t *testing.T) {
	h := newHarness(t)
	h.controller.SetFullDisk(&workspace.FullDisk{Percent: 96})
	h.lead()
	id := h.create()
	w := h.await(id, "the workspace to wait", func(w workspace.Workspace) bool { return w.Waiting != nil })
	if w.Waiting.Reason != workspace.WaitDiskPressure || w.Operation != workspace.OpNone || w.Phase != workspace.PhasePending {
		t.Errorf("%s, %s, waits for %+v", w.Phase, w.Operation, w.Waiting)
	}
	storetest.Exec(t, h.store, `UPDATE workspaces SET waiting = jsonb_set(waiting, '{since}', '"2026-01-01T00:00:00Z"') WHERE id = $1`, string(id))
	h.controller.SetFullDisk(&workspace.FullDisk{Percent: 97})
	h.await(id, "another attempt", func(w workspace.Workspace) bool { return strings.Contains(w.Waiting.Message, "97%") })
	began := time.Now()
	h.controller.SetFullDisk(nil) // the next attempt is many seconds away
	h.settles(id, workspace.PhaseRunning)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it went on after %s", took)
	}
}
