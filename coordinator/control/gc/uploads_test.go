package gc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
)

// aged is a bucket whose unfinished uploads were begun earlier.
type aged struct {
	gc.Archives
	by time.Duration
}

func (a aged) ListUploads(ctx context.Context, page func([]archive.Upload) error) error {
	return a.Archives.ListUploads(ctx, func(uploads []archive.Upload) error {
		for i := range uploads {
			uploads[i].Initiated = uploads[i].Initiated.Add(-a.by)
		}
		return page(uploads)
	})
}

func (h *harness) uploads() []string {
	h.t.Helper()
	var keys []string
	if err := h.archives.ListUploads(h.t.Context(), func(page []archive.Upload) error {
		for _, u := range page {
			keys = append(keys, u.Key)
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func TestUnfinishedUploadsAreAbortedAfterADay(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key, foreign := id(1).ArchiveKey(op(1)), "somebody/elses/file"
	h.objectStore.BeginUpload(t, "archives/"+key)
	h.objectStore.BeginUpload(t, "archives/"+foreign)
	both := h.uploads()
	whole := h.opts.Archives
	h.opts.Archives = aged{whole, gc.DefaultUploadExpiry - time.Hour}
	if r := h.collect(); r.Uploads != 0 || !slices.Equal(h.uploads(), both) || len(both) != 2 {
		t.Fatalf("%+v, %q", r, h.uploads())
	}
	h.opts.Archives = aged{whole, gc.DefaultUploadExpiry + time.Hour}
	if r, _, err := h.dryRun(gc.Request{}); err != nil || r.Uploads != 1 || len(h.uploads()) != 2 {
		t.Fatalf("%+v, %v, %q", r, err, h.uploads())
	}
	if r := h.collect(); r.Uploads != 1 || !slices.Equal(h.uploads(), []string{foreign}) {
		t.Fatalf("%+v, %q", r, h.uploads())
	}

	// The expiry is an option.
	h.objectStore.BeginUpload(t, "archives/"+key)
	h.opts.Archives = aged{whole, time.Hour}
	h.opts.Settings.UploadExpiry = time.Minute
	if r := h.collect(); r.Uploads != 1 {
		t.Fatalf("%+v", r)
	}
}

func TestUploadsThatCannotBeListedAreAnError(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	out := errors.New("out of order")
	h.opts.Archives = broken{Archives: h.opts.Archives, uploads: out}
	if _, err := gc.Collect(t.Context(), h.opts, gc.Request{}, nil); !errors.Is(err, out) {
		t.Errorf("Collect returns %v", err)
	}
	if _, _, err := h.dryRun(gc.Request{}); !errors.Is(err, out) {
		t.Errorf("DryRun returns %v", err)
	}
}
