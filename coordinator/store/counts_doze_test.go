package store

import "testing"

// Dozing workspaces are counted: they are RUNNING, but do not count against the limit of running ones. One that
// should doze and is not frozen does count.
func TestTheCountsKnowWhatDozes(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	add(t, s, owner, `phase = 'RUNNING'`, `desired_state = 'RUNNING'`)
	dozes := add(t, s, owner, `phase = 'RUNNING'`, `desired_state = 'RUNNING'`)
	exec(t, s, `UPDATE workspaces SET doze_at = now() WHERE id = $1`, string(dozes.ID))
	froze(t, s, dozes.ID)
	refused := add(t, s, owner, `phase = 'RUNNING'`, `desired_state = 'RUNNING'`)
	exec(t, s, `UPDATE workspaces SET doze_at = now() WHERE id = $1`, string(refused.ID))
	add(t, s, owner, `phase = 'STANDBY'`, `desired_state = 'STANDBY'`)
	counts, err := s.Count(t.Context())
	if err != nil || counts.Dozing != 1 || counts.Phases["RUNNING"] != 3 || counts.Phases["STANDBY"] != 1 || counts.Phases["ARCHIVED"] != 0 {
		t.Errorf("%+v, %v", counts, err)
	}
	o, err := s.Overview(t.Context())
	if err != nil || o.Dozing != 1 || o.Running != 2 {
		t.Errorf("%+v, %v", o, err)
	}
}
