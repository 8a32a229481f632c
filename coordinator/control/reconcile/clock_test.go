package reconcile_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// otherClock is a database whose clock is ahead of this process's.
type otherClock struct {
	*store.Store
	ahead time.Duration
}

func (o *otherClock) Now(ctx context.Context) (time.Time, error) {
	now, err := o.Store.Now(ctx)
	return now.Add(o.ahead), err
}

// TestALeaderThatIsBehind: it writes the database's time. If it wrote its own time, every workspace that it starts
// would look as if it had been unused for as long as the leader's clock is behind.
func TestALeaderThatIsBehind(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.database = &otherClock{h.store, 35 * time.Minute}
	h.use(h.archives, zap.NewNop(), nil)
	began := storetest.Value[time.Time](t, h.store, "SELECT now()").Add(35 * time.Minute)
	id := h.create()
	h.lead()
	w := h.settles(id, workspace.PhaseRunning)
	for what, at := range map[string]time.Time{"phase": w.PhaseChangedAt, "observation": w.ObservedAt,
		"condition": w.Conditions[workspace.ContainerReady].LastTransitionTime} {
		if at.Before(began) {
			t.Errorf("the time of the %s is %s before the database's", what, began.Sub(at))
		}
	}
}

// TestALeaderThatIsAhead: while the object store is away, a leader whose clock is ahead must not remove the only copy
// of a deleted workspace's files early. The delay must have passed by the database's clock.
func TestALeaderThatIsAhead(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.database = &otherClock{h.store, -3 * time.Hour}
	h.use(h.archives, zap.NewNop(), func(s *reconcile.Settings) { s.KeepDeleted = time.Millisecond })
	id := h.create()
	h.lead()
	h.settles(id, workspace.PhaseRunning)
	h.guard.bucket.Store(ptr(workspace.Fail(workspace.ReasonUnreachable, errors.New("no answer"))))
	h.resign()
	if err := h.service.Delete(t.Context(), h.owner, id, false); err != nil {
		t.Fatal(err)
	}
	h.lead()
	if w := h.await(id, "waiting, or deleted", func(w workspace.Workspace) bool {
		return w.Waiting != nil || w.Operation == workspace.OpDeleting || w.Phase == workspace.PhaseDeleted
	}); w.Waiting == nil || w.Waiting.Reason != workspace.WaitStoreAway {
		t.Errorf("%s %s, want it to wait for the store", w.Phase, w.Operation)
	}
	if !h.volumeKept(id) {
		t.Error("the only copy is gone")
	}
}

func (h *harness) volumeKept(id workspace.ID) bool {
	h.t.Helper()
	found, err := h.backend.Volumes(h.t.Context(), id)
	if err != nil {
		h.t.Fatal(err)
	}
	_, kept := found[id]
	return kept
}
