package gc

import (
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	ws  = workspace.ID("00000000-0000-4000-8000-000000000001")
	op0 = "00000000-0000-4000-8000-0000000000a0"
	op1 = "00000000-0000-4000-8000-0000000000a1"
	op2 = "00000000-0000-4000-8000-0000000000a2"
	op3 = "00000000-0000-4000-8000-0000000000a3"
	op4 = "00000000-0000-4000-8000-0000000000a4"
)

// at returns an archive of ws that was written that many minutes after the beginning.
func at(op string, minute int) listed {
	return listed{key: ws.ArchiveKey(op), id: ws, size: 1, modified: time.Unix(0, 0).Add(time.Duration(minute) * time.Minute), marker: true}
}

func TestTheOrderOfTheRules(t *testing.T) {
	// K1 is the row's archive, K2 that of its operation; K0 is older than K1, K3 younger.
	k0, k1, k2, k3 := at(op0, 0), at(op1, 1), at(op2, 2), at(op3, 3)
	all := []listed{k0, k1, k2, k3}
	withoutNewer := []listed{k0, k1, k2}
	row := store.Protection{ArchiveKey: k1.key, ArchiveOpID: op2}
	with := func(change func(*store.Protection)) store.Protection {
		p := row
		change(&p)
		return p
	}
	deleted := func(p *store.Protection) { p.Deleted = true }
	later := with(func(p *store.Protection) { p.CreatedAt = k1.modified })
	failed := with(func(p *store.Protection) { p.Unhealthy = true })
	noKey := with(func(p *store.Protection) { p.ArchiveKey = "" })
	collected := with(func(p *store.Protection) { p.Deleted, p.CollectedAt = true, time.Unix(1, 0) })
	half := k1
	half.marker = false
	lone := k1
	lone.size = UnknownSize
	same := at(op3, 1)
	k4, half3 := at(op4, 4), k3
	half3.marker = false
	reverted := store.Protection{ArchiveKey: k1.key, Replaced: k3.key, Newest: k3.key}
	twice := store.Protection{ArchiveKey: k1.key, Replaced: k0.key, Newest: k3.key}
	revertedDeleted := reverted
	revertedDeleted.Deleted = true
	for _, c := range []struct {
		name    string
		a       listed
		p       store.Protection
		listing []listed
		unknown bool
		why     Reason
		keep    int // 1, if it is 0
	}{
		{name: "no such workspace", a: k1, unknown: true, listing: all, why: ReportedUnknown},
		{name: "current", a: k1, p: row, listing: all, why: KeptCurrent},
		{name: "being made", a: k2, p: row, listing: all, why: KeptOperation},
		{name: "current and made by the last operation", a: k1, p: with(func(p *store.Protection) { p.ArchiveOpID = op1 }), listing: all, why: KeptOperation},
		{name: "older", a: k0, p: row, listing: all, why: OrphanSuperseded},
		{name: "older, without a commit marker", a: listed{key: k0.key, id: ws, size: 1, modified: k0.modified}, p: row, listing: all, why: OrphanSuperseded},
		{name: "older than the workspace", a: k0, p: later, listing: all, why: ReportedEarlier},
		{name: "older than the workspace, which has none of its own", a: k0, p: store.Protection{CreatedAt: k1.modified}, listing: []listed{k0}, why: ReportedEarlier},
		{name: "older than the workspace, whose own it is", a: k1, p: with(func(p *store.Protection) { p.CreatedAt = k3.modified }), listing: all, why: KeptCurrent},
		{name: "older than the workspace, which is deleted", a: k0, p: store.Protection{Deleted: true, CreatedAt: k1.modified}, listing: []listed{k0}, why: ReportedEarlier},
		{name: "older than the workspace, which is collected", a: k0, p: store.Protection{Deleted: true, CollectedAt: time.Unix(1, 0), CreatedAt: k1.modified}, listing: []listed{k0}, why: ReportedEarlier},
		{name: "older than the workspace, which is in error", a: k0, p: store.Protection{Unhealthy: true, CreatedAt: k1.modified}, listing: []listed{k0}, why: KeptUnhealthy},
		{name: "older than the workspace by less than clocks may differ", a: k0, p: with(func(p *store.Protection) { p.CreatedAt = k0.modified.Add(time.Second) }), listing: all, why: OrphanSuperseded},
		{name: "younger", a: k3, p: row, listing: all, why: ReportedNewer},
		{name: "as old as the current one", a: same, p: row, listing: []listed{k1, same}, why: ReportedNewer},
		{name: "made by an operation that gave way, before the current one", a: k0, p: with(func(p *store.Protection) { p.ArchiveOpID = op1 }), listing: all, why: OrphanSuperseded},

		{name: "the current one is collected (an older database)", a: k2, p: store.Protection{ArchiveKey: k1.key}, listing: []listed{k2}, why: KeptCurrentMissing},
		{name: "the same, an older archive", a: k0, p: row, listing: []listed{k0, k2}, why: KeptCurrentMissing},
		{name: "the current one has no commit marker", a: k0, p: row, listing: []listed{k0, half}, why: KeptCurrentMissing},
		{name: "of the current one only the commit marker is left", a: k0, p: row, listing: []listed{k0, lone}, why: KeptCurrentMissing},
		{name: "no current one", a: k0, p: noKey, listing: all, why: KeptWithoutCurrent},
		{name: "no current one, being made", a: k2, p: noKey, listing: all, why: KeptOperation},
		{name: "another workspace's key in the row", a: k0, p: with(func(p *store.Protection) { p.ArchiveKey = "x" + k1.key }), listing: all, why: KeptCurrentMissing},

		{name: "in error: older", a: k0, p: failed, listing: all, why: KeptUnhealthy},
		{name: "in error: current", a: k1, p: failed, listing: all, why: KeptUnhealthy},
		{name: "in error: younger", a: k3, p: failed, listing: all, why: KeptUnhealthy},

		{name: "deleted: current", a: k1, p: with(deleted), listing: withoutNewer, why: OrphanDeleted},
		{name: "deleted: made last", a: k2, p: with(deleted), listing: withoutNewer, why: OrphanDeleted},
		{name: "deleted: older", a: k0, p: with(deleted), listing: withoutNewer, why: OrphanSuperseded},
		{name: "deleted and in error: current", a: k1, p: with(func(p *store.Protection) { p.Deleted, p.Unhealthy = true, true }), listing: withoutNewer, why: OrphanDeleted},
		{name: "deleted and in error: older", a: k0, p: with(func(p *store.Protection) { p.Deleted, p.Unhealthy = true, true }), listing: withoutNewer, why: OrphanDeleted},
		{name: "deleted, with a newer one: current", a: k1, p: with(deleted), listing: all, why: ReportedDeletedNewer},
		{name: "deleted, with a newer one: made last", a: k2, p: with(deleted), listing: all, why: ReportedDeletedNewer},
		{name: "deleted, with a newer one: that", a: k3, p: with(deleted), listing: all, why: ReportedNewer},
		{name: "deleted, with a newer one: older", a: k0, p: with(deleted), listing: all, why: OrphanSuperseded},
		{name: "deleted, the current one is missing: made last", a: k2, p: with(deleted), listing: []listed{k2}, why: ReportedDeletedMissing},
		{name: "deleted without an archive", a: k0, p: store.Protection{Deleted: true}, listing: []listed{k0}, why: OrphanDeleted},
		{name: "two are kept: older", a: k0, p: row, listing: all, keep: 2, why: KeptRetained},
		{name: "two are kept: the third", a: at(op0, -1), p: row, listing: []listed{at(op0, -1), at(op4, 0), k1, k2}, keep: 2, why: OrphanSuperseded},
		{name: "two are kept, the younger does not count", a: k0, p: row, listing: all, keep: 2, why: KeptRetained},
		{name: "two are kept: older, without a commit marker", a: listed{key: k0.key, id: ws, size: 1, modified: k0.modified}, p: row,
			listing: []listed{{key: k0.key, id: ws, size: 1, modified: k0.modified}, k1}, keep: 2, why: OrphanSuperseded},
		{name: "two are kept: younger", a: k3, p: row, listing: all, keep: 2, why: ReportedNewer},
		{name: "two are kept, the current one is missing", a: k0, p: row, listing: []listed{k0, k2}, keep: 2, why: KeptCurrentMissing},
		{name: "two are kept, deleted: older", a: k0, p: with(deleted), listing: withoutNewer, keep: 2, why: OrphanDeleted},
		{name: "two are kept, deleted, with a newer one: older", a: k0, p: with(deleted), listing: all, keep: 2, why: ReportedDeletedNewer},
		{name: "two are kept, collected: older", a: k0, p: collected, listing: all, keep: 2, why: OrphanDeleted},

		{name: "reverted: current", a: k1, p: reverted, listing: all, why: KeptCurrent},
		{name: "reverted: what it has replaced", a: k3, p: reverted, listing: all, why: KeptReplaced},
		{name: "reverted: between the two", a: k2, p: reverted, listing: all, why: OrphanSuperseded},
		{name: "reverted, two are kept: between the two", a: k2, p: reverted, listing: all, keep: 2, why: KeptRetained},
		{name: "reverted, two are kept: older", a: k0, p: reverted, listing: all, keep: 2, why: OrphanSuperseded},
		{name: "reverted twice: what it has replaced", a: k0, p: twice, listing: all, why: KeptReplaced},
		{name: "reverted twice: the newest", a: k3, p: twice, listing: all, why: KeptReplaced},
		{name: "reverted: younger than what it has replaced", a: k4, p: reverted, listing: append(slices.Clone(all), k4), why: ReportedNewer},
		{name: "reverted, what it has replaced is incomplete: between", a: k2, p: reverted, listing: []listed{k1, k2, half3}, why: ReportedNewer},
		{name: "reverted and deleted: what it has replaced", a: k3, p: revertedDeleted, listing: all, why: OrphanDeleted},
		{name: "reverted and deleted, with a newer one: what it has replaced", a: k3, p: revertedDeleted, listing: append(slices.Clone(all), k4), why: ReportedDeletedNewer},
		{name: "reverted, the current one is missing: what it has replaced", a: k3, p: reverted, listing: []listed{k3}, why: KeptReplaced},
		{name: "recovered from an older one: the newest", a: k3, p: with(func(p *store.Protection) { p.Newest = k3.key }), listing: all, why: ReportedNewer},

		{name: "collected: current", a: k1, p: collected, listing: all, why: OrphanDeleted},
		{name: "collected: what was left over", a: k0, p: collected, listing: []listed{k0}, why: OrphanDeleted},
		{name: "collected: younger", a: k3, p: collected, listing: all, why: OrphanDeleted},
	} {
		t.Run(c.name, func(t *testing.T) {
			listing := slices.Clone(c.listing)
			compared := compare(listing, c.p)
			retain(listing, c.p, compared, max(c.keep, 1))
			a := c.a
			if i := slices.IndexFunc(listing, func(l listed) bool { return l.key == a.key }); i >= 0 {
				a = listing[i]
			}
			if why := judge(a, c.p, !c.unknown, compared); why != c.why {
				t.Errorf("%q, want %q", why, c.why)
			}
		})
	}
}

