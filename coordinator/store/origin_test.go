package store

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheOriginOfADesiredState: the origin stays until the desired state is reached or another state is requested. The
// later request may come from this release, or from an older release that does not know origins. Writing the origin
// gives the row no revision of its own.
func TestTheOriginOfADesiredState(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	first, second := &workspace.Origin{Request: "a", Trace: "00-01000000000000000000000000000000-0200000000000000-01"}, &workspace.Origin{Request: "b"}
	set := func(d workspace.DesiredState, o *workspace.Origin) func(*testing.T, workspace.ID) {
		return func(t *testing.T, id workspace.ID) {
			if _, outcome, err := s.Update(tracing.From(t.Context(), o), Viewer{UserID: owner}, id, Edit{Desired: &d}, Limits{}); err != nil || outcome != Changed {
				t.Fatal(outcome, err)
			}
		}
	}
	write := func(columns string) func(*testing.T, workspace.ID) {
		return func(t *testing.T, id workspace.ID) {
			exec(t, s, `UPDATE workspaces SET `+columns+` WHERE id = $1`, string(id))
		}
	}
	const starting = `operation = 'STARTING', op_started_at = now()`
	for name, c := range map[string]struct {
		steps []func(*testing.T, workspace.ID)
		want  *workspace.Origin
	}{
		"saved":             {[]func(*testing.T, workspace.ID){set("RUNNING", first)}, first},
		"none":              {[]func(*testing.T, workspace.ID){set("RUNNING", nil)}, nil},
		"during operations": {[]func(*testing.T, workspace.ID){set("RUNNING", first), write(starting), write(`error_count = 1`)}, first},
		"reached": {[]func(*testing.T, workspace.ID){set("RUNNING", first), write(starting),
			write(`phase = 'RUNNING', operation = 'NONE', op_started_at = NULL`)}, nil},
		"already there":    {[]func(*testing.T, workspace.ID){set("RUNNING", first), set("STANDBY", second)}, nil},
		"another request":  {[]func(*testing.T, workspace.ID){set("RUNNING", first), set("ARCHIVED", second)}, second},
		"an older release": {[]func(*testing.T, workspace.ID){set("RUNNING", first), write(`desired_state = 'ARCHIVED'`)}, nil},
		"without an end":   {[]func(*testing.T, workspace.ID){set("RUNNING", first), set("ARCHIVED", nil)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := add(t, s, owner, `phase = 'STANDBY'`, `desired_state = 'STANDBY'`)
			for _, step := range c.steps {
				step(t, w.ID)
			}
			switch got := read(t, s, w.ID).Origin; {
			case (got == nil) != (c.want == nil), got != nil && *got != *c.want:
				t.Errorf("the origin is %v, want %v", got, c.want)
			}
			before := read(t, s, w.ID).Revision
			write(`origin = '{"request": "c"}'`)(t, w.ID)
			if after := read(t, s, w.ID).Revision; after != before {
				t.Errorf("the origin alone gives the row revision %d after %d", after, before)
			}
		})
	}
	w, _, err := s.Create(tracing.From(t.Context(), first), workspace.Workspace{
		ID: "11111111-2222-4333-8444-555555555555", OwnerID: owner, Name: "new",
		InstanceBackend: "docker", StorageBackend: "docker",
	}, "api", Limits{})
	if err != nil || w.Origin == nil || *w.Origin != *first {
		t.Errorf("created with the origin %v, %v", w.Origin, err)
	}
}

// TestWhatIsAskedForNamesItsRequest: whatever a request starts, the row names that request as the origin until the
// workspace has reached the requested state.
func TestWhatIsAskedForNamesItsRequest(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	v := Viewer{UserID: owner, All: true, Through: "api"}
	asleep := workspace.DesiredStandby
	for _, tt := range []struct {
		name, is string // and how the workspace is before
		do       func(ctx context.Context, id workspace.ID) error
		reaches  string // what ends it
	}{
		{"a desired state", `phase = 'RUNNING'`, func(ctx context.Context, id workspace.ID) error {
			_, _, err := s.Update(ctx, v, id, Edit{Desired: &asleep}, Limits{})
			return err
		}, `phase = 'STANDBY'`},
		{"a deletion", `phase = 'STANDBY'`, func(ctx context.Context, id workspace.ID) error {
			_, err := s.Delete(ctx, v, id, false)
			return err
		}, `phase = 'DELETED'`},
		{"an undeletion", `phase = 'STANDBY', deleted_at = now(), desired_state = 'DELETED'`, func(ctx context.Context, id workspace.ID) error {
			_, _, err := s.Undelete(ctx, v, id, Limits{})
			return err
		}, `phase = 'ARCHIVED'`},
		{"a recovery", `phase = 'ERROR', error_reason = 'Timeout'`, func(ctx context.Context, id workspace.ID) error {
			_, _, err := s.Recover(ctx, v, id, workspace.ReasonTimeout, workspace.Recovery{ID: uuid.NewString()}, Limits{})
			return err
		}, `phase = 'RUNNING'`},
		{"an older archive", `phase = 'STANDBY'`, func(ctx context.Context, id workspace.ID) error {
			_, _, err := s.Revert(ctx, v, id, workspace.Revert{ID: uuid.NewString(), Key: "k"}, Limits{})
			return err
		}, `phase = 'RUNNING'`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := add(t, s, owner, tt.is).ID
			request := uuid.NewString()
			if err := tt.do(tracing.WithRequest(t.Context(), func() string { return request }), id); err != nil {
				t.Fatal(err)
			}
			if got := read(t, s, id).Origin; got == nil || got.Request != request {
				t.Errorf("it names %v, want %q", got, request)
			}
			exec(t, s, `UPDATE workspaces SET `+tt.reaches+` WHERE id = $1`, string(id))
			if got := read(t, s, id).Origin; got != nil {
				t.Errorf("at its end it names %v", got)
			}
		})
	}
}
