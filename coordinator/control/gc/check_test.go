package gc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
)

// The objects of a running or interrupted check of the store are neither archives nor foreign.
func TestTheObjectsOfAStoreCheckAreLeftAlone(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.put(archive.CheckFolder + "LEFT")
	before := h.objects()
	r, found, err := h.dryRun(gc.Request{})
	if err != nil || r.Foreign != 0 || r.Archives != 0 || len(found) != 0 {
		t.Errorf("%+v, %v, %v", r, found, err)
	}
	h.collect()
	h.age(100 * time.Hour)
	if r := h.collect(); r.Foreign != 0 || !slices.Equal(h.objects(), before) {
		t.Errorf("%+v, %q", r, h.objects())
	}
}
