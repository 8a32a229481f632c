package store

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestTheLastPlaceIsTakenOnce: regardless of what ends a doze while another workspace starts.
func TestTheLastPlaceIsTakenOnce(t *testing.T) {
	s := open(t)
	other := reopen(t, s)
	limits := Limits{PerUser: 1}
	l, fence := Limited{s, func() Limits { return limits }}, postgres.Fence{Lock: "places", Epoch: 1}
	exec(t, s, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('places', 'test', 1)`)
	for name, take := range map[string]func(ctx context.Context, v Viewer, w workspace.Workspace) error{
		"a start": func(ctx context.Context, v Viewer, w workspace.Workspace) error {
			_, _, err := s.Update(ctx, v, w.ID, Edit{Desired: new(workspace.DesiredRunning)}, limits)
			return err
		},
		"keep-awake": func(ctx context.Context, v Viewer, w workspace.Workspace) error {
			_, _, err := s.KeepAwakeWithin(ctx, v, w.ID, time.Hour, false, limits)
			return err
		},
		"an older archive": func(ctx context.Context, v Viewer, w workspace.Workspace) error {
			_, _, err := s.Revert(ctx, v, w.ID, workspace.Revert{ID: "r", Key: "k"}, limits)
			return err
		},
		"a late use": func(ctx context.Context, _ Viewer, w workspace.Workspace) error {
			return l.TouchLastAccess(ctx, map[workspace.ID]time.Duration{w.ID: 0}, nil)
		},
		"the end of all dozes": func(ctx context.Context, _ Viewer, _ workspace.Workspace) error { return l.EndDozes(ctx) },
		"the end of its container": func(ctx context.Context, _ Viewer, w workspace.Workspace) error {
			next := w
			next.Phase, next.Conditions = workspace.PhaseStandby, nil
			_, err := l.Save(ctx, fence, w, next, nil)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			crowded := func() (v Viewer, a, b workspace.Workspace) {
				v = Viewer{UserID: addUser(t, s), Through: "api"}
				a, b = idle(t, s, v.UserID), add(t, s, v.UserID, `phase = 'STANDBY'`, `desired_state = 'STANDBY'`)
				if dozes, err := s.Doze(t.Context(), a.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
					t.Fatal(dozes, err)
				}
				froze(t, s, a.ID)
				return v, read(t, s, a.ID), b
			}
			holders := func(owner string) string {
				return value[string](t, s, `SELECT COALESCE(string_agg(id::text, ' and '), 'none') FROM workspaces WHERE counted AND owner_user_id = $1`, owner)
			}
			v, alone, _ := crowded()
			if err := take(t.Context(), v, alone); err != nil || holders(v.UserID) != string(alone.ID) {
				t.Errorf("%s holds the place that is free, want %s; %v", holders(v.UserID), alone.ID, err)
			}
			if w := read(t, s, alone.ID); w.DesiredState != workspace.DesiredRunning || !w.DozeAt.IsZero() {
				t.Errorf("with a place it is to be %s, and dozes since %s", w.DesiredState, w.DozeAt)
			}
			won := 0
			for range 20 {
				v, a, b := crowded()
				var wg sync.WaitGroup
				begin := make(chan struct{})
				wg.Go(func() {
					<-begin
					if err := take(t.Context(), v, a); err != nil {
						t.Error(err)
					}
				})
				wg.Go(func() {
					<-begin
					if _, _, err := other.Update(t.Context(), v, b.ID, Edit{Desired: new(workspace.DesiredRunning)}, limits); err != nil {
						t.Error(err)
					}
				})
				close(begin)
				wg.Wait()
				holder := holders(v.UserID)
				if holder != string(a.ID) && holder != string(b.ID) {
					t.Fatalf("%s hold the place, want %s or %s", holder, a.ID, b.ID)
				}
				if holder == string(a.ID) {
					won++
				}
			}
			t.Logf("it got the place in %d of 20 rounds", won)
		})
	}
}

// TestWithoutAPlaceItSleeps: however a doze ends, a workspace that then has no place is put to sleep, and the history
// records this once.
func TestWithoutAPlaceItSleeps(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	for _, end := range []string{
		`last_access_at = now()`, `keep_awake_until = now() + interval '1 hour'`, `doze_at = NULL`, `phase = 'STANDBY', conditions = '{}'`,
		`phase = 'STANDBY', operation = 'STARTING', op_started_at = now()`, `operation = 'STOPPING', op_started_at = now()`,
		`phase = 'ERROR', error_reason = 'Timeout'; UPDATE workspaces SET phase = 'RUNNING', error_reason = NULL`,
	} {
		w := idle(t, s, owner)
		if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
			t.Fatal(dozes, err)
		}
		froze(t, s, w.ID)
		for _, set := range strings.Split(end, "; UPDATE workspaces SET ") {
			exec(t, s, `UPDATE workspaces SET `+set+` WHERE id = $1`, string(w.ID))
		}
		w = read(t, s, w.ID)
		if w.DesiredState != workspace.DesiredStandby || !w.DozeAt.IsZero() || !w.KeepAwakeUntil.IsZero() ||
			value[bool](t, s, `SELECT counted FROM workspaces WHERE id = $1`, string(w.ID)) {
			t.Errorf("%s: it is to be %s, dozes since %s, is kept awake until %s", end, w.DesiredState, w.DozeAt, w.KeepAwakeUntil)
		}
		if got := kinds(t, s, w.ID); !slices.Equal(got, []TransitionKind{KindDesiredState, KindDozed, KindCreated}) {
			t.Errorf("%s: the history is %v", end, got)
		}
	}
	// The user unpauses a dozing container: it is frozen again, and takes no place until then.
	w := idle(t, s, owner)
	exec(t, s, `UPDATE workspaces SET doze_at = now() WHERE id = $1`, string(w.ID))
	froze(t, s, w.ID)
	exec(t, s, `UPDATE workspaces SET conditions = '{}' WHERE id = $1`, string(w.ID))
	if got := read(t, s, w.ID); got.DozeAt.IsZero() || value[bool](t, s, `SELECT counted FROM workspaces WHERE id = $1`, string(w.ID)) {
		t.Errorf("unpaused, it dozes since %s and holds a place", got.DozeAt)
	}
}

// TestAUseWhileTheContainerIsFrozenTakesThePlaceBack: a workspace that was used resumes. This is so even if the
// controller observes its frozen container after the statement that writes the use has begun.
func TestAUseWhileTheContainerIsFrozenTakesThePlaceBack(t *testing.T) {
	for name, end := range map[string]func(l Limited, ages map[workspace.ID]time.Duration) error{
		"a late use": func(l Limited, ages map[workspace.ID]time.Duration) error {
			return l.TouchLastAccess(t.Context(), ages, nil)
		},
		"the end of all dozes": func(l Limited, _ map[workspace.ID]time.Duration) error { return l.EndDozes(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			owner := addUser(t, s)
			ages := make(map[workspace.ID]time.Duration)
			for range 2 {
				w := idle(t, s, owner)
				if dozes, err := s.Doze(t.Context(), w.ID, time.Now(), DozingLimits{}); err != nil || !dozes {
					t.Fatal(dozes, err)
				}
				if len(ages) == 0 {
					froze(t, s, w.ID)
				}
				ages[w.ID] = 0
			}
			first := true
			l := Limited{s, func() Limits { // is asked for after the dozes were looked for
				if first {
					for id := range ages {
						froze(t, s, id)
					}
					first = false
				}
				return Limits{PerUser: 2}
			}}
			if err := end(l, ages); err != nil {
				t.Fatal(err)
			}
			if n := value[int](t, s, `SELECT count(*)::int FROM workspaces WHERE desired_state = 'RUNNING' AND counted AND doze_at IS NULL`); n != 2 {
				t.Errorf("%d go on, want 2", n)
			}
		})
	}
}
