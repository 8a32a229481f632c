package store

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestTouchLastAccessOnlyMovesForward(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	now := micros(time.Now())
	fresh, older, newer, deleted := add(t, s, owner), add(t, s, owner), add(t, s, owner),
		add(t, s, owner, `deleted_at = now()`, `desired_state = 'DELETED'`)
	exec(t, s, `UPDATE workspaces SET last_access_at = now() - interval '1 hour' WHERE id = $1`, string(older.ID))
	exec(t, s, `UPDATE workspaces SET last_access_at = now() WHERE id = $1`, string(newer.ID))
	if err := s.TouchLastAccess(t.Context(), map[workspace.ID]time.Duration{
		fresh.ID: time.Minute, older.ID: time.Minute, newer.ID: time.Minute, deleted.ID: time.Minute, workspace.ID(uuid.NewString()): 0,
	}, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		id   workspace.ID
		want time.Duration
	}{
		{"never used", fresh.ID, time.Minute}, {"used before", older.ID, time.Minute}, {"used later", newer.ID, 0},
	} {
		if got := read(t, s, c.id).LastAccessAt; got.Sub(now.Add(-c.want)).Abs() > 10*time.Second {
			t.Errorf("%s: last_access_at = %v, want %s before %v", c.name, got, c.want, now)
		}
	}
	if got := read(t, s, deleted.ID).LastAccessAt; !got.IsZero() {
		t.Errorf("deleted: last_access_at = %v, want none", got)
	}
	if err := s.TouchLastAccess(t.Context(), map[workspace.ID]time.Duration{fresh.ID: -time.Hour}, nil); err != nil {
		t.Fatal(err)
	}
	if got := read(t, s, fresh.ID).LastAccessAt; got.Before(now) || got.After(time.Now().Add(time.Minute)) {
		t.Errorf("used in an hour, by a wrong clock: last_access_at = %v, want the present", got)
	}
	inputs := map[workspace.ID]time.Duration{older.ID: time.Minute}
	if err := s.TouchLastAccess(t.Context(), map[workspace.ID]time.Duration{fresh.ID: 0, older.ID: 0}, inputs); err != nil {
		t.Fatal(err)
	}
	if got := value[string](t, s, `SELECT string_agg(name, ' ') FROM workspaces WHERE last_input_at < now() - interval '50 seconds'`); got != older.Name {
		t.Errorf("input was in %q", got)
	}
	if err := s.TouchLastAccess(t.Context(), nil, nil); err != nil {
		t.Errorf("nothing to write: %v", err)
	}
}

func TestAnAgeThatIsReportedAgainWritesNothing(t *testing.T) {
	s := open(t)
	w := add(t, s, addUser(t, s))
	touch := func(age time.Duration) (version string) {
		t.Helper()
		if err := s.TouchLastAccess(t.Context(), map[workspace.ID]time.Duration{w.ID: age}, nil); err != nil {
			t.Fatal(err)
		}
		if err := s.pool.QueryRow(t.Context(), `SELECT xmin::text FROM workspaces WHERE id = $1`, string(w.ID)).Scan(&version); err != nil {
			t.Fatal(err)
		}
		return version
	}
	var first string
	wait.For(t, "two reports come within half a second", func() error { // a whole one would make them two uses
		began := time.Now()
		first = touch(time.Hour)
		again := touch(time.Hour - 100*time.Millisecond)
		if took := time.Since(began); took > 500*time.Millisecond {
			return fmt.Errorf("they took %s", took)
		}
		if again != first {
			t.Fatal("the same use, reported again, has written the row")
		}
		return nil
	})
	if newer := touch(time.Minute); newer == first {
		t.Error("newer use has not written the row")
	}
}

