package processtest

import (
	"testing"

	"filippo.io/age"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Each of the following scenarios is about a single feature, and reaches the points that only this feature has.

// reverted begins with an empty home, archives twice, and goes back to the first archive.
var reverted = []step{
	{"created asleep", func(t testing.TB, h *home) { h.await(t, workspace.PhaseStandby) }},
	{"used", func(t testing.TB, h *home) { h.run(t); h.write(t, "one") }},
	archivedStep,
	{"used again", func(t testing.TB, h *home) { h.run(t); h.write(t, "two") }},
	archivedStep,
	{"gone back", func(t testing.TB, h *home) {
		older := h.olderArchive(t)
		wait.For(t, "the older archive is chosen", func() error {
			_, err := h.service.Revert(t.Context(), h.owner, h.id, older)
			return err
		})
		delete(h.content, "two")
		wait.Until(t, "the older archive is the current one", func() bool {
			w := h.row(t)
			return !w.Reverting() && w.Operation == workspace.OpNone && w.ArchiveKey == older
		})
	}},
	{"used as it was", func(t testing.TB, h *home) {
		h.run(t)
		h.check(t)
		h.exec(t, nil, "test ! -e /home/coder/two")
	}},
}

// olderArchive is the archive before the current one.
func (h *home) olderArchive(t testing.TB) (key string) {
	t.Helper()
	wait.Until(t, "there are two archives", func() bool {
		archives, err := h.service.Archives(t.Context(), h.owner, h.id)
		if err != nil || len(archives) < 2 {
			return false
		}
		key = archives[1].Key
		return archives[0].Current
	})
	return key
}

// unchanged archives an unchanged home: the previous archive stays the current one.
var unchanged = []step{
	createdStep,
	archivedStep,
	{"looked at", awakeStep.do},
	{"archived as before", func(t testing.TB, h *home) {
		before := h.row(t).ArchiveKey
		archivedStep.do(t, h)
		if now := h.row(t).ArchiveKey; now != before {
			t.Errorf("the archive %s was made although nothing has changed since %s", now, before)
		}
	}},
	awakeStep,
}

// encrypted makes two encrypted archives: one of an empty home, and one of a home with a file.
var encrypted = []step{
	{"archived at once", func(t testing.TB, h *home) { h.await(t, workspace.PhaseArchived) }},
	{"used", func(t testing.TB, h *home) { h.run(t); h.write(t, "secret") }},
	archivedStep,
	awakeStep,
}

// newKeys makes the keys of a run.
func newKeys() archive.Keys {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		panic(err)
	}
	return archive.Keys{Recipients: []string{key.Recipient().String()}, Identities: []string{key.String()}}
}

// readBack waits until the scrub has read the archive. The scrub begins a minute after the term has begun. If another
// process takes over, this takes another minute.
var readBack = []step{
	{"archived at once", func(t testing.TB, h *home) { h.await(t, workspace.PhaseArchived) }},
	{"read back", func(t testing.TB, h *home) {
		began := h.term(t)
		read := func() bool {
			return postgrestest.Value[bool](t, h.own, `SELECT archive_verified_at IS NOT NULL FROM workspaces WHERE id = $1`, string(h.id))
		}
		wait.Until(t, "the archive was read back, or another process leads", func() bool { return read() || h.term(t) != began })
		wait.Until(t, "the archive was read back", read)
	}},
}

// term is the number of the leader's term.
func (in *installation) term(t testing.TB) int64 {
	t.Helper()
	return postgrestest.Value[int64](t, in.own, `SELECT epoch FROM system_locks WHERE lock_name = 'coordinator'`)
}

// pressed archives a workspace because the disk is full: the scenario's mark is so low that every disk counts as full.
// A workspace that has slept for a while is archived.
var pressed = []step{
	createdStep,
	asleepStep,
	{"archived to make room", func(t testing.TB, h *home) {
		storetest.Set(t, h.store, h.id, `phase_changed_at = now() - interval '1 hour'`)
		h.await(t, workspace.PhaseArchived)
	}},
	awakeStep,
}
