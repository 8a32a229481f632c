package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestOf200ConcurrentCallsExactlyTheLimitSucceeds(t *testing.T) {
	for _, c := range []struct {
		scope  string
		limits service.Limits
	}{
		{"user", service.Limits{PerUser: 3, Global: 100}},
		{"global", service.Limits{PerUser: 3, Global: 10}},
	} {
		t.Run(c.scope, func(t *testing.T) {
			st := storetest.Open(t)
			// Two processes share the work.
			var services []*service.Service
			for range 2 {
				services = append(services, service.New(storetest.Reopen(t, st), service.Options{Limits: c.limits}))
			}
			users := []service.Actor{actor(t, st)}
			want, limit := c.limits.PerUser, c.limits.PerUser
			if c.scope == "global" {
				for range 19 {
					users = append(users, actor(t, st))
				}
				want, limit = c.limits.Global, c.limits.Global
			}
			// Half of the calls start a workspace in standby, half create one.
			standby := make([]workspace.Workspace, 100)
			free := service.New(st, service.Options{})
			for i := range standby {
				standby[i] = create(t, free, users[i%len(users)])
				storetest.Set(t, st, standby[i].ID, `desired_state = 'STANDBY', phase = 'STANDBY'`)
			}
			var granted, refused atomic.Int64
			var wg sync.WaitGroup
			for i := range 200 {
				s, a := services[i%2], users[i/2%len(users)]
				wg.Go(func() {
					var err error
					if i%4 < 2 {
						w := standby[i/4*2+i%4]
						err = s.SetDesired(t.Context(), service.Actor{UserID: w.OwnerID}, w.ID, workspace.DesiredRunning)
					} else {
						_, err = s.Create(t.Context(), a, service.CreateInput{Name: "new"})
					}
					var over *service.LimitError
					switch {
					case err == nil:
						granted.Add(1)
					case errors.As(err, &over) && (c.scope == "global" || over.Scope == "user" && over.Limit == limit):
						refused.Add(1)
					default:
						t.Errorf("call %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			if int(granted.Load()) != want || refused.Load() != int64(200-want) {
				t.Errorf("%d granted, %d refused; want %d", granted.Load(), refused.Load(), want)
			}
			if n := storetest.Value[int](t, st, `SELECT count(*) FROM workspaces WHERE counted`); n != want {
				t.Errorf("%d are counted, want %d", n, want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 2, Global: 3}})
	a, b := actor(t, st), actor(t, st)
	var over *service.LimitError
	first, second := create(t, s, a), create(t, s, a)
	if _, err := s.Create(t.Context(), a, service.CreateInput{Name: "three"}); !errors.As(err, &over) || *over != (service.LimitError{Scope: "user", Limit: 2}) || !strings.Contains(err.Error(), "2 of your") {
		t.Fatalf("a third one: %v", err)
	}
	create(t, s, b)
	if _, err := s.Create(t.Context(), b, service.CreateInput{Name: "four"}); !errors.As(err, &over) || *over != (service.LimitError{Scope: "global", Limit: 3}) || !strings.Contains(err.Error(), "3 workspaces") {
		t.Fatalf("a fourth one in all: %v", err)
	}
	running, err := s.Running(t.Context(), a.UserID)
	if err != nil || len(running) != 2 {
		t.Fatalf("Running = %v, %v", running, err)
	}
	storetest.Set(t, st, first.ID, `phase = 'RUNNING', phase_changed_at = now() - interval '1 hour', last_access_at = now()`)
	storetest.Set(t, st, second.ID, `phase = 'RUNNING', phase_changed_at = now() - interval '1 minute'`)
	running, err = s.Running(t.Context(), a.UserID)
	if err != nil || len(running) != 2 || running[0].ID != second.ID {
		t.Errorf("Running begins with %v, %v; want the longest unused", running, err)
	}

	// The desired state is STANDBY, but the workspace still runs. It counts until it has stopped.
	if err := s.SetDesired(t.Context(), a, first.ID, workspace.DesiredStandby); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Create(t.Context(), a, service.CreateInput{Name: "too soon"}); !errors.As(err, &over) {
		t.Errorf("while one is still running: %v", err)
	}
	// It may go back to RUNNING, because it still counts.
	if err := s.SetDesired(t.Context(), a, first.ID, workspace.DesiredRunning); err != nil {
		t.Errorf("back to running: %v", err)
	}
	s.SetLimits(service.Limits{PerUser: 1})
	if err := s.SetDesired(t.Context(), a, first.ID, workspace.DesiredRunning); err != nil {
		t.Errorf("one that runs already, after the limit was lowered: %v", err)
	}
	if err := s.SetDesired(t.Context(), a, first.ID, workspace.DesiredStandby); err != nil {
		t.Fatal(err)
	}
	storetest.Set(t, st, first.ID, `phase = 'STANDBY'`)
	if err := s.SetDesired(t.Context(), a, first.ID, workspace.DesiredRunning); !errors.As(err, &over) || over.Limit != 1 {
		t.Errorf("one in standby, one running, limit one: %v", err)
	}
	// A change by an administrator counts against the owner.
	if err := s.SetDesired(t.Context(), service.Actor{UserID: b.UserID, Admin: true}, first.ID, workspace.DesiredRunning); !errors.As(err, &over) || over.Scope != "user" {
		t.Errorf("a change by an administrator: %v", err)
	}
	if err := s.Delete(t.Context(), a, second.ID, false); err != nil {
		t.Fatal(err)
	}
	if err := s.SetDesired(t.Context(), a, first.ID, workspace.DesiredRunning); err != nil {
		t.Errorf("the other one is deleted: %v", err)
	}
	s.SetLimits(service.Limits{})
	create(t, s, a)
	if got, err := s.Running(t.Context(), "nobody"); len(got) != 0 || err != nil {
		t.Errorf("Running without a user = %v, %v", got, err)
	}
}

func TestACallThatStopsWaitingReleasesItsTurn(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 5}})
	a := actor(t, st)
	tx, err := storetest.Pool(t, st).Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock(1129268290, 1)`); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := s.Create(ctx, a, service.CreateInput{Name: "x"}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Create = %v", err)
			}
		})
	}
	wg.Wait()
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	create(t, s, a)
}

// While a change waits for the row's lock, the controller begins an operation. The change must then see the operation.
func TestAChangeThatWaitedForTheControllerSeesItsWrite(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 1, Global: 1}})
	a := actor(t, st)
	w := create(t, s, a)
	for _, c := range []struct {
		name, claim string
		change      func() error
		want        error
	}{
		{"busy", `operation = 'PROVISIONING'`, func() error { return s.SetDesired(t.Context(), a, w.ID, workspace.DesiredStandby) }, service.ErrOperationInProgress},
		{"delete", `operation = 'STARTING'`, func() error { return s.Delete(t.Context(), a, w.ID, false) }, service.ErrOperationInProgress},
		{"free again", `operation = 'NONE', phase = 'STANDBY'`, func() error { return s.SetDesired(t.Context(), a, w.ID, workspace.DesiredStandby) }, nil},
		{"observed", `observed_at = now()`, func() error { return s.SetDesired(t.Context(), a, w.ID, workspace.DesiredRunning) }, nil},
	} {
		tx, err := storetest.Pool(t, st).Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(t.Context(), `UPDATE workspaces SET `+c.claim+` WHERE id = $1`, string(w.ID)); err != nil {
			t.Fatal(err)
		}
		done := make(chan error)
		go func() { done <- c.change() }()
		storetest.AwaitLock(t, st)
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	if got := storetest.Row(t, st, w.ID); got.DesiredState != workspace.DesiredRunning || got.ObservedAt.IsZero() || got.Phase != workspace.PhaseStandby {
		t.Errorf("finally %+v", got)
	}
}

func TestLimitsAreValidatedTogether(t *testing.T) {
	if err := service.DefaultLimits().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := service.Limits{PerUser: 0, Global: -1}.Validate()
	for _, want := range []string{"max_running_per_user", "max_running_global"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not mentioned in: %v", want, err)
		}
	}
}