func TestExpiryDependsOnUseAndDesiredState(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	const long, short = `now() - interval '1 hour'`, `now() - interval '1 minute'`
	type row struct {
		name    string
		set     []string
		expired bool
	}
	for _, c := range []struct {
		name string
		read func() ([]workspace.ID, error)
		rows []row
	}{
		{"running", func() ([]workspace.ID, error) { return unused(t, s, 10*time.Minute, 100) }, []row{
			{"never used since it started long ago", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + long}, true},
			{"used long ago", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + long, `last_access_at = ` + long}, true},
			{"used recently", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + long, `last_access_at = ` + short}, false},
			{"started recently, used before that", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + short, `last_access_at = ` + long}, false},
			{"operation in progress", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + long, `operation = 'STOPPING'`}, false},
			{"standby is desired already", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + long, `desired_state = 'STANDBY'`}, false},
			{"deleted", []string{`phase = 'RUNNING'`, `phase_changed_at = ` + long, `desired_state = 'DELETED'`, `deleted_at = now()`}, false},
		}},
		{"standby", func() ([]workspace.ID, error) { return s.ExpiredStandby(t.Context(), 10*time.Minute, 100) }, []row{
			{"in standby for long", []string{`phase = 'STANDBY'`, `desired_state = 'STANDBY'`, `phase_changed_at = ` + long}, true},
			{"in standby for long, but used", []string{`phase = 'STANDBY'`, `desired_state = 'STANDBY'`, `phase_changed_at = ` + long, `last_access_at = now()`}, true},
			{"in standby for a minute", []string{`phase = 'STANDBY'`, `desired_state = 'STANDBY'`, `phase_changed_at = ` + short}, false},
			{"running is desired", []string{`phase = 'STANDBY'`, `phase_changed_at = ` + long}, false},
			{"operation in progress", []string{`phase = 'STANDBY'`, `desired_state = 'STANDBY'`, `phase_changed_at = ` + long, `operation = 'ARCHIVING'`}, false},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := map[workspace.ID]string{}
			for _, r := range c.rows {
				w := add(t, s, owner, r.set...)
				if r.expired {
					want[w.ID] = r.name
				}
			}
			got, err := c.read()
			if err != nil {
				t.Fatal(err)
			}
			for _, id := range got {
				if _, ok := want[id]; !ok {
					t.Errorf("expired: %+v", read(t, s, id))
				}
				delete(want, id)
			}
			for _, name := range want {
				t.Errorf("not expired: %s", name)
			}
		})
	}
	oldest := add(t, s, owner, `phase = 'RUNNING'`, `phase_changed_at = now() - interval '1 year'`)
	got, err := unused(t, s, time.Minute, 1)
	if err != nil || !slices.Equal(got, []workspace.ID{oldest.ID}) {
		t.Errorf("the first one = %v, %v; want the longest unused", got, err)
	}
}

// unused returns the ids of the workspaces that were not used within ttl.
func unused(t *testing.T, s *Store, ttl time.Duration, limit int) (ids []workspace.ID, err error) {
	t.Helper()
	all, _, err := s.Unused(t.Context(), ttl, ttl, Unused{}, limit)
	for _, u := range all {
		ids = append(ids, u.ID)
	}
	return ids, err
}

