package gc_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
)

// The database is restored from a dump that is older than the bucket (SPEC 12.9).
func TestNothingThatIsNewerThanTheDatabaseGoes(t *testing.T) {
	for name, prepare := range map[string]func(h *harness) (kept, gone []string){
		"K1 was collected, K2 is the work of today": func(h *harness) (kept, gone []string) {
			h.insert(1, current(id(1).ArchiveKey(op(1)))+", archive_op_id = '"+op(1)+"'")
			return []string{h.archive(1, 2)}, nil
		},
		"K1 is still there, K2 is the work of today": func(h *harness) (kept, gone []string) {
			k0, k1 := h.archive(1, 0), h.archive(1, 1)
			h.insert(1, current(k1)+", archive_op_id = '"+op(1)+"'")
			return []string{k1, h.archive(1, 2)}, []string{k0}
		},
		"the workspace had no archive yet": func(h *harness) (kept, gone []string) {
			h.insert(1, "phase = 'STANDBY', desired_state = 'STANDBY'")
			return []string{h.archive(1, 1), h.archive(1, 2)}, nil
		},
		"the workspace did not exist yet": func(h *harness) (kept, gone []string) {
			h.insert(2, "name = 'x'")
			return []string{h.archive(1, 1)}, nil
		},
		"the workspace was deleted, and its deletion undone afterwards": func(h *harness) (kept, gone []string) {
			k1 := h.archive(1, 1)
			h.insert(1, current(k1)+", "+deleted)
			return []string{k1, h.archive(1, 2)}, nil
		},
		"the same, and K1 was collected": func(h *harness) (kept, gone []string) {
			h.insert(1, current(id(1).ArchiveKey(op(1)))+", "+deleted)
			return []string{h.archive(1, 2)}, nil
		},
		"the workspace was made anew with the same key, and archived": func(h *harness) (kept, gone []string) {
			k1, k2 := h.archive(1, 1), h.archive(1, 2)
			h.insert(1, current(k2)+", created_at = now()")
			return []string{k1, k2}, nil
		},
		"the workspace was in ERROR": func(h *harness) (kept, gone []string) {
			k1 := h.archive(1, 1)
			h.insert(1, current(k1)+", phase = 'ERROR', error_reason = 'Timeout'")
			return []string{h.archive(1, 0), k1, h.archive(1, 2)}, nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			kept, gone := prepare(h)
			r := h.collectLate()
			if r.Deleted != len(gone) {
				t.Errorf("%+v", r)
			}
			r = h.collectLate() // a second time, with the marks of the first
			if r.Due != 0 {
				t.Errorf("%+v", r)
			}
			h.lacks(gone...)
			var want []string
			for _, key := range kept {
				want = append(want, key, key+".meta")
			}
			h.has(want...)
		})
	}
}

// second returns the options of another installation on the same bucket and prefix, with a database of its own.
func (h *harness) second(installation string) gc.Options {
	h.t.Helper()
	db, err := store.Open(storetest.Migrated(h.t), postgres.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(db.Close)
	opts := h.opts
	opts.Store, opts.Identity = db, identity.New(db, nil, h.archives, installation, zap.NewNop())
	return opts
}

func TestABucketSharedByTwoInstallations(t *testing.T) {
	h := newHarness(t)
	h.superseded(1)
	h.collect()
	h.age(2 * gc.DefaultDelay)
	all := h.objects()
	opts := h.second("other")
	var mismatch *identity.MismatchError
	for _, req := range []gc.Request{{}, {Force: true}, {Unknown: true, Confirmed: 100, Force: true}} {
		if _, err := gc.Collect(t.Context(), opts, req, nil); !errors.As(err, &mismatch) {
			t.Fatalf("%+v: Collect returns %v", req, err)
		}
		h.has(all...)
	}
	// Even without the check of the bucket's identity, the other installation's archives are unknown here, and so are
	// kept.
	opts.Identity = passing{}
	if r, err := gc.Collect(t.Context(), opts, gc.Request{Force: true}, nil); err != nil || r.Unknown != 2 || r.Due != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(all...)
}

// passing accepts every bucket.
type passing struct{}

func (passing) Bucket(context.Context) error { return nil }

func TestAnEmptyDatabaseBesideAFullBucket(t *testing.T) {
	h := newHarness(t)
	for i := range 5 {
		h.superseded(i)
	}
	h.collect()
	h.age(2 * gc.DefaultDelay)
	all := h.objects()
	// The bucket has the marker of the lost database, or none.
	opts := h.second("test")
	for range 2 {
		for _, req := range []gc.Request{{}, {Force: true}} {
			r, err := gc.Collect(t.Context(), opts, req, nil)
			if r.Deleted != 0 || r.Due != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			h.has(all...)
		}
		h.lose(archive.MarkerKey)
	}
}
