package backendtest

import (
	"errors"
	"net/http"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// testAddresses checks that a container has the address of its slot and that no other container has that address at the
// same time. For every process, a slot always means the same address.
func testAddresses(t *testing.T, f Fixture) {
	b, ctx, one, two := f.New(t, Installation()), Context(t), newID(), newID()
	if b.Addresses == nil {
		testGivenAddresses(t, b)
		return
	}
	pool, err := b.Addresses(ctx)
	must(t, err)
	again, err := b.Addresses(ctx)
	must(t, err)
	if pool.Name == "" || pool.First <= 0 || pool.Size < 3 || again != pool {
		t.Fatalf("the pool is %+v and then %+v", pool, again)
	}
	start := func(id workspace.ID, slot int64) error {
		return b.Start(ctx, backend.StartSpec{ID: id, Slot: slot})
	}
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: one, OpID: "op"}))
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: two, OpID: "op"}))
	must(t, start(one, pool.First))
	first := Ready(t, b, one)

	if err := start(two, pool.First); !errors.Is(err, backend.ErrAddressInUse) {
		t.Fatalf("the second container starts at the address of the first: %v", err)
	}
	if c, ok := containerOf(t, b, two); ok && c.Running {
		t.Fatalf("it runs: %+v", c)
	}
	must(t, start(two, pool.First+1))
	second := Ready(t, b, two)
	if second == first {
		t.Fatalf("both are at %s", first)
	}
	// A running container keeps its address; one that has ended gets the new address.
	must(t, start(two, pool.First+2))
	if c, _ := containerOf(t, b, two); c.Endpoint != second {
		t.Fatalf("a running container moved from %s to %s", second, c.Endpoint)
	}
	exitWith(t, second, 0)
	wait.Until(t, "the container ended", func() bool { c, _ := containerOf(t, b, two); return !c.Running })
	must(t, start(two, pool.First+2))
	if third := Ready(t, b, two); third == first || third == second {
		t.Fatalf("with another slot it is at %s, before at %s, the other container at %s", third, second, first)
	}
	if res, err := http.Get("http://" + first + "/"); err != nil {
		t.Fatalf("the first does not answer any more: %v", err)
	} else {
		res.Body.Close()
	}
	// A released address can be assigned again.
	must(t, b.Delete(ctx, two))
	must(t, start(two, pool.First+1))
	if back := Ready(t, b, two); back != second {
		t.Fatalf("the slot of %s is now %s", second, back)
	}
}

// testGivenAddresses is for an engine that chooses the addresses itself: it ignores the requested slot.
func testGivenAddresses(t *testing.T, b backend.Backend) {
	ctx, one, two := Context(t), newID(), newID()
	for _, id := range []workspace.ID{one, two} {
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		must(t, b.Start(ctx, backend.StartSpec{ID: id, Slot: 1}))
	}
	if first, second := Ready(t, b, one), Ready(t, b, two); first == second {
		t.Errorf("both are at %s", first)
	}
}
