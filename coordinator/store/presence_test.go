package store

import (
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Only changes are written, because every gateway keeps reporting the same state.
func TestThePageActivityIsWrittenOnce(t *testing.T) {
	s := open(t)
	w := add(t, s, addUser(t, s))
	for _, c := range []struct {
		activity workspace.PageActivity
		changes  bool
	}{{workspace.PagePresence, true}, {workspace.PagePresence, false}, {workspace.PageTraffic, true}, {workspace.PagePresence, true}} {
		before := read(t, s, w.ID)
		if err := s.SetPageActivity(t.Context(), w.ID, c.activity); err != nil {
			t.Fatal(err)
		}
		after := read(t, s, w.ID)
		if after.PageActivity != c.activity || (after.Revision != before.Revision) != c.changes {
			t.Errorf("%s: got %q, revision %d after %d", c.activity, after.PageActivity, after.Revision, before.Revision)
		}
	}
	if err := s.SetPageActivity(t.Context(), workspace.ID(uuid.NewString()), workspace.PagePresence); err != nil {
		t.Errorf("a workspace that does not exist: %v", err)
	}
}
