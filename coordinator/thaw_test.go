package coordinator

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// thawed is a freezer that records its thaws.
type thawed struct {
	mu  sync.Mutex
	ids []workspace.ID
	err error
}

func (*thawed) Freeze(context.Context, workspace.ID, time.Time) error { return nil }

func (f *thawed) Thaw(_ context.Context, id workspace.ID) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ids = append(f.ids, id)
	return f.err
}

// leaderless returns a pool of a database that has no leader, because a leader would change the rows of a test.
func leaderless(t *testing.T, database string) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	held, err := pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(held.Release)
	if _, err := held.Exec(t.Context(), `SELECT pg_advisory_lock($1)`, leader.DefaultLockID); err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestAStopEndsDozesUnlessAnotherProcessSupportsThem: an ordinary stop thaws exactly the frozen containers of
// workspaces that should run. Dozing is not supported by a process of a release from before dozing, by a killed
// process, or by a late one.
func TestAStopEndsDozesUnlessAnotherProcessSupportsThem(t *testing.T) {
	for name, c := range map[string]struct {
		writer string // another process
		stays  bool
		err    error
	}{
		"the last process":                 {},
		"another one that supports them":   {writer: `18, now() + interval '1 minute', false`, stays: true},
		"another one, of an older release": {writer: `13, now() + interval '1 minute', false`},
		"another one that was killed":      {writer: `18, now() + interval '1 minute', true`},
		"another one that is late":         {writer: `18, now() - interval '1 second', false`},
		"an engine that refuses":           {err: errors.New("no")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, devenv.PostgreSQL(t), "one")
			pool := leaderless(t, o.Database)
			p := start(t, o)
			f := &thawed{err: c.err}
			p.backend.Freezer = f
			add := func(columns string) (id workspace.ID) {
				t.Helper()
				if err := pool.QueryRow(t.Context(), `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend,
						home_store_key, phase, desired_state, doze_at, home_ctx)
					SELECT id, 'notes', 'docker', 'docker', 'home', `+columns+` FROM users LIMIT 1 RETURNING id`).Scan(&id); err != nil {
					t.Fatal(err)
				}
				return id
			}
			const frozen = `, '{"dozed": "2026-11-01T00:00:00Z"}'`
			want := []workspace.ID{
				add(`'RUNNING', 'RUNNING', now()` + frozen),
				add(`'RUNNING', 'RUNNING', now()` + frozen),
				add(`'RUNNING', 'RUNNING', NULL` + frozen), // which nobody has thawed yet
			}
			add(`'RUNNING', 'STANDBY', NULL` + frozen)
			add(`'RUNNING', 'RUNNING', NULL, '{}'`)
			if c.writer != "" {
				if _, err := pool.Exec(t.Context(), `INSERT INTO activity_writers (instance, node_id, flushed_at, knows, due_at, has_session)
					VALUES (gen_random_uuid(), 'other', now(), `+c.writer+`)`); err != nil {
					t.Fatal(err)
				}
			}
			stop(t, p)
			var dozing int
			if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM workspaces WHERE doze_at IS NOT NULL`).Scan(&dozing); err != nil {
				t.Fatal(err)
			}
			if c.stays {
				if dozing != 2 || len(f.ids) > 0 {
					t.Errorf("%d doze, and %q are thawed", dozing, f.ids)
				}
				return
			}
			slices.Sort(f.ids)
			slices.Sort(want)
			if dozing != 0 || !slices.Equal(f.ids, want) {
				t.Errorf("%d doze, and %q are thawed, want %q", dozing, f.ids, want)
			}
		})
	}
}

// TestAStopLeavesRunningWhatHasAPlace: as many frozen workspaces keep running as there are places, beginning with those
// that dozed off last.
func TestAStopLeavesRunningWhatHasAPlace(t *testing.T) {
	t.Parallel()
	o := options(t, devenv.PostgreSQL(t), "one")
	pool := leaderless(t, o.Database)
	p := start(t, o)
	p.Service.SetLimits(service.Limits{PerUser: 2, Global: 10})
	f := &thawed{}
	p.backend.Freezer = f
	for _, name := range []string{"first", "second", "third"} {
		if _, err := pool.Exec(t.Context(), `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key,
				phase, desired_state, doze_at, home_ctx, conditions)
			SELECT id, $1, 'docker', 'docker', 'home', 'RUNNING', 'RUNNING', clock_timestamp(), '{"dozed": "2026-11-01T00:00:00Z"}',
				'{"infra.dozing": {"status": "True"}}' FROM users LIMIT 1`, name); err != nil {
			t.Fatal(err)
		}
	}
	stop(t, p)
	var running string
	if err := pool.QueryRow(t.Context(), `SELECT COALESCE(string_agg(name, ' ' ORDER BY name), 'none') FROM workspaces
		WHERE desired_state = 'RUNNING' AND counted AND doze_at IS NULL`).Scan(&running); err != nil {
		t.Fatal(err)
	}
	if running != "second third" || len(f.ids) != 2 {
		t.Errorf("these run on: %s; thawed are %d", running, len(f.ids))
	}
}

// TestOfTwoThatStopTheLaterOneEndsDozes: the order in which the two processes stop does not matter, and they may even
// stop at the same time.
func TestOfTwoThatStopTheLaterOneEndsDozes(t *testing.T) {
	t.Parallel()
	database := devenv.PostgreSQL(t)
	pool := leaderless(t, database)
	one, two := start(t, options(t, database, "one")), start(t, options(t, database, "two"))
	f := &thawed{}
	one.backend.Freezer, two.backend.Freezer = f, f
	if _, err := pool.Exec(t.Context(), `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend,
			home_store_key, phase, desired_state, doze_at, home_ctx)
		SELECT id, 'notes', 'docker', 'docker', 'home', 'RUNNING', 'RUNNING', now(), '{"dozed": "2026-11-01T00:00:00Z"}' FROM users LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "both write activity", func() bool {
		var n int
		return pool.QueryRow(t.Context(), `SELECT count(*) FROM activity_writers`).Scan(&n) == nil && n == 2
	})
	var both sync.WaitGroup
	for _, p := range []*Coordinator{one, two} {
		both.Go(func() { stop(t, p) })
	}
	both.Wait()
	if len(f.ids) == 0 {
		t.Error("the workspace is frozen, and no process runs")
	}
}
