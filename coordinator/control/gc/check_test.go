package gc_test

import (
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
)

// A check of the object store creates objects, which may remain if it is interrupted. They count neither as archives
// nor as foreign objects.
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
