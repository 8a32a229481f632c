package gc_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/gc"
)

// dryRun returns the findings of a dry run by key, and its error.
func (h *harness) dryRun() (gc.Report, map[string]gc.Finding, error) {
	h.t.Helper()
	findings := make(map[string]gc.Finding)
	r, err := gc.DryRun(h.t.Context(), h.opts, func(f gc.Finding) error {
		if _, twice := findings[f.Key]; twice {
			h.t.Errorf("%s is reported twice", f.Key)
		}
		findings[f.Key] = f
		return nil
	})
	if len(findings) != r.Archives {
		h.t.Errorf("%d findings for %d archives", len(findings), r.Archives)
	}
	return r, findings, err
}

func TestADryRunExplainsEveryArchiveAndChangesNothing(t *testing.T) {
	h := newHarness(t)
	h.insert(1, fmt.Sprintf("archive_key = '%s'", id(1).ArchiveKey(op(1))))
	h.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	current, superseded, unhealthy := h.archive(1, 1), h.archive(1, 2), h.archive(2, 1)
	unknown := h.archive(3, 1)
	lone := id(1).ArchiveKey(op(3))
	h.put("README", lone+".meta")

	r, found, err := h.dryRun()
	if err != nil || r.Orphans != 3 || r.Due != 0 || r.Foreign != 1 || len(h.orphans()) != 0 {
		t.Fatalf("%+v, %v, tracked %q", r, err, h.orphans())
	}
	if f := found[superseded]; f.Verdict != gc.Candidate || f.Age != 0 || f.FirstSeen.IsZero() {
		t.Errorf("an orphan that no cycle has seen: %+v", f)
	}

	h.collect()
	h.age(3 * time.Hour)
	late := h.archive(1, 4) // after the cycle: its delay has not begun
	all := h.objects()
	tracked := h.orphans()
	r, found, err = h.dryRun()
	if err != nil || r.Archives != 6 || r.Orphans != 4 || r.Due != 3 || r.Deleted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for key, want := range map[string]gc.Finding{
		current:    {Workspace: id(1), Size: 1, Verdict: gc.Protected, Reason: gc.KeptCurrent},
		unhealthy:  {Workspace: id(2), Size: 1, Verdict: gc.Protected, Reason: gc.KeptUnhealthy},
		superseded: {Workspace: id(1), Size: 1, Verdict: gc.Due, Reason: gc.OrphanSuperseded},
		unknown:    {Workspace: id(3), Size: 1, Verdict: gc.Due, Reason: gc.OrphanUnknown},
		lone:       {Workspace: id(1), Size: gc.UnknownSize, Verdict: gc.Due, Reason: gc.OrphanSuperseded},
		late:       {Workspace: id(1), Size: 1, Verdict: gc.Candidate, Reason: gc.OrphanSuperseded},
	} {
		got := found[key]
		if got.Workspace != want.Workspace || got.Size != want.Size || got.Verdict != want.Verdict || got.Reason != want.Reason {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
		if d := time.Since(got.Modified).Abs(); d > time.Hour {
			t.Errorf("%s was written %s ago", key, d)
		}
		switch age := got.Age; want.Verdict {
		case gc.Protected:
			if age != 0 || !got.FirstSeen.IsZero() {
				t.Errorf("%s is protected, and first seen %s", key, got.FirstSeen)
			}
		case gc.Due:
			if age < 3*time.Hour || age > 4*time.Hour {
				t.Errorf("%s has been an orphan for %s", key, age)
			}
		}
	}
	if !slices.Equal(h.orphans(), tracked) || len(h.collected) != 0 {
		t.Errorf("tracked %q, collected %q", h.orphans(), h.collected)
	}
	h.has(all...)
}

func TestADryRunEndsWithTheErrorOfItsCaller(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.archive(1, 1)
	full := errors.New("no space left on device")
	if _, err := gc.DryRun(t.Context(), h.opts, func(gc.Finding) error { return full }); !errors.Is(err, full) {
		t.Fatalf("DryRun returns %v", err)
	}
}
