package ttl

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// at returns a time by the database's clock, in seconds since the test began.
func at(seconds int) time.Time { return time.Unix(1_000_000+int64(seconds), 0).UTC() }

// TestRoll lists which processes the barrier waits for, reading by reading.
func TestRoll(t *testing.T) {
	type reading struct {
		now     int // seconds
		writers []postgres.Writer
		missing string
	}
	wrote := func(name string, when int) postgres.Writer {
		return postgres.Writer{Instance: name, Node: name, FlushedAt: at(when)}
	}
	late := func(w postgres.Writer) postgres.Writer { w.Late = true; return w }
	gone := func(w postgres.Writer) postgres.Writer { w.Gone = true; return w }
	for name, readings := range map[string][]reading{
		"no process records activity": {{now: 0}},
		"the first reading waits for one more flush of each": {
			{0, []postgres.Writer{wrote("a", -1), wrote("b", -2)}, "a b"},
			{60, []postgres.Writer{wrote("a", 59), wrote("b", -2)}, "b"},
			{120, []postgres.Writer{wrote("a", 59), wrote("b", 90)}, ""},
		},
		"one that begins later is known from its first flush on": {
			{0, nil, ""},
			{60, []postgres.Writer{wrote("a", 50)}, ""},
		},
		"one that is late is waited for": {
			{0, nil, ""},
			{60, []postgres.Writer{wrote("a", 50)}, ""},
			{200, []postgres.Writer{late(wrote("a", 50))}, "a"},
			{260, []postgres.Writer{wrote("a", 250)}, ""},
		},
		"one that is late without end is dead": {
			{0, []postgres.Writer{late(wrote("a", -10))}, "a"},
			{590, []postgres.Writer{late(wrote("a", -10))}, "a"},
			{591, []postgres.Writer{late(wrote("a", -10))}, ""},
		},
		"a killed one is dead as soon as it has been gone for some time": {
			{0, []postgres.Writer{wrote("a", -10)}, "a"},
			{60, []postgres.Writer{gone(wrote("a", -10))}, "a"},
			{89, []postgres.Writer{gone(wrote("a", -10))}, "a"},
			{90, []postgres.Writer{gone(wrote("a", -10))}, ""},
			{150, []postgres.Writer{gone(late(wrote("a", -10)))}, ""},
		},
		"one that was gone for a moment is not dead": {
			{0, []postgres.Writer{wrote("a", -10)}, "a"},
			{60, []postgres.Writer{gone(late(wrote("a", -10)))}, "a"},
			{120, []postgres.Writer{late(wrote("a", -10))}, "a"},
			{180, []postgres.Writer{gone(late(wrote("a", -10)))}, "a"},
		},
		"one that is gone and has written is not waited for": {
			{0, nil, ""},
			{60, []postgres.Writer{gone(wrote("a", 50))}, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var r flushBarrier
			for _, reading := range readings {
				var got []string
				_, missing, _ := r.check(postgres.Writers{Now: at(reading.now), All: reading.writers})
				for _, w := range missing {
					got = append(got, w.Node)
				}
				if strings.Join(got, " ") != reading.missing {
					t.Errorf("after %d s it waits for %q, want %q", reading.now, got, reading.missing)
				}
			}
		})
	}
}

func TestAnOutageBeginsTheRollAgain(t *testing.T) {
	var r flushBarrier
	killed := postgres.Writer{Instance: "k", FlushedAt: at(-10), Gone: true}
	alive := postgres.Writer{Instance: "a", FlushedAt: at(40)}
	r.check(postgres.Writers{Now: at(0), All: []postgres.Writer{killed}})
	if _, missing, _ := r.check(postgres.Writers{Now: at(60), All: []postgres.Writer{killed, alive}}); len(missing) != 0 {
		t.Fatalf("before the outage it waits for %v", missing)
	}
	r.reset()
	// All sessions may have ended because of the outage, so the time without a session is measured anew from here.
	if _, missing, _ := r.check(postgres.Writers{Now: at(120), All: []postgres.Writer{killed, alive}}); len(missing) != 2 {
		t.Fatalf("after the outage it waits for %v", missing)
	}
}

func TestOnlyBrokenPromisesAreErrors(t *testing.T) {
	late := postgres.Writer{Instance: "i", Node: "node-7", FlushedAt: at(0), Late: true}
	if err := lateError([]postgres.Writer{{Node: "other"}}); err != nil {
		t.Errorf("a process that is only expected to write is an error: %v", err)
	}
	err := lateError([]postgres.Writer{{Node: "other"}, late})
	if err == nil || !strings.Contains(err.Error(), "node-7 (instance i)") || strings.Contains(err.Error(), "other") {
		t.Errorf("got %v", err)
	}
}
