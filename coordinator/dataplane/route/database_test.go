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
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// rowsRead calls use with a store of its own, and returns how many rows of workspaces use has read. The store's only
// connection reports its reads to PostgreSQL's statistics when it ends.
func rowsRead(t testing.TB, database *store.Store, use func(*store.Store)) int64 {
	t.Helper()
	const read = `SELECT seq_tup_read + COALESCE(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE relname = 'workspaces'`
	const others = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
		AND backend_type = 'client backend' AND pid <> pg_backend_pid()`
	alone := func() {
		t.Helper()
		wait.Until(t, "the connections have ended", func() bool { return storetest.Value[int](t, database, others) == 0 })
	}
	alone()
	before := storetest.Value[int64](t, database, read)
	s := storetest.Reopen(t, database)
	use(s)
	s.Close()
	alone()
	return storetest.Value[int64](t, database, read) - before
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestAHundredThousandArchivedWorkspacesCostNothing: archived workspaces take no memory in the table. Their rows are
// read neither at the start nor by the comparison. A requested one costs one row.
func TestAHundredThousandArchivedWorkspacesCostNothing(t *testing.T) {
	database := storetest.Open(t)
	storetest.Exec(t, database, `INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		SELECT $1, 'many', 'docker', 'docker', 'x', 'ARCHIVED', 'ARCHIVED' FROM generate_series(1, 100000)`, storetest.AddUser(t, database))
	storetest.Exec(t, database, `VACUUM ANALYZE workspaces`)
	id := workspace.ID(storetest.Value[string](t, database, `SELECT id::text FROM workspaces LIMIT 1`))
	database.Close()

	// compare makes steps of the comparison, and may request one workspace.
	compare := func(steps int, find bool) int64 {
		return rowsRead(t, database, func(s *store.Store) {
			table := New(s, Options{}, zap.NewNop())
			memory := heap()
			if err := table.fillOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			var c comparison
			for range steps {
				if err := table.compare(t.Context(), &c); err != nil {
					t.Fatal(err)
				}
			}
			if grown := heap() - memory; grown > 1<<20 {
				t.Errorf("the table takes %d bytes", grown)
			}
			if !find {
				return
			}
			ctx, cancel := context.WithCancel(t.Context())
			var reader sync.WaitGroup
			reader.Go(func() { table.read(ctx) })
			for range 3 {
				table.find(t, id)
			}
			cancel()
			reader.Wait()
		})
	}
	// For the first plans of a connection, PostgreSQL's query planner reads the end of an index.
	few, many, asked := compare(20, false), compare(200, false), compare(20, true)
	if few > 10 || many != few {
		t.Errorf("%d rows are read in 20 steps and %d in 200", few, many)
	}
	if asked != few+1 {
		t.Errorf("%d rows are read for one workspace", asked-few)
	}
}

// TestAFloodOfUnknownIDsLeavesThePoolToOthers: a client that requests random workspaces occupies only one connection of
// the pool.
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
