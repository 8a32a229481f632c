package gc_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/gc"
)

// dryRun returns the findings of a dry run by key, and its error.
func (h *harness) dryRun(req gc.Request) (gc.Report, map[string]gc.Judgement, error) {
	h.t.Helper()
	findings := make(map[string]gc.Judgement)
	r, err := gc.DryRun(h.t.Context(), h.opts, req, func(f gc.Judgement) error {
		if _, twice := findings[f.Key]; twice {
			h.t.Errorf("%s is reported twice", f.Key)
		}
		findings[f.Key] = f
		return nil
	})
	if len(findings) != r.Archives+r.Foreign {
		h.t.Errorf("%d findings for %d archives and %d other objects", len(findings), r.Archives, r.Foreign)
	}
	return r, findings, err
}

func TestADryRunExplainsEveryArchiveAndChangesNothing(t *testing.T) {
	h := newHarness(t)
	superseded := h.archive(1, 2)
	lone := h.archive(1, 3)
	h.lose(lone)
	key := h.archive(1, 1)
	newer := h.archive(1, 5)
	h.insert(1, current(key))
	unhealthy := h.archive(2, 1)
	h.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	unknown := h.archive(3, 1)
	h.put("README")

	r, found, err := h.dryRun(gc.Request{})
	if err != nil || r.Orphans != 2 || r.Due != 0 || r.Foreign != 1 || len(h.orphans()) != 0 {
		t.Fatalf("%+v, %v, tracked %q", r, err, h.orphans())
	}
	if f := found[superseded]; f.Verdict != gc.Candidate || f.Age != 0 || f.FirstSeen.IsZero() {
		t.Errorf("an orphan that no cycle has seen: %+v", f)
	}
	if rows, err := h.store.Identities(t.Context()); err != nil || rows["bucket"].Identity != "" {
		t.Errorf("a dry run records the bucket: %v, %v", rows, err)
	}

	h.collect()
	h.age(3 * time.Hour)
	late := h.archive(1, 4) // after the cycle: its delay has not begun
	h.written[late] = h.written[superseded]
	all := h.objects()
	tracked := h.orphans()
	r, found, err = h.dryRun(gc.Request{})
	if err != nil || r.Archives != 7 || r.Orphans != 3 || r.Due != 2 || r.Deleted != 0 || r.Unknown != 1 || r.Newer != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	for key, want := range map[string]gc.Judgement{
		"README":   {Size: 1, Verdict: gc.Foreign},
		key:        {Workspace: id(1), Size: 1, Verdict: gc.Protected, Reason: gc.KeptCurrent},
		unhealthy:  {Workspace: id(2), Size: 1, Verdict: gc.Protected, Reason: gc.KeptUnhealthy},
		superseded: {Workspace: id(1), Size: 1, Verdict: gc.Due, Reason: gc.OrphanSuperseded},
		unknown:    {Workspace: id(3), Size: 1, Verdict: gc.Reported, Reason: gc.ReportedUnknown},
		newer:      {Workspace: id(1), Size: 1, Verdict: gc.Reported, Reason: gc.ReportedNewer},
		lone:       {Workspace: id(1), Size: gc.UnknownSize, Verdict: gc.Due, Reason: gc.OrphanSuperseded},
		late:       {Workspace: id(1), Size: 1, Verdict: gc.Candidate, Reason: gc.OrphanSuperseded},
	} {
		got := found[key]
		if got.Workspace != want.Workspace || got.Size != want.Size || got.Verdict != want.Verdict || got.Reason != want.Reason {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
		if at, ok := h.written[key]; ok && !got.Modified.Equal(at) {
			t.Errorf("%s was written %s, not %s", key, at, got.Modified)
		}
		switch age := got.Age; want.Verdict {
		case gc.Protected, gc.Reported, gc.Foreign:
			if age != 0 || !got.FirstSeen.IsZero() {
				t.Errorf("%s is kept, and first seen %s", key, got.FirstSeen)
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
	refuse := func(gc.Judgement) error { return full }
	if _, err := gc.DryRun(t.Context(), h.opts, gc.Request{}, refuse); !errors.Is(err, full) {
		t.Fatalf("DryRun returns %v", err)
	}
	h.lose(id(1).ArchiveKey(op(1)), id(1).ArchiveKey(op(1))+".meta")
	h.put("README")
	if _, err := gc.DryRun(t.Context(), h.opts, gc.Request{}, refuse); !errors.Is(err, full) {
		t.Fatalf("DryRun returns %v for a foreign object", err)
	}
}

func TestADryRunWithoutRedisKnowsNoTimes(t *testing.T) {
	h := newHarness(t)
	orphan := h.superseded(1)
	unknown := h.archive(2, 1)
	h.collect()
	h.age(2 * gc.DefaultDelay)
	if err := h.server.Stop(); err != nil {
		t.Fatal(err)
	}
	h.opts.Orphans = nil
	r, found, err := h.dryRun(gc.Request{Unknown: true})
	f := found[orphan]
	if err != nil || r.Orphans != 1 || r.Due != 0 || f.Verdict != gc.Candidate || f.Age != 0 || !f.FirstSeen.IsZero() {
		t.Errorf("got %+v, %+v, %v", r, f, err)
	}
	if f := found[unknown]; f.Verdict != gc.Reported {
		t.Errorf("got %+v", f)
	}
}
