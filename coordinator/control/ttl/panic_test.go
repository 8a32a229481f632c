package ttl_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// breaking panics in each of the runner's calls about one workspace.
type breaking struct {
	ttl.Expirer
	ttl.Looker
	id workspace.ID
}

func (b *breaking) about(id workspace.ID) {
	if id == b.id {
		panic("injected")
	}
}

func (b *breaking) Sleep(ctx context.Context, id workspace.ID, u service.Unused) (bool, error) {
	b.about(id)
	return b.Expirer.Sleep(ctx, id, u)
}

func (b *breaking) Doze(ctx context.Context, id workspace.ID, since time.Time) (bool, error) {
	b.about(id)
	return b.Expirer.Doze(ctx, id, since)
}

func (b *breaking) Archive(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	b.about(id)
	return b.Expirer.Archive(ctx, id, ttl)
}

func (b *breaking) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	b.about(id)
	return b.Looker.Look(ctx, id)
}

func (h *harness) breaking() *breaking {
	return &breaking{Expirer: service.New(h.store, service.Options{Logger: zap.NewNop()})}
}

func TestAPanicOfAnExpiryConcernsItsWorkspaceAlone(t *testing.T) {
	idle := row{phase: workspace.PhaseRunning, changed: time.Hour}
	stopped := row{phase: workspace.PhaseStandby, changed: 10 * 24 * time.Hour}
	doze := atOnce()
	doze.Doze = time.Minute
	doze.Standby = 10 * time.Hour
	dozes := func(h *harness, id workspace.ID) bool { return !storetest.Row(h.t, h.store, id).DozeAt.IsZero() }
	for name, c := range map[string]struct {
		row      row
		settings ttl.Settings
		done     func(h *harness, id workspace.ID) bool
	}{
		"sleep":   {idle, atOnce(), func(h *harness, id workspace.ID) bool { return h.desired(id) == workspace.DesiredStandby }},
		"archive": {stopped, atOnce(), func(h *harness, id workspace.ID) bool { return h.desired(id) == workspace.DesiredArchived }},
		"doze":    {idle, doze, dozes},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			b := h.breaking()
			older := c.row
			older.changed += time.Hour
			b.id = h.insert(older) // it comes first
			other := h.insert(c.row)
			r := h.with(ttl.Options{Expirer: b}, c.settings)
			if err := r.Tick(t.Context()); !guard.Panicked(err) || !strings.Contains(err.Error(), string(b.id)) {
				t.Fatalf("Tick returns %v", err)
			}
			if c.done(h, b.id) || !c.done(h, other) {
				t.Errorf("done: %t, and with the other one %t", c.done(h, b.id), c.done(h, other))
			}
			broken := b.id
			b.id = ""
			if err := r.Tick(t.Context()); err != nil || !c.done(h, broken) {
				t.Errorf("once it is mended: %v, done: %t", err, c.done(h, broken))
			}
		})
	}
}

func TestAPanicOfALookKeepsItsWorkspaceAwakeAndIsLoggedOnce(t *testing.T) {
	h, w := watching(t)
	core, logs := observer.New(zap.ErrorLevel)
	b := h.breaking()
	b.Looker = w
	clock := func() time.Time {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.clock
	}
	h.Runner = h.with(ttl.Options{Expirer: b, Looker: b, Log: zap.New(core)}, atOnce())
	h.SetClock(clock)
	b.id = unused(h)
	other := unused(h)
	for range 3 {
		h.next(w)
	}
	h.wants(b.id, workspace.DesiredRunning)
	h.wants(other, workspace.DesiredStandby)
	if all := logs.FilterField(zap.String("workspace", string(b.id))).All(); len(all) != 1 || all[0].ContextMap()["stack"] == nil {
		t.Errorf("logged %v", logs.All())
	}
	broken := b.id
	b.id = ""
	storetest.Set(t, h.store, broken, "sleep_at = now() - interval '1 second'")
	for range 3 {
		h.next(w)
	}
	h.wants(broken, workspace.DesiredStandby)
}
