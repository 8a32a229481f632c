package gc_test

import (
	"slices"
	"testing"

	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/store"
)

// rows returns the keys of the table of archives.
func (h *harness) rows(ws int) (keys []string) {
	h.t.Helper()
	found, err := h.store.Archives(h.t.Context(), id(ws))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, a := range found {
		keys = append(keys, a.Key)
	}
	slices.Sort(keys)
	return keys
}

func (h *harness) hasRows(ws int, want ...string) {
	h.t.Helper()
	slices.Sort(want)
	if got := h.rows(ws); !slices.Equal(got, want) {
		h.t.Errorf("the table has %q, want %q", got, want)
	}
}

func TestTheLastArchivesAreKeptAndRecorded(t *testing.T) {
	h := newHarness(t)
	h.opts.Settings = gc.DefaultSettings()
	h.opts.Settings.Keep = 3
	var keys []string
	for n := range 5 {
		keys = append(keys, h.archive(1, n))
	}
	half := h.half(1, 9)
	h.written[half] = h.written[keys[4]].Add(-1) // incomplete ones do not count
	h.insert(1, current(keys[4]))
	all := slices.Clone(keys)

	h.collect()
	h.hasRows(1, all...)
	if r := h.collectLate(); r.Deleted != 3 {
		t.Fatalf("%+v", r)
	}
	h.lacks(keys[0], keys[1], half)
	h.hasRows(1, keys[2:]...)
	if r := h.collectLate(); r.Orphans != 0 || r.Newer != 0 {
		t.Fatalf("%+v", r)
	}

	// When the setting is lowered, the surplus archives are deleted after the usual delay.
	h.opts.Settings.Keep = 1
	if r := h.collect(); r.Orphans != 2 || r.Due != 0 {
		t.Fatalf("%+v", r)
	}
	// More are kept again before the delay has passed.
	h.opts.Settings.Keep = 2
	h.age(3 * gc.DefaultDelay)
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.hasRows(1, keys[3:]...)
}

func TestARevertLeavesTheWayBack(t *testing.T) {
	h := newHarness(t)
	old, between, replaced := h.archive(1, 1), h.archive(1, 2), h.archive(1, 3)
	h.insert(1, current(replaced)+`, revert = '{"id": "r", "key": "`+old+`"}'`)
	// While the request is open, everything is kept.
	if r := h.collectLate(); r.Orphans != 0 {
		t.Fatalf("%+v", r)
	}
	h.update(1, current(old)+`, home_ctx = '{"revert_id": "r", "replaced": "`+replaced+`", "newest": "`+replaced+`"}'`)
	if r := h.collectLate(); r.Deleted != 1 || r.Newer != 0 {
		t.Fatalf("%+v", r)
	}
	h.lacks(between)
	h.hasRows(1, old, replaced)
	// The next archive ends it.
	next := h.archive(1, 4)
	h.update(1, current(next)+`, home_ctx = '{"revert_id": "r"}'`)
	if r := h.collectLate(); r.Deleted != 2 {
		t.Fatalf("%+v", r)
	}
	h.hasRows(1, next)
}

// The retained archives of a deleted workspace are treated like its current one: they are deleted only after the
// workspace was marked as collected, and can no longer be undeleted.
func TestTheLastArchivesOfADeletedWorkspaceGoTogether(t *testing.T) {
	h := newHarness(t)
	h.opts.Settings = gc.DefaultSettings()
	h.opts.Settings.Keep = 2
	old, last := h.archive(1, 1), h.archive(1, 2)
	h.insert(1, current(last)+", operation = 'ARCHIVING', deleted_at = now() - interval '8 days', desired_state = 'DELETED', phase = 'DELETING'")
	if r := h.collectLate(); r.Orphans != 2 || r.Spared != 2 { // it is not archived yet, so it cannot be marked
		t.Fatalf("%+v", r)
	}
	h.has(old, old+".meta", last, last+".meta")
	h.update(1, "operation = 'NONE', awaits_gc = true")
	if r := h.collectLate(); r.Deleted != 2 || !h.isCollected(1) {
		t.Fatalf("%+v", r)
	}
	h.hasRows(1)
}

func TestADryRunRecordsNoArchive(t *testing.T) {
	h := newHarness(t)
	h.insert(1, current(h.archive(1, 1)))
	if _, err := gc.DryRun(t.Context(), h.opts, gc.Request{}, func(gc.Judgement) error { return nil }); err != nil {
		t.Fatal(err)
	}
	h.hasRows(1)
}

// The listing does not replace an archive's existing record.
func TestTheListingDoesNotOverwriteARecord(t *testing.T) {
	h := newHarness(t)
	key := h.archive(1, 1)
	h.insert(1, current(key))
	if _, err := h.pool.Exec(t.Context(), `INSERT INTO archives (workspace_id, key, size, files) VALUES ($1, $2, 7, 8)`, string(id(1)), key); err != nil {
		t.Fatal(err)
	}
	h.collect()
	found, err := h.store.Archives(t.Context(), id(1))
	if err != nil || len(found) != 1 || found[0].Size != 7 || found[0].Files != 8 {
		t.Fatalf("%+v, %v", found, err)
	}
	if err := h.store.AddArchives(t.Context(), []store.Archive{{WorkspaceID: id(99), Key: id(99).ArchiveKey(op(1))}}); err != nil {
		t.Errorf("an archive of no workspace: %v", err)
	}
}
