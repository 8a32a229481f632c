package gc

import (
	"testing"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	ws  = workspace.ID("00000000-0000-4000-8000-000000000001")
	op1 = "00000000-0000-4000-8000-0000000000a1"
	op2 = "00000000-0000-4000-8000-0000000000a2"
)

func TestOnlyObjectsWithOurNamesAreTakenForArchives(t *testing.T) {
	archive := ws.ArchiveKey(op1)
	for _, object := range []string{archive, archive + ".meta"} {
		key, id, ok := parse(object)
		if !ok || key != archive || id != ws {
			t.Errorf("%s is taken for %q of %q, %v", object, key, id, ok)
		}
	}
	for _, object := range []string{
		"", "/", "file", ".meta", string(ws), string(ws) + "/", string(ws) + "/" + op1, string(ws) + "/" + op1 + "/",
		archive + ".meta.meta", archive + "x", archive + "/x", "/" + archive, "x/" + archive,
		string(ws) + "/" + op1 + "/home.tar.gz", string(ws) + "/" + op1 + "/x/home.tar.zst",
		string(ws) + "/latest/home.tar.zst", "workspace/" + op1 + "/home.tar.zst",
		"00000000-0000-4000-8000-00000000000G/" + op1 + "/home.tar.zst",
		"ABCDEF00-0000-4000-8000-000000000001/" + op1 + "/home.tar.zst",
		string(ws) + "//home.tar.zst", string(ws) + "/" + op1 + "//home.tar.zst",
	} {
		if key, _, ok := parse(object); ok {
			t.Errorf("%q is taken for archive %q", object, key)
		}
	}
}

func TestTheOrderOfProtection(t *testing.T) {
	current, making, old := ws.ArchiveKey(op1), ws.ArchiveKey(op2), ws.ArchiveKey("00000000-0000-4000-8000-0000000000a3")
	both := store.Protection{ArchiveKey: current, ArchiveOpID: op2}
	with := func(change func(*store.Protection)) store.Protection {
		p := both
		change(&p)
		return p
	}
	deleted := with(func(p *store.Protection) { p.Deleted = true })
	failed := with(func(p *store.Protection) { p.Unhealthy = true })
	failedAndDeleted := with(func(p *store.Protection) { p.Unhealthy, p.Deleted = true, true })
	for _, c := range []struct {
		name, key string
		p         store.Protection
		unknown   bool
		orphan    bool
		why       Reason
	}{
		{name: "current archive", key: current, p: both, why: KeptCurrent},
		{name: "archive being made", key: making, p: both, why: KeptOperation},
		{name: "both at once", key: current, p: store.Protection{ArchiveKey: current, ArchiveOpID: op1}, why: KeptOperation},
		{name: "older archive", key: old, p: both, orphan: true, why: OrphanSuperseded},
		{name: "no archive known", key: old, p: store.Protection{}, orphan: true, why: OrphanSuperseded},
		{name: "in error: older archive", key: old, p: failed, why: KeptUnhealthy},
		{name: "in error: current archive", key: current, p: failed, why: KeptUnhealthy},
		{name: "deleted: current archive", key: current, p: deleted, orphan: true, why: OrphanDeleted},
		{name: "deleted: archive being made", key: making, p: deleted, orphan: true, why: OrphanDeleted},
		{name: "deleted and in error", key: current, p: failedAndDeleted, orphan: true, why: OrphanDeleted},
		{name: "no such workspace", key: current, unknown: true, orphan: true, why: OrphanUnknown},
		// Another workspace's key in the row protects nothing of this one.
		{name: "key of another workspace", key: current, p: store.Protection{ArchiveKey: "x" + current}, orphan: true, why: OrphanSuperseded},
	} {
		t.Run(c.name, func(t *testing.T) {
			why := judge(c.key, ws, c.p, !c.unknown)
			if why.orphan() != c.orphan || why != c.why {
				t.Errorf("orphan %v, %q; want %v, %q", why.orphan(), why, c.orphan, c.why)
			}
		})
	}
}