func TestProtection(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	op := uuid.NewString()
	plain := add(t, s, owner)
	held := add(t, s, owner, `archive_key = 'k'`, `archive_op_id = '`+op+`'`)
	failed := add(t, s, owner, `phase = 'ERROR'`, `error_reason = 'DataLost'`, `error_message = 'gone'`)
	sick := add(t, s, owner, `conditions = '{"policy.healthy": {"status": "False"}}'`)
	well := add(t, s, owner, `conditions = '{"policy.healthy": {"status": "True"}}'`, `endpoint = 'h:1'`, `phase = 'RUNNING'`, `last_access_at = now()`)
	// The recovery of one workspace is still pending; that of the other has been carried out.
	recovering := add(t, s, owner, `recovery = '{"id": "2", "choice": "archive", "key": "k"}'`, `home_ctx = '{"recovery_id": "1"}'`)
	recovered := add(t, s, owner, `recovery = '{"id": "2", "choice": "archive", "key": "k"}'`, `home_ctx = '{"recovery_id": "2"}'`)
	deleted := add(t, s, owner, `deleted_at = now()`, `desired_state = 'DELETED'`, `phase = 'DELETED'`, `collected_at = now()`, `delete_now = true`)
	damaged, suspected := add(t, s, owner, `archive_damage = 'torn'`), add(t, s, owner, `archive_suspected = true`)
	unknown := workspace.ID(uuid.NewString())

	ids := []workspace.ID{plain.ID, held.ID, failed.ID, sick.ID, well.ID, recovering.ID, recovered.ID, deleted.ID, damaged.ID, suspected.ID, unknown}
	got, err := s.Protection(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	gone := got[deleted.ID]
	if gone.DeletedFor <= 0 {
		t.Errorf("it was deleted %s ago", gone.DeletedFor)
	}
	gone.DeletedFor = 0 // it differs every time
	got[deleted.ID] = gone
	want := map[workspace.ID]Protection{
		plain.ID: {Phase: workspace.PhasePending}, held.ID: {ArchiveKey: "k", ArchiveOpID: op, Phase: workspace.PhasePending},
		failed.ID: {Unhealthy: true, Phase: workspace.PhaseError}, sick.ID: {Unhealthy: true, Phase: workspace.PhasePending},
		well.ID:       {Phase: workspace.PhaseRunning},
		recovering.ID: {Unhealthy: true, Phase: workspace.PhasePending}, recovered.ID: {Phase: workspace.PhasePending},
		damaged.ID: {Unhealthy: true, Phase: workspace.PhasePending}, suspected.ID: {Unhealthy: true, Phase: workspace.PhasePending},
		deleted.ID: {Deleted: true, Phase: workspace.PhaseDeleted, DeletedAt: deleted.DeletedAt, CollectedAt: deleted.CollectedAt, DeleteNow: true},
	}
	for _, w := range []workspace.Workspace{plain, held, failed, sick, well, recovering, recovered, deleted, damaged, suspected} {
		p := want[w.ID]
		p.CreatedAt = w.CreatedAt
		want[w.ID] = p
	}
	if !maps.Equal(got, want) {
		t.Errorf("Protection = %+v, want %+v", got, want)
	}
	if n, err := s.CountWorkspaces(t.Context()); n != 10 || err != nil {
		t.Errorf("CountWorkspaces = %d, %v; want 8", n, err)
	}
}

// gerund matches the beginning of every error: "reading candidates: ...".
var gerund = regexp.MustCompile(`^[a-z]+ing\b.*: `)

func TestErrorsSayWhatWasBeingDone(t *testing.T) {
	s, err := Open("postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1", postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id := workspace.ID(uuid.NewString())
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Candidates":    func() error { _, err := s.Candidates(ctx, 0, 1, true); return err },
		"SweepPage":     func() error { _, err := s.SweepPage(ctx, 0, 1, "", 10); return err },
		"MarkCollected": func() error { _, err := s.MarkCollected(ctx, fence, []workspace.ID{id}, 0); return err },
		"History":       func() error { _, err := s.History(ctx, id, 10, 0); return err },
		"TrimHistory":   func() error { _, err := s.TrimHistory(ctx, time.Hour, 10); return err },
		"Save": func() error {
			_, err := s.Save(ctx, fence, workspace.Workspace{}, workspace.Workspace{}, nil)
			return err
		},
		"TouchLastAccess": func() error { return s.TouchLastAccess(ctx, map[workspace.ID]time.Duration{id: 0}, nil) },
		"Protection":      func() error { _, err := s.Protection(ctx, []workspace.ID{id}); return err },
		"CountWorkspaces": func() error { _, err := s.CountWorkspaces(ctx); return err },
		"Routes":          func() error { _, err := s.Routes(ctx, nil); return err },
		"AwakeRoutes":     func() error { _, err := s.AwakeRoutes(ctx, "", 1); return err },
		"ChangesSince":    func() error { _, err := s.ChangesSince(ctx, 0, 1); return err },
		"Position":        func() error { _, err := s.Position(ctx); return err },
		"Update":          func() error { _, _, err := s.Update(ctx, Viewer{All: true}, id, Edit{}, Limits{}); return err },
		"Create":          func() error { _, _, err := s.Create(ctx, workspace.Workspace{ID: id}, "api", Limits{}); return err },
		"Delete":          func() error { _, err := s.Delete(ctx, Viewer{All: true}, id, false); return err },
		"Undelete":        func() error { _, _, err := s.Undelete(ctx, Viewer{All: true}, id, Limits{}); return err },
		"List":            func() error { _, err := s.List(ctx, Filter{Order: ByCreation}, 1, nil); return err },
		"Recover": func() error {
			_, _, err := s.Recover(ctx, Viewer{}, id, "", workspace.Recovery{}, Limits{})
			return err
		},
		"Failed":    func() error { _, err := s.Failed(ctx, "DataLost", "", 1); return err },
		"Unused":    func() error { _, _, err := s.Unused(ctx, 0, 0, Unused{}, 1); return err },
		"Announce":  func() error { return s.Announce(ctx, postgres.Fence{}, 0, []Unused{{ID: id}}) },
		"Sleep":     func() error { _, err := s.Sleep(ctx, id, time.Minute, time.Time{}, ""); return err },
		"KeepAwake": func() error { _, err := s.KeepAwake(ctx, Viewer{All: true}, id, time.Hour); return err },
		"Get":       func() error { _, err := s.Get(ctx, Viewer{All: true}, id); return err },
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeded without a server", name)
		} else if !gerund.MatchString(err.Error()) {
			t.Errorf("%s: %q does not begin with what it was doing", name, err)
		}
	}
}
