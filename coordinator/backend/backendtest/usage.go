package backendtest

import (
	"errors"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// testUsage checks that homes are counted while they are in use, and can be used and deleted while they are counted.
func testUsage(t *testing.T, f Fixture) {
	b, ctx, used, empty := f.New(t, Installation()), Context(t), newID(), newID()
	if !b.LocalHomes {
		testUnknownUsage(t, b)
		return
	}
	endpoint := started(t, b, used)
	const size = 300_000
	request(t, "PUT", endpoint, "/file?name=large", make([]byte, size))
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: empty, OpID: "op"}))
	got, err := b.Usage(ctx, time.Minute, used, empty, newID())
	must(t, err)
	if len(got) != 2 || got[used].AtLeast || got[used].Bytes != size || got[used].Files < 1 ||
		got[empty] != (backend.Usage{}) {
		t.Errorf("usage %+v, want %d bytes in one home and none in the other", got, size)
	}
	other, err := f.New(t, Installation()).Usage(ctx, time.Second, used)
	must(t, err)
	if len(other) != 0 {
		t.Errorf("another installation's home was counted: %+v", other)
	}
	if none, err := b.Usage(ctx, time.Second); err != nil || len(none) != 0 {
		t.Errorf("no home: %+v, %v", none, err)
	}
	if _, err := b.Usage(ctx, time.Second, workspace.ID("../etc")); err == nil {
		t.Error("an id that is none was accepted")
	}
	must(t, b.DeleteVolume(ctx, empty, "op"))
	if f.VolumeExists(t, empty) || f.JobCount(t, used) != 0 {
		t.Error("something of the count is left, and uses the homes")
	}
}

// testUnknownUsage checks that a home whose workspace does not run is missing from the result, without an error.
func testUnknownUsage(t *testing.T, b backend.Backend) {
	id, ctx := newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	if got, err := b.Usage(ctx, time.Second, id); err != nil || len(got) != 0 {
		t.Errorf("usage %+v, %v, want nothing", got, err)
	}
	if _, err := b.Usage(ctx, time.Second, workspace.ID("../etc")); err == nil {
		t.Error("an id that is none was accepted")
	}
}

func testDisk(t *testing.T, f Fixture) {
	b, ctx := f.New(t, Installation()), Context(t)
	if !b.LocalHomes {
		if d, err := b.Disk(ctx); !errors.Is(err, backend.ErrUnknownDisk) {
			t.Errorf("%+v, %v, want %v", d, err, backend.ErrUnknownDisk)
		}
		return
	}
	for range 2 { // the second result may come from another source
		d, err := b.Disk(ctx)
		must(t, err)
		if d.Total < 1<<20 || d.Free < 0 || d.Free > d.Total || d.Used() < 0 || d.Used() > 1 {
			t.Errorf("%+v, %.2f in use", d, d.Used())
		}
	}
}

// testMemory checks that the reported memory of the host is plausible while a container exists.
func testMemory(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	if b.Memory == nil {
		t.Skip("nothing here knows of the host's memory")
	}
	started(t, b, id)
	for range 2 { // the second result may come from another source
		m, err := b.Memory(ctx)
		must(t, err)
		if m.Total <= 0 || m.Available < 0 || m.Available > m.Total || m.Stalled < 0 || m.Stalled > 1 {
			t.Errorf("%+v", m)
		}
	}
}
