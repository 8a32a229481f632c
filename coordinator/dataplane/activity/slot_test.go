package activity

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTouchDuringRetireIsNotLost frees the slot between the two steps of a touch.
func TestTouchDuringRetireIsNotLost(t *testing.T) {
	const id = workspace.ID("00000000-0000-4000-8000-000000000001")
	now := time.UnixMilli(1_000_000)
	b := NewBuffer(nil, Options{Now: func() time.Time { return now }, Idle: time.Minute}, zap.NewNop())
	s := b.Slot(id)
	s.Touch(metrics.ByMessage)
	s.sent, s.saved = s.last.Load(), s.last.Load() // as after a flush

	now = now.Add(time.Hour)
	b.tick()
	read := s.last.Load()
	b.retire()
	if b.Len() != 0 {
		t.Fatal("the slot was not freed")
	}
	if s.advance(read, now.UnixMilli()) {
		t.Fatal("a touch was written into a slot that had been freed")
	}
	s.Touch(metrics.ByMessage) // a touch that fails to advance tries again
	if got := b.unsaved(); len(got) != 1 || got[0].at != now.UnixMilli() {
		t.Fatalf("the next flush writes %v", got)
	}
}

func TestASlotWithUnsentActivityIsNotFreed(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	b := NewBuffer(nil, Options{Now: func() time.Time { return now }, Idle: time.Minute}, zap.NewNop())
	b.Record("00000000-0000-4000-8000-000000000001")
	now = now.Add(time.Hour)
	b.tick()
	b.retire()
	if b.Len() != 1 {
		t.Fatal("the slot was freed, and its touch with it")
	}
}

// TestWhatIsDeniedIsNoUse: while uses are denied, they count neither as use nor as input. After that they count again.
func TestWhatIsDeniedIsNoUse(t *testing.T) {
	now, counts := time.UnixMilli(1_000_000), false
	b := NewBuffer(nil, Options{Now: func() time.Time { return now }, Used: func(workspace.ID, audit.Asker) bool { return counts }}, zap.NewNop())
	s := b.Slot("00000000-0000-4000-8000-000000000001")
	s.Touch(metrics.ByInput)
	if got := b.unsaved(); len(got) != 0 || s.input.Load() != 0 {
		t.Errorf("the next flush writes %v, with input at %d", got, s.input.Load())
	}
	counts = true
	s.Touch(metrics.ByInput)
	if got := b.unsaved(); len(got) != 1 || s.input.Load() != now.UnixMilli() {
		t.Errorf("the next flush writes %v, with input at %d", got, s.input.Load())
	}
}

// TestWhoseUseItIs: in each step of the clock, Used gets the user of the first use before that use counts. The last
// user is known even after the slot was retired.
func TestWhoseUseItIs(t *testing.T) {
	now, counts := time.UnixMilli(1_000_000), true
	var told []audit.Asker
	b := NewBuffer(nil, Options{Now: func() time.Time { return now }, Used: func(_ workspace.ID, by audit.Asker) bool {
		told = append(told, by)
		return counts
	}}, zap.NewNop())
	const id = workspace.ID("00000000-0000-4000-8000-000000000001")
	ann, bob := audit.Actor{ID: "ann"}, audit.Actor{ID: "bob"}
	held := b.Slot(id)
	held.TouchBy(metrics.ByMessage, ann)
	held.TouchBy(metrics.ByMessage, bob) // in the same step
	wants := func(when string, want audit.Asker, calls int) {
		t.Helper()
		if by, used := b.UsedWithin(id, time.Hour); !used || by != want || len(told) != calls {
			t.Errorf("%s: %v, used %v, after %d calls", when, by, used, len(told))
		}
	}
	wants("two in one step", ann, 1)
	now, counts = now.Add(time.Second), false
	b.tick()
	held.TouchBy(metrics.ByMessage, bob)
	if wants("denied", ann, 2); told[1] != audit.Asker(bob) {
		t.Errorf("a use was denied to %v", told[1])
	}
	counts = true
	held.last.Store(retired)
	delete(b.part(id).slots, id)
	b.Slot(id).Touch(metrics.ByProgram)
	wants("by nobody who is known", nil, 3)
	now = now.Add(time.Second)
	b.tick()
	held.TouchBy(metrics.ByMessage, bob)
	if by, used := b.UsedWithin(id, time.Hour); !used || by != audit.Asker(bob) {
		t.Errorf("through a retired slot: %v, used %v", by, used)
	}
}