func TestWhatIsDeletedByItselfAndWhatNeedsAMark(t *testing.T) {
	live, deleted := store.Protection{}, store.Protection{Deleted: true}
	collected := store.Protection{Deleted: true, CollectedAt: time.Unix(1, 0)}
	for _, c := range []struct {
		r                Reason
		orphan, reported bool
		marked           bool // for a deleted workspace
	}{
		{r: OrphanDeleted, orphan: true, marked: true},
		{r: OrphanSuperseded, orphan: true},
		{r: ReportedUnknown, reported: true, marked: true},
		{r: ReportedNewer, reported: true, marked: true}, {r: ReportedEarlier, reported: true, marked: true},
		{r: ReportedDeletedNewer, reported: true, marked: true},
		{r: ReportedDeletedMissing, reported: true, marked: true},
		{r: KeptReplaced, marked: true}, {r: KeptRetained, marked: true},
		{r: KeptUnhealthy, marked: true}, {r: KeptOperation, marked: true}, {r: KeptCurrent, marked: true},
		{r: KeptWithoutCurrent, marked: true}, {r: KeptCurrentMissing, marked: true},
	} {
		if c.r.orphan() != c.orphan || c.r.reported() != c.reported {
			t.Errorf("%q: orphan %v, reported %v", c.r, c.r.orphan(), c.r.reported())
		}
		if needsMark(c.r, live) || needsMark(c.r, deleted) != c.marked || needsMark(c.r, collected) {
			t.Errorf("%q: needs a mark: live %v, deleted %v, collected %v", c.r,
				needsMark(c.r, live), needsMark(c.r, deleted), needsMark(c.r, collected))
		}
	}
}
