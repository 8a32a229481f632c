package gc_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// generated is a bucket whose listing is generated page by page. Each workspace has a number of archives, the
// last of which is the newest. It deletes nothing.
type generated struct {
	workspaces, each int
	base             uint64 // the heap before
	peak             uint64 // what was added to it at most
	deleted          int
}

func (g *generated) key(ws, n int) string { return id(ws).ArchiveKey(op(n)) }

func (g *generated) List(_ context.Context, page func([]archive.Object) error) error {
	g.base = heap()
	written := time.Unix(0, 0)
	var objects []archive.Object
	pages := 0
	send := func() error {
		err := page(objects)
		objects = nil
		if pages++; pages%50 == 0 {
			g.peak = max(g.peak, heap()-min(heap(), g.base))
		}
		return err
	}
	for ws := range g.workspaces {
		for n := range g.each {
			for _, suffix := range []string{"", ".meta"} {
				objects = append(objects, archive.Object{Key: g.key(ws, n) + suffix, Size: 1, LastModified: written.Add(time.Duration(n) * time.Hour)})
				if len(objects) < 1000 {
					continue
				}
				if err := send(); err != nil {
					return err
				}
			}
		}
	}
	return send()
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func (g *generated) Delete(_ context.Context, keys []string) (map[string]error, error) {
	g.deleted += len(keys) / 2
	return nil, nil
}

func (g *generated) Stat(_ context.Context, key string) (archive.Info, error) {
	return archive.Info{Modified: time.Unix(0, 0).Add(time.Duration(g.each-1) * time.Hour)}, nil
}

func (g *generated) ListUploads(_ context.Context, page func([]archive.Upload) error) error {
	for n := range 100_000 {
		u := archive.Upload{Key: g.key(1, n), ID: "id", Initiated: time.Unix(0, 0)}
		if err := page([]archive.Upload{u}); err != nil {
			return err
		}
	}
	return nil
}

func (g *generated) AbortUpload(context.Context, archive.Upload) error { return nil }

// rows are the rows of a generated bucket's workspaces; everything else is a real database.
type rows struct {
	gc.Store
	g       *generated
	deleted bool
}

func (r rows) Protection(_ context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error) {
	out := make(map[workspace.ID]store.Protection, len(ids))
	for _, id := range ids {
		out[id] = store.Protection{ArchiveKey: id.ArchiveKey(op(r.g.each - 1)), Deleted: r.deleted, DeletedFor: 8 * 24 * time.Hour}
	}
	return out, nil
}

func TestAMillionObjectsAreCollectedInBoundedMemory(t *testing.T) {
	const objects = 1_000_000
	for name, g := range map[string]*generated{
		"one archive each": {workspaces: objects / 2, each: 1},
		"ten each":         {workspaces: objects / 20, each: 10},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			h.opts.Archives, h.opts.Store = g, rows{Store: h.store, g: g}
			h.opts.Identity = passing{}
			h.opts.Settings.Delay = time.Nanosecond
			superseded := g.workspaces * (g.each - 1)
			if superseded > 0 {
				h.collect() // sees the orphans for the first time
			}
			r := h.collect()
			if r.Objects != objects || r.Orphans != superseded || r.Deleted != min(superseded, gc.MaxDue) || r.Uploads != gc.MaxUploads {
				t.Errorf("%+v", r)
			}
			t.Logf("%.1f MiB more at most", float64(g.peak)/(1<<20))
			if g.peak > 30<<20 {
				t.Errorf("%d bytes are added to the heap", g.peak)
			}
		})
	}
}

// In normal use no workspace has that many archives. This test checks that the archives of such a workspace are not all
// kept in memory at once, and that they are deleted in the end.
func TestMoreArchivesOfOneWorkspaceThanCanBeCompared(t *testing.T) {
	for _, c := range []struct {
		deleted bool
		orphans int
		newer   int
	}{
		{deleted: false, orphans: 3*gc.MaxHeld - 1},
		// The current archive of a deleted workspace is kept until fewer archives are left. The workspace's row must
		// not be marked as collected before one cycle has compared all its archives.
		{deleted: true, orphans: 3*gc.MaxHeld - 1, newer: 1},
	} {
		t.Run(fmt.Sprintf("deleted: %v", c.deleted), func(t *testing.T) {
			h := newHarness(t)
			g := &generated{workspaces: 1, each: 3 * gc.MaxHeld}
			h.opts.Archives, h.opts.Store = g, rows{Store: h.store, g: g, deleted: c.deleted}
			h.opts.Identity = passing{}
			h.opts.Settings.Delay = time.Nanosecond
			h.collect()
			if r := h.collect(); r.Orphans != c.orphans || r.Newer != c.newer || r.Archives != 3*gc.MaxHeld || r.Deleted != c.orphans {
				t.Errorf("%+v", r)
			}
		})
	}
}
