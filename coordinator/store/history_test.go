package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/workspacetest"
)

// recorded returns the history of a workspace without ids and times, the oldest first, one line each: "kind
// old>new message cause user lock/epoch".
func recorded(t testing.TB, s *Store, id workspace.ID) []string {
	t.Helper()
	found, err := s.History(t.Context(), id, 1000, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, h := range found {
		if h.At.IsZero() || i > 0 && h.ID >= found[i-1].ID {
			t.Errorf("transition %+v follows %d", h, found[max(i-1, 0)].ID)
		}
		line := fmt.Sprintf("%s %s>%s (%s) %s", h.Kind, h.Old, h.New, h.Message, h.Cause)
		if h.UserID != "" {
			line += " by " + h.Username
		}
		if h.Lock != "" {
			line += fmt.Sprintf(" %s/%d", h.Lock, h.Epoch)
		}
		out = append(out, line)
	}
	slices.Reverse(out)
	return out
}

// since returns the records after the first n transitions.
func since(t testing.TB, s *Store, id workspace.ID, n *int) []string {
	t.Helper()
	all := recorded(t, s, id)
	out := all[*n:]
	*n = len(all)
	return out
}

func TestSaveRecordsTransitionsWithTheTermThatMadeThem(t *testing.T) {
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s))
	const by = " controller coordinator/7"
	seen := 1 // the creation
	for _, c := range []struct {
		name   string
		change func(*workspace.Workspace)
		want   []string
	}{
		{"nothing", func(n *workspace.Workspace) { n.ObservedAt, n.Endpoint = micros(time.Now()), "h:1" }, nil},
		{"an operation begins", func(n *workspace.Workspace) {
			n.Operation, n.OpStartedAt = workspace.OpProvisioning, micros(time.Now())
		},
			[]string{"operation NONE>PROVISIONING ()" + by}},
		{"an attempt fails", func(n *workspace.Workspace) {
			n.ErrorReason, n.ErrorMessage, n.ErrorCount = "ActionFailed", "no disk", 1
		},
			[]string{"error >ActionFailed (no disk)" + by}},
		{"the same again", func(n *workspace.Workspace) { n.ErrorMessage, n.ErrorCount = "no disk left", 2 },
			[]string{"error ActionFailed>ActionFailed (no disk left)" + by}},
		{"it waits", func(n *workspace.Workspace) {
			n.Waiting = &workspace.Waiting{Reason: "PullingImage", Message: "pulling 1 of 5 MB"}
		}, []string{"waiting >PullingImage (pulling 1 of 5 MB)" + by}},
		{"progress", func(n *workspace.Workspace) {
			n.Waiting = &workspace.Waiting{Reason: "PullingImage", Message: "pulling 2 of 5 MB"}
		}, nil},
		{"it waits for something else", func(n *workspace.Workspace) {
			n.Waiting = &workspace.Waiting{Reason: "StoreAway", Message: "no answer"}
		},
			[]string{"waiting PullingImage>StoreAway (no answer)" + by}},
		{"done", func(n *workspace.Workspace) {
			n.Waiting, n.Operation, n.OpStartedAt = nil, workspace.OpNone, time.Time{}
			n.ErrorReason, n.ErrorMessage, n.ErrorCount = "", "", 0
			n.Phase = workspace.PhaseStandby
		}, []string{"operation PROVISIONING>NONE ()" + by, "phase PENDING>STANDBY ()" + by, "waiting StoreAway> ()" + by}},
		{"data lost", func(n *workspace.Workspace) {
			n.Phase, n.ErrorReason, n.ErrorMessage, n.ErrorCount = workspace.PhaseError, "DataLost", "gone", 1
		}, []string{"error >DataLost (gone)" + by, "phase STANDBY>ERROR ()" + by}},
	} {
		prev := read(t, s, w.ID)
		next := prev
		c.change(&next)
		if saved, err := s.Save(t.Context(), postgres.Fence{Lock: fence.Lock, Epoch: fence.Epoch - 1}, prev, next, nil); saved || err != nil {
			t.Fatalf("%s: Save of a former leader = %v, %v", c.name, saved, err)
		}
		if saved, err := s.Save(t.Context(), fence, prev, next, nil); !saved || err != nil {
			t.Fatalf("%s: Save = %v, %v", c.name, saved, err)
		}
		got := since(t, s, w.ID, &seen)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: recorded %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTheHistoryNamesWhoAsked(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	name := value[string](t, s, `SELECT username FROM users`)
	admin := Viewer{All: true, Through: "cli"}
	v := Viewer{UserID: owner, Through: "gateway"}
	w := add(t, s, owner)
	seen := 0
	step := func(what string, err error, want ...string) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := since(t, s, w.ID, &seen); !slices.Equal(got, want) {
			t.Errorf("%s: recorded %q, want %q", what, got, want)
		}
	}
	desire := func(v Viewer, d workspace.DesiredState) error {
		_, _, err := s.Update(t.Context(), v, w.ID, Edit{Desired: &d}, Limits{})
		return err
	}
	set := func(columns string) {
		exec(t, s, `UPDATE workspaces SET `+columns+` WHERE id = $1`, string(w.ID))
	}
	step("created", nil, "created >RUNNING () api by "+name)
	step("standby", desire(v, workspace.DesiredStandby), "desired_state RUNNING>STANDBY () gateway by "+name)
	step("the same again", desire(v, workspace.DesiredStandby))
	step("by the command line", desire(admin, workspace.DesiredRunning), "desired_state STANDBY>RUNNING () cli")
	set(`operation = 'STARTING'`)
	step("refused", desire(v, workspace.DesiredStandby))
	set(`operation = 'NONE', phase = 'RUNNING', phase_changed_at = now() - interval '1 hour'`)
	set(`sleep_at = now()`)
	_, err := s.Sleep(t.Context(), w.ID, time.Minute, time.Now(), "")
	step("expired", err, "desired_state RUNNING>STANDBY () ttl")
	_, err = s.Sleep(t.Context(), w.ID, time.Minute, time.Now(), "")
	step("not expired", err)
	set(`phase = 'STANDBY', phase_changed_at = now() - interval '1 hour'`)
	_, err = s.ExpireStandby(t.Context(), w.ID, time.Minute, "ttl", "")
	step("expired in standby", err, "desired_state STANDBY>ARCHIVED () ttl")
	set(`phase = 'ERROR', error_reason = 'DataLost', desired_state = 'RUNNING'`)
	_, _, err = s.Recover(t.Context(), admin, w.ID, "Timeout", workspace.Recovery{}, Limits{})
	step("recovered from another error", err)
	_, _, err = s.Recover(t.Context(), Viewer{UserID: owner, All: true, Through: "api"}, w.ID, "DataLost",
		workspace.Recovery{ID: "r", Choice: workspace.RecoverArchive, Key: "k"}, Limits{})
	step("recovered", err, "recovered DataLost>archive (k) api by "+name)
	_, err = s.Delete(t.Context(), v, w.ID, false)
	step("deleted", err, "deleted RUNNING> () gateway by "+name)
	_, err = s.Delete(t.Context(), admin, w.ID, true)
	step("given up", err, "deleted DELETED>now () cli")
	_, _, err = s.Undelete(t.Context(), v, w.ID, Limits{})
	step("undeleted", err, "undeleted >ARCHIVED () gateway by "+name)
	_, err = s.Delete(t.Context(), v, w.ID, false)
	step("deleted again", err, "deleted ARCHIVED> () gateway by "+name)
	set(`phase = 'DELETING', awaits_gc = true`)
	for range 2 {
		_, err = s.MarkCollected(t.Context(), fence, []workspace.ID{w.ID}, 0)
	}
	step("collected", err, "collected > () gc coordinator/7")
}

