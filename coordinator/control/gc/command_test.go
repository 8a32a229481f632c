package gc_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

func TestReportedArchivesGoOnCommandOnly(t *testing.T) {
	h := newHarness(t)
	key := h.archive(1, 1)
	newer := h.archive(1, 2)
	h.insert(1, current(key))
	unknown := h.archive(2, 1)
	fresh := h.archive(2, 2)
	h.written[fresh] = time.Now().Add(-time.Minute)
	// Workspace 3 is deleted and has a newer archive. The archive that workspace 4 names is missing.
	doubtful, doubtfulNewer := h.archive(3, 1), h.archive(3, 2)
	h.insert(3, current(doubtful)+", "+deleted)
	only := h.archive(4, 2)
	h.insert(4, current(id(4).ArchiveKey(op(1))))
	if r := h.collectLate(); r.Due != 0 || r.Unknown != 2 || r.Newer != 3 {
		t.Fatalf("%+v", r)
	}

	req := gc.Request{Unknown: true}
	r, found, err := h.dryRun(req)
	if err != nil || r.Due != 4 || found[fresh].Verdict != gc.Reported || found[only].Verdict != gc.Protected {
		t.Fatalf("%+v, %v", r, err)
	}
	if f := found[unknown]; f.Verdict != gc.Due || f.Reason != gc.ReportedUnknown || f.Age < 900*time.Hour {
		t.Errorf("%+v", f)
	}
	all := h.objects()
	req.Confirmed = r.Due - 1
	if _, err := gc.Collect(t.Context(), h.opts, req, nil); !errors.Is(err, gc.ErrNotConfirmed) {
		t.Fatalf("Collect returns %v", err)
	}
	h.has(all...)

	var gone []string
	req.Confirmed = r.Due
	h.put("notes.txt")
	r, err = gc.Collect(t.Context(), h.opts, req, func(f gc.Judgement) error {
		if f.Verdict == gc.Foreign {
			t.Errorf("%s was not due, and is reported", f.Key)
		}
		if f.Verdict == gc.Deleted {
			gone = append(gone, f.Key)
		}
		return nil
	})
	want := []string{newer, unknown, doubtful, doubtfulNewer}
	slices.Sort(want)
	slices.Sort(gone)
	if err != nil || r.Deleted != 4 || !slices.Equal(gone, want) {
		t.Fatalf("%+v, %v, deleted %q", r, err, gone)
	}
	h.has(key, key+".meta", fresh, fresh+".meta", only, only+".meta", "notes.txt")
	if !h.isCollected(3) {
		t.Error("the deleted workspace is not marked as collected")
	}
}

func TestACommandDoesNotDeleteWhatMayStillBeUndeleted(t *testing.T) {
	h := newHarness(t)
	doubtful := h.archive(1, 1)
	h.archive(1, 2)
	h.insert(1, current(doubtful)+", "+deleted+", operation = 'DELETING'")
	all := h.objects()
	r, err := gc.Collect(t.Context(), h.opts, gc.Request{Unknown: true, Confirmed: 2}, nil)
	if err != nil || r.Due != 2 || r.Spared != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(all...)
}

func TestManyUnknownArchivesNeedForceAsWell(t *testing.T) {
	h := newHarness(t)
	for i := range 30 {
		h.archive(100+i, 1)
	}
	h.insert(1, "name = 'x'")
	var breaker *gc.CircuitBreakerError
	if _, err := gc.Collect(t.Context(), h.opts, gc.Request{Unknown: true, Confirmed: 30}, nil); !errors.As(err, &breaker) {
		t.Fatalf("Collect returns %v", err)
	}
	req := gc.Request{Unknown: true}
	if r, _, err := h.dryRun(req); !errors.As(err, &breaker) || r.Due != 30 {
		t.Fatalf("the dry run: %+v, %v", r, err)
	}
	req.Force = true
	if r, _, err := h.dryRun(req); err != nil || r.Due != 30 {
		t.Fatalf("the dry run of what is forced: %+v, %v", r, err)
	}
	req.Confirmed = 30
	r, err := gc.Collect(t.Context(), h.opts, req, nil)
	if err != nil || r.Deleted != 30 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has()
}

func TestOneCycleAtATime(t *testing.T) {
	h := newHarness(t)
	h.superseded(1)
	h.collect()
	h.age(3 * time.Hour)
	other, err := h.store.TryExclusive(t.Context(), gc.Lock, "node-2")
	if err != nil {
		t.Fatal(err)
	}
	var busy *postgres.BusyError
	if _, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil); !errors.As(err, &busy) || busy.Holder != "node-2" {
		t.Fatalf("Collect returns %v", err)
	}
	other.End(t.Context())
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
}
