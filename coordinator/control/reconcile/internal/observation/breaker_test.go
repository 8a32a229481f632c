package observation

import (
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a breaker to which a test shows observations of workspaces; see look.
type bench struct {
	*Breaker
	logs *observer.ObservedLogs
}

func newBench() bench {
	core, logs := observer.New(zap.InfoLevel)
	return bench{NewBreaker(zap.New(core)), logs}
}

func idOf(i int) workspace.ID {
	return workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
}

// look shows the breaker one observation of all workspaces, of which the first ones are lost. It returns the losses
// that the breaker believes. volumes is how many volumes of other workspaces are listed.
func (b bench) look(full bool, all, lost, volumes int, share float64) []Loss {
	listed := make(map[workspace.ID]workspace.Volume)
	for i := range volumes {
		listed[idOf(1000+i)] = workspace.Volume{}
	}
	k := b.Begin(full, listed)
	for i := range all {
		w := workspace.Workspace{ID: idOf(i)}
		next := w
		if i < lost {
			next.ErrorReason = workspace.ReasonDataLost
		}
		if held := b.Holds(now, k, Loss{Row: w, Decision: planner.Decision{Next: next}}); held != (i < lost) {
			panic(fmt.Sprintf("workspace %d is held back: %v", i, held))
		}
	}
	return b.Confirm(k, share)
}

// TestALossIsBelievedAtTheSecondFullLook.
func TestALossIsBelievedAtTheSecondFullLook(t *testing.T) {
	b := newBench()
	if got := b.look(true, 1, 1, 0, 0.5); len(got) != 0 || !b.Suspects() || !b.ConfirmAt().After(now) {
		t.Fatalf("the first look: %d believed, again at %s", len(got), b.ConfirmAt())
	}
	if got := b.look(false, 1, 1, 0, 0.5); len(got) != 0 {
		t.Errorf("a look at it alone: %d believed", len(got))
	}
	if others := b.Others(nil); len(others) != 1 || others[0] != idOf(0) {
		t.Errorf("to be looked at besides: %v", others)
	}
	if others := b.Others([]workspace.Workspace{{ID: idOf(0)}}); len(others) != 0 {
		t.Errorf("to be looked at twice: %v", others)
	}
	if got := b.look(true, 1, 1, 0, 0.5); len(got) != 1 || b.Suspects() || !b.ConfirmAt().IsZero() {
		t.Errorf("the second look: %d believed, again at %s", len(got), b.ConfirmAt())
	}
}

// TestAGlitchIsForgotten.
func TestAGlitchIsForgotten(t *testing.T) {
	b := newBench()
	b.look(false, 3, 1, 0, 0.5)
	b.look(false, 3, 0, 0, 0.5)
	if b.Suspects() || !b.ConfirmAt().IsZero() {
		t.Error("what is there again is still suspected")
	}
	if got := b.look(true, 3, 1, 0, 0.5); len(got) != 0 {
		t.Error("a later loss is believed at its first look")
	}
}

// TestTooManyLossesAreDoubted: a look is doubted if it covers at least four workspaces, and a larger share of them than
// allowed is lost.
func TestTooManyLossesAreDoubted(t *testing.T) {
	for _, c := range []struct {
		all, lost, volumes int
		share              float64
		believed           int
	}{
		{1, 1, 0, 0.5, 1},
		{3, 3, 0, 0.5, 3},
		{4, 2, 0, 0.5, 2},
		{4, 3, 0, 0.5, 0},
		{4, 4, 0, 0.5, 0},
		{4, 4, 0, 1, 4},
		{100, 51, 0, 0.5, 0},
		{100, 50, 0, 0.5, 50},
		{5, 5, 500, 0.5, 5}, // the others' volumes are there
		{5, 5, 4, 0.5, 0},
		{10, 2, 0, 0.1, 0},
	} {
		b := newBench()
		b.look(true, c.all, c.lost, c.volumes, c.share)
		if got := b.look(true, c.all, c.lost, c.volumes, c.share); len(got) != c.believed {
			t.Errorf("%d of %d lost next to %d volumes, share %v: %d believed, want %d", c.lost, c.all, c.volumes, c.share, len(got), c.believed)
		}
		if c.believed > 0 {
			continue
		}
		for range 3 { // tried again at the usual time, logged once
			if got := b.look(true, c.all, c.lost, c.volumes, c.share); len(got) != 0 || !b.ConfirmAt().IsZero() {
				t.Errorf("%d of %d: %d believed, again at %s", c.lost, c.all, len(got), b.ConfirmAt())
			}
		}
		b.look(true, c.all, 0, c.volumes, c.share)
		if n := b.logs.Len(); n != 2 || b.Suspects() {
			t.Errorf("%d of %d: %d lines, want its begin and its end", c.lost, c.all, n)
		}
	}
}

// TestAKnownLossIsNotHeldBack: it is recorded already.
func TestAKnownLossIsNotHeldBack(t *testing.T) {
	b := newBench()
	w := workspace.Workspace{ID: idOf(1), ErrorReason: workspace.ReasonDataLost}
	if b.Holds(now, b.Begin(true, nil), Loss{Row: w, Decision: planner.Decision{Next: w}}) || b.Suspects() {
		t.Error("a decision about a loss that is recorded is held back")
	}
}

// TestAContainerWithoutVolumeIsHeldBackToo: a listing that lacks volumes can be wrong even while their containers run,
// so this loss needs confirmation, too. With the wrong volume there is nothing to doubt.
func TestAContainerWithoutVolumeIsHeldBackToo(t *testing.T) {
	for name, c := range map[string]struct {
		seen workspace.Observation
		held bool
	}{
		"no volume":      {workspace.Observation{Container: &workspace.Container{}}, true},
		"another volume": {workspace.Observation{Container: &workspace.Container{}, Volume: &workspace.Volume{}}, false},
		"nothing known":  {workspace.Observation{Container: &workspace.Container{}, Unseen: workspace.SensorVolumes}, false},
	} {
		b := newBench()
		loss := Loss{Row: workspace.Workspace{ID: idOf(1)}, Observation: c.seen,
			Decision: planner.Decision{Next: workspace.Workspace{ID: idOf(1), ErrorReason: workspace.ReasonContainerWithoutVolume}}}
		if held := b.Holds(now, b.Begin(true, nil), loss); held != c.held || b.Suspects() != c.held {
			t.Errorf("%s: held back %v, want %v", name, held, c.held)
		}
	}
}

// TestADoubtedLookIsNotHurried: if the share of losses is too large, the next full look takes place at the usual time.
// Until then partial looks confirm nothing and keep the suspects.
func TestADoubtedLookIsNotHurried(t *testing.T) {
	b := newBench()
	b.look(true, 6, 6, 0, 0.5)
	if b.ConfirmAt().IsZero() {
		t.Fatal("nothing confirms the first look")
	}
	b.look(true, 6, 6, 0, 0.5)
	if got := b.look(false, 6, 6, 0, 0.5); len(got) != 0 || !b.ConfirmAt().IsZero() {
		t.Errorf("a partial look: %d believed, again at %s", len(got), b.ConfirmAt())
	}
	for i := range 6 {
		if !b.Suspected(idOf(i)) {
			t.Errorf("workspace %d is suspected no more", i)
		}
	}
	if got := b.look(true, 6, 1, 0, 0.5); len(got) != 1 {
		t.Errorf("the others are back: %d believed, want the one that is lost", len(got))
	}
	if b.Suspects() {
		t.Error("there are suspects although all is known")
	}
}

// TestALossOfAnotherKindIsANewOne: a workspace in ERROR for another reason loses its data.
func TestALossOfAnotherKindIsANewOne(t *testing.T) {
	for before, held := range map[workspace.ErrorReason]bool{
		"": true, workspace.ReasonTimeout: true, workspace.ReasonConflict: true, workspace.ReasonDataLost: false,
	} {
		b := newBench()
		next := workspace.Workspace{ID: idOf(1), ErrorReason: workspace.ReasonDataLost}
		loss := Loss{Row: workspace.Workspace{ID: idOf(1), ErrorReason: before}, Decision: planner.Decision{Next: next}}
		if got := b.Holds(now, b.Begin(false, nil), loss); got != held {
			t.Errorf("after %q: held back %v, want %v", before, got, held)
		}
	}
}
