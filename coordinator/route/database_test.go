package route

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// rowsRead returns how many rows of workspaces were read by the store so far. It must
// have one connection: each reports its numbers by itself.
func rowsRead(t testing.TB, s *store.Store) int64 {
	t.Helper()
	storetest.Exec(t, s, `SELECT pg_stat_force_next_flush()`)
	storetest.Exec(t, s, `SELECT 1`)
	return storetest.Value[int64](t, s, `SELECT seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'workspaces'`)
}

// manyAsleep returns a store with one connection on a database with n archived
// workspaces.
func manyAsleep(t testing.TB, n int) *store.Store {
	t.Helper()
	all := storetest.Open(t)
	owner := storetest.AddUser(t, all)
	storetest.Exec(t, all, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		SELECT $1, 'many', 'docker', 'docker', 'x', 'ARCHIVED', 'ARCHIVED' FROM generate_series(1, $2)`, owner, n)
	storetest.Exec(t, all, `VACUUM ANALYZE workspaces`)
	s, err := store.Open(all.ConnConfig().ConnString()+"&pool_max_conns=1", store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Archived workspaces cost the table no memory, and no row is read for them, neither at
// the start nor by the comparison. One that is asked for costs one row.
func TestAHundredThousandArchivedWorkspacesCostNothing(t *testing.T) {
	s := manyAsleep(t, 100_000)
	id := storetest.Value[string](t, s, `SELECT id::text FROM workspaces LIMIT 1`)
	table := New(s, Options{}, zap.NewNop())
	memory := heap()
	var c comparison
	steps := func(n int) {
		t.Helper()
		if err := table.fillOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := table.compare(t.Context(), &c); err != nil {
				t.Fatal(err)
			}
		}
	}
	steps(10) // the planner looks at the ends of the index until it has a general plan
	rows := rowsRead(t, s)
	steps(50)
	if n := rowsRead(t, s) - rows; n != 0 {
		t.Errorf("%d rows were read", n)
	}
	if grown := heap() - memory; grown > 1<<20 {
		t.Errorf("the table takes %d bytes", grown)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var reader sync.WaitGroup
	reader.Go(func() { table.read(ctx) })
	defer reader.Wait()
	defer cancel()
	for range 3 {
		table.find(t, workspace.ID(id))
	}
	if n := rowsRead(t, s) - rows; n != 1 {
		t.Errorf("%d rows were read for one workspace", n)
	}
}

// Whoever asks for workspaces at random occupies one connection of the pool.
func TestAFloodOfUnknownIDsLeavesThePoolToOthers(t *testing.T) {
	s := storetest.Open(t)
	table := start(t, s, Options{})
	<-table.Loaded()
	var asking sync.WaitGroup
	for range 200 {
		asking.Go(func() {
			for range 100 {
				_, err := table.Find(t.Context(), workspace.ID(uuid.NewString()))
				if !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrBusy) {
					t.Errorf("Find = %v", err)
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { asking.Wait(); close(ended) }()
	for busy := true; busy; {
		select {
		case <-ended:
			busy = false
		default:
		}
		if n := storetest.Value[int](t, s, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND application_name = 'codehub' AND state = 'active' AND pid <> pg_backend_pid()`); n > 1 {
			t.Fatalf("%d connections are in use", n)
		}
		runtime.Gosched()
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}