func TestTheHistoryIsReadInPagesAndTrimmedByAge(t *testing.T) {
	s := open(t)
	id, other := workspace.ID(uuid.NewString()), workspace.ID(uuid.NewString())
	exec(t, s, `INSERT INTO workspace_history (workspace_id, kind, new_value, cause, at)
		SELECT w, 'phase', i::text, 'controller', now() - (10 - i) * interval '1 day' + interval '1 hour'
		FROM generate_series(0, 9) i, unnest($1::uuid[]) w`, []string{string(id), string(other)})
	var got []string
	var before int64
	for {
		page, err := s.History(t.Context(), id, 3, before)
		if err != nil || len(page) > 3 {
			t.Fatalf("a page of %d, %v", len(page), err)
		}
		for _, h := range page {
			got = append(got, h.New)
			before = h.ID
		}
		if len(page) < 3 {
			break
		}
	}
	if want := []string{"9", "8", "7", "6", "5", "4", "3", "2", "1", "0"}; !slices.Equal(got, want) {
		t.Errorf("the pages are %v, want %v", got, want)
	}
	// Six days and less are kept: 2 × 6 of the 2 × 10.
	for _, want := range []int64{5, 3, 0} {
		if n, err := s.TrimHistory(t.Context(), 6*24*time.Hour, 5); n != want || err != nil {
			t.Errorf("TrimHistory = %d, %v; want %d", n, err, want)
		}
	}
	if n := value[int](t, s, `SELECT count(*) FROM workspace_history WHERE new_value::int < 4`); n != 0 {
		t.Errorf("%d older ones are left", n)
	}
	if n := value[int](t, s, `SELECT count(*) FROM workspace_history`); n != 12 {
		t.Errorf("%d are left, want 12", n)
	}
}

func TestTheSchemaAllowsExactlyTheKindsOfTransitions(t *testing.T) {
	s := open(t)
	check := value[string](t, s, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'workspace_history_kind_check'`)
	if got, want := postgrestest.Matches(`'([^']+)'::text`, check), workspacetest.Constants[string](t, ".", "TransitionKind", ""); !slices.Equal(got, want) {
		t.Errorf("the schema allows %v, Go has %v", got, want)
	}
}
