package store

import (
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAnOperationThatWaitsCanBeCancelled: while an operation waits for external resources, another desired
// state is accepted, and the image may change as always. An operation that makes progress is not disturbed. The
// controller's next write decides anew.
func TestAnOperationThatWaitsCanBeCancelled(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	v, limits := Viewer{UserID: owner, Through: "api"}, Limits{PerUser: 100, Global: 100}
	fence := term(t, s)
	const waits = `, waiting = '{"reason": "PullingImage", "message": "x", "since": "2026-01-02T03:04:05Z"}'`
	image := "other"
	for _, op := range []string{"PROVISIONING", "RESTORING", "STARTING", "STOPPING", "ARCHIVING", "CREATE_EMPTY_ARCHIVE"} {
		for name, change := range map[string]func(id workspace.ID) (Outcome, error){
			"sleep": func(id workspace.ID) (Outcome, error) {
				_, outcome, err := s.Update(t.Context(), v, id, Edit{Desired: new(workspace.DesiredStandby)}, limits)
				return outcome, err
			},
			"archive, with another image": func(id workspace.ID) (Outcome, error) {
				_, outcome, err := s.Update(t.Context(), v, id, Edit{ImageRef: &image, Desired: new(workspace.DesiredArchived)}, limits)
				return outcome, err
			},
			"delete": func(id workspace.ID) (Outcome, error) { return s.Delete(t.Context(), v, id, false) },
		} {
			for _, c := range []struct {
				set  string
				want Outcome
			}{{"", Busy}, {waits, Changed}} {
				w := add(t, s, owner, `phase = 'STANDBY', desired_state = 'RUNNING', operation = '`+op+`', op_started_at = now()`+c.set)
				before := read(t, s, w.ID)
				outcome, err := change(w.ID)
				if err != nil || outcome != c.want {
					t.Errorf("%s, %s%s: %s, %v; want %s", op, name, c.set, outcome, err, c.want)
				}
				after := read(t, s, w.ID)
				if after.Operation != before.Operation || (after.DesiredState != before.DesiredState) != (c.want == Changed) {
					t.Errorf("%s, %s%s: %s, wants %s", op, name, c.set, after.Operation, after.DesiredState)
				}
				next := before
				next.Waiting, next.Phase, next.Operation = nil, workspace.PhaseRunning, workspace.OpNone
				if saved, err := s.Save(t.Context(), fence, before, next, nil); err != nil || saved != (c.want == Busy) {
					t.Errorf("%s, %s%s: the controller's write of what it saw before: %v, %v", op, name, c.set, saved, err)
				}
			}
		}
	}
	for _, c := range []struct {
		op   string
		want Outcome
	}{{"ARCHIVING", Changed}, {"STOPPING", Busy}, {"DELETING", Busy}} {
		w := add(t, s, owner, deletedNow+`, phase = 'STANDBY', operation = '`+c.op+`', op_started_at = now()`+waits)
		if _, outcome, err := s.Undelete(t.Context(), v, w.ID, limits); outcome != c.want || err != nil {
			t.Errorf("undelete during %s: %s, %v; want %s", c.op, outcome, err, c.want)
		}
	}
}
