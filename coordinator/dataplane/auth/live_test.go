package auth

import "testing"

type ending struct {
	ended  bool
	breaks bool
}

func (e *ending) End() {
	e.ended = true
	if e.breaks {
		panic("injected")
	}
}

// TestAPanicOfWhatASessionHasOpenLeavesNothingElseOpen: the other requests end, and the session has ended.
func TestAPanicOfWhatASessionHasOpenLeavesNothingElseOpen(t *testing.T) {
	l := newLife("main", 0)
	all := []*ending{{}, {breaks: true}, {}}
	for _, e := range all {
		if !l.attach(new(Stream), e) {
			t.Fatal("not attached")
		}
	}
	l.end()
	for i, e := range all {
		if !e.ended {
			t.Errorf("request %d is open", i)
		}
	}
	if l.inUse() || l.attach(new(Stream), new(ending)) {
		t.Error("the session has not ended")
	}
}
