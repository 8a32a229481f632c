package service_test

import (
	"errors"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestWhoMayGoBackToWhichArchive: every refusal comes before anything is written.
func TestWhoMayGoBackToWhichArchive(t *testing.T) {
	st := storetest.Open(t)
	a := actor(t, st)
	inv := &inventory{archives: []string{"new", "old", "torn"}}
	s := service.New(st, service.Options{Inventory: inv})
	away := service.New(st, service.Options{Inventory: &inventory{err: errors.New("no route")}})
	for _, c := range []struct {
		name, set, op string
		s             *service.Service
		want          any // an error, or the type of one; nil for none
	}{
		{"awake", `phase = 'RUNNING'`, "old", s, nil},
		{"asleep", `phase = 'STANDBY'`, "old", s, nil},
		{"asleep, to the last archive", `phase = 'STANDBY'`, "new", s, nil},
		{"archived", `phase = 'ARCHIVED'`, "old", s, nil},
		{"archived, to the present one", `phase = 'ARCHIVED'`, "new", s, new(*service.RevertError)},
		{"a damaged one", `phase = 'ARCHIVED'`, "torn", s, new(*service.RevertError)},
		{"one that is not there", `phase = 'ARCHIVED'`, "gone", s, new(*service.RevertError)},
		{"in an error", `phase = 'ERROR', error_reason = 'Timeout'`, "old", s, new(*service.RevertError)},
		{"during an operation", `phase = 'STANDBY', operation = 'ARCHIVING'`, "old", s, service.ErrOperationInProgress},
		{"twice", `phase = 'STANDBY', revert = '{"id": "r"}'`, "old", s, service.ErrOperationInProgress},
		{"the store is away", `phase = 'ARCHIVED'`, "old", away, service.ErrArchivesUnknown},
		{"deleted", `phase = 'ARCHIVED', deleted_at = now(), desired_state = 'DELETED'`, "old", s, service.ErrNotFound},
	} {
		w := create(t, s, a)
		storetest.Exec(t, st, `UPDATE workspaces SET `+c.set+` WHERE id = $1`, string(w.ID))
		storetest.Exec(t, st, `UPDATE workspaces SET archive_key = $2 WHERE id = $1`, string(w.ID), w.ID.ArchiveKey("new"))
		storetest.Exec(t, st, `INSERT INTO archives (workspace_id, key, size, damage) VALUES ($1, $2, 1, 'torn')`, string(w.ID), w.ID.ArchiveKey("torn"))
		before := storetest.Row(t, st, w.ID)
		got, err := c.s.Revert(t.Context(), a, w.ID, w.ID.ArchiveKey(c.op))
		ok := err == nil
		switch want := c.want.(type) {
		case error:
			ok = errors.Is(err, want)
		case **service.RevertError:
			ok = errors.As(err, want)
		}
		after := storetest.Row(t, st, w.ID)
		if !ok || (c.want == nil) != (after.Revision != before.Revision || after.Reverting() && !before.Reverting()) {
			t.Errorf("%s: %v, reverting %v", c.name, err, after.Reverting())
		}
		if c.want == nil && (!got.Reverting() || got.Revert.Key != w.ID.ArchiveKey(c.op) || got.DesiredState != before.DesiredState) {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	w := create(t, s, a)
	for _, other := range []service.Actor{actor(t, st), {}} {
		if _, err := s.Revert(t.Context(), other, w.ID, "k"); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("another user: %v", err)
		}
		if _, err := s.Archives(t.Context(), other, w.ID); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("another user lists: %v", err)
		}
	}
	if _, err := s.Archives(t.Context(), a, workspace.ID(uuid.NewString())); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("no such workspace: %v", err)
	}
	if _, err := away.Archives(t.Context(), a, w.ID); !errors.Is(err, service.ErrArchivesUnknown) {
		t.Errorf("the store is away: %v", err)
	}
}
