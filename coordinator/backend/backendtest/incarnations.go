package backendtest

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// volumeOf returns the workspace's volume as the backend lists it.
func volumeOf(t *testing.T, b backend.Backend, id workspace.ID) (workspace.Volume, bool) {
	t.Helper()
	all, err := b.Volumes(Context(t), id)
	must(t, err)
	v, ok := all[id]
	return v, ok
}

// wantVolume fails the test unless that operation's volume exists.
func wantVolume(t *testing.T, b backend.Backend, id workspace.ID, opID string) {
	t.Helper()
	if v, ok := volumeOf(t, b, id); !ok || v.OpID != opID {
		t.Errorf("the volume is %+v (exists: %t), want that of operation %q", v, ok, opID)
	}
}

// wantNoVolume fails the test if a volume exists.
func wantNoVolume(t *testing.T, b backend.Backend, id workspace.ID) {
	t.Helper()
	if v, ok := volumeOf(t, b, id); ok {
		t.Errorf("the volume exists: %+v", v)
	}
}

// testIdentity checks that every client sees the same identity: the engine's.
func testIdentity(t *testing.T, f Fixture) {
	ctx, installation := Context(t), Installation()
	first := f.New(t, installation)
	want, err := first.Identity(ctx)
	must(t, err)
	if want == "" {
		t.Fatal("no identity")
	}
	must(t, first.Provision(ctx, backend.VolumeSpec{ID: newID(), OpID: "op"}))
	for range 2 {
		again, err := first.Identity(ctx)
		must(t, err)
		other, err := f.New(t, Installation()).Identity(ctx)
		must(t, err)
		if again != want || other != want {
			t.Errorf("identities %s, %s and %s", want, again, other)
		}
	}
}

// testProvisionConflict checks that Provision refuses a volume of another operation, which may contain newer work (SPEC
// 12.9).
func testProvisionConflict(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	before := time.Now().Add(-2 * time.Second) // the engine's clock may have a resolution of a second
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "first"}))
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "first"}))
	v, _ := volumeOf(t, b, id)
	if v.OpID != "first" || v.CreatedAt.Before(before) || v.CreatedAt.After(time.Now().Add(time.Second)) {
		t.Errorf("volume %+v, test began %s", v, before)
	}
	for _, opID := range []string{"second", ""} {
		refused(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: opID}), workspace.ReasonConflict)
	}
	wantVolume(t, b, id, "first")
}

func testDeleteVolumeOfOther(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "mine"}))
	for _, opID := range []string{"other", "", "min", "mine2"} {
		must(t, b.DeleteVolume(ctx, id, opID))
		wantVolume(t, b, id, "mine")
	}
	must(t, b.DeleteVolume(ctx, id, "mine"))
	wantNoVolume(t, b, id)
}

// testLegacyVolume checks volumes from before operations were recorded: neither the volumes nor their rows name an
// operation.
func testLegacyVolume(t *testing.T, f Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	b := f.New(t, installation)
	f.LegacyVolume(t, installation, id)
	wantVolume(t, b, id, "")
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: ""}))
	refused(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}), workspace.ReasonConflict)
	must(t, b.DeleteVolume(ctx, id, "op"))
	wantVolume(t, b, id, "")
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	Ready(t, b, id)
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, ""))
	wantNoVolume(t, b, id)
}

// testLateDelete lets a deposed leader's request to delete a volume arrive late, when the next leader has already
// replaced the volume. The request must have no effect (SPEC 12.11).
func testLateDelete(t *testing.T, f Fixture) {
	for name, opID := range map[string]string{"labelled": "old", "legacy": ""} {
		t.Run(name, func(t *testing.T) {
			installation, id, ctx := Installation(), newID(), Context(t)
			successor := f.New(t, installation)
			deposed, held, release := f.Hold(t, installation)
			if opID == "" {
				f.LegacyVolume(t, installation, id)
			} else {
				must(t, successor.Provision(ctx, backend.VolumeSpec{ID: id, OpID: opID}))
			}
			late := make(chan error, 1)
			go func() { late <- deposed.DeleteVolume(ctx, id, opID) }()
			select {
			case <-held:
			case err := <-late:
				t.Fatalf("the request was not held back: %v", err)
			}
			must(t, successor.DeleteVolume(ctx, id, opID))
			must(t, successor.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "new"}))
			release()
			must(t, <-late)
			wantVolume(t, successor, id, "new")
		})
	}
}

// testDeletesAtOnce deletes the volumes of several workspaces from several processes. An engine may be able to delete
// only one volume at a time.
func testDeletesAtOnce(t *testing.T, f Fixture) {
	installation, ctx := Installation(), Context(t)
	backends := []backend.Backend{f.New(t, installation), f.New(t, installation), f.New(t, installation)}
	errs := make([]error, 12)
	var wg sync.WaitGroup
	for i := range errs {
		id := newID()
		must(t, backends[0].Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		wg.Go(func() { errs[i] = backends[i%len(backends)].DeleteVolume(ctx, id, "op") })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	if all, err := backends[0].Volumes(ctx); err != nil || len(all) != 0 {
		t.Errorf("volumes: %v, %v, want none", all, err)
	}
}
