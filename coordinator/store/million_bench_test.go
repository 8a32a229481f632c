package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// rows is how many workspaces BenchmarkMillion has: 3 of 100 run, 10 sleep, 86 are archived.
var rows = flag.Int("rows", 1_000_000, "how many workspaces BenchmarkMillion has")

const (
	// perUser is how many workspaces each user has. runs, sleeps and archived are how many of 1,000 workspaces run,
	// sleep and are archived.
	perUser, runs, sleeps, archived = 2, 30, 100, 860
	// measures is how often each statement is measured. The quickest time counts, as other load on the machine
	// only makes it longer.
	measures = 15
)

// load fills the database. Its triggers would take most of the time, and send notifications.
func load(b *testing.B, s *store.Store) {
	b.Helper()
	exec := func(sql string, args ...any) { b.Helper(); storetest.Exec(b, s, sql, args...) }
	users := *rows / perUser
	exec(`INSERT INTO users (id, username) SELECT ` + userID("k") + `, 'user ' || k FROM generate_series(0, ` + fmt.Sprint(users-1) + `) k`)
	exec(`INSERT INTO sessions (token_hash, user_id, expires_at) SELECT sha256(k::text::bytea), ` + userID("k") + `, now() + interval '7 days'
		FROM generate_series(0, ` + fmt.Sprint(users-1) + `) k`)
	exec(`ALTER TABLE workspaces DISABLE TRIGGER USER`)
	const chunk = 100_000
	for from := 0; from < *rows; from += chunk {
		exec(`INSERT INTO workspaces (owner_user_id, name, image_ref, instance_backend, storage_backend, home_store_key, phase, desired_state,
				conditions, endpoint, archive_key, last_access_at, phase_changed_at, created_at, home_bytes, home_measured_at, deleted_at, awaits_gc)
			SELECT `+userID(`i % `+fmt.Sprint(users))+`, 'workspace ' || i, 'code', 'kubernetes', 'kubernetes', 'home', p, CASE p WHEN 'DELETING' THEN 'DELETED' ELSE p END,
				'{"storage.volume_ready": {"status": "True", "reason": "VolumePresent", "last_transition_time": "2026-01-01T00:00:00Z"},
				  "policy.healthy": {"status": "True", "reason": "Healthy", "last_transition_time": "2026-01-01T00:00:00Z"}}'::jsonb,
				CASE p WHEN 'RUNNING' THEN '10.0.0.1:8080' END, CASE WHEN p <> 'STANDBY' THEN 'key ' || i END,
				CASE WHEN p = 'RUNNING' AND i % 100 > 0 THEN now() ELSE now() - (i % 864000) * interval '1 second' END,
				now() - (i % 86000 + 3600) * interval '1 second', now() - (i % 31536000) * interval '1 second', i * 1000::bigint, now(),
				CASE p WHEN 'DELETING' THEN now() - interval '1 hour' END, p = 'DELETING'
			FROM (SELECT i, CASE WHEN m < $3 THEN 'RUNNING' WHEN m < $4 THEN 'STANDBY' WHEN m < $5 THEN 'ARCHIVED' ELSE 'DELETING' END AS p
				FROM (SELECT i, (i * 7919::bigint) % 1000 AS m FROM generate_series($1::int, $2::int) i) m) w`,
			from, min(from+chunk, *rows)-1, runs, runs+sleeps, runs+sleeps+archived)
	}
	exec(`ALTER TABLE workspaces ENABLE TRIGGER USER`)
	if _, err := s.Recount(b.Context()); err != nil {
		b.Fatal(err)
	}
	exec(`INSERT INTO archives (workspace_id, key, size, verified_at) SELECT id, archive_key, 50000000, created_at FROM workspaces WHERE archive_key IS NOT NULL`)
	exec(`INSERT INTO workspace_history (workspace_id, at, kind, old_value, new_value, cause)
		SELECT id, now() - random() * interval '29 days', 'phase', 'RUNNING', 'STANDBY', 'controller' FROM workspaces, generate_series(1, 2)`)
	exec(`INSERT INTO usage_days (workspace_id, day, phase, owner_user_id, micros, byte_micros)
		SELECT id, current_date - d, phase, owner_user_id, 86400000000, 1e15 FROM workspaces, generate_series(1, 4) d`)
	exec(`INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ('coordinator', 'bench', 1)`)
	for _, table := range []string{"users", "sessions", "workspaces", "archives", "workspace_history", "usage_days"} {
		exec(`VACUUM ANALYZE ` + table)
	}
}

// userID is the id of the user of that number.
func userID(number string) string {
	return `('00000000-0000-4000-8000-' || lpad(to_hex(` + number + `), 12, '0'))::uuid`
}

// statements records the statements that a store sends.
type statements struct {
	mu  sync.Mutex
	all []statement
}

type statement struct {
	sql  string
	args []any
}

func (s *statements) add(sql string, args []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, statement{sql, args})
}

// take returns the statements since its last call.
func (s *statements) take() []statement {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	return all
}

// TraceQueryStart implements [pgx.QueryTracer].
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	s.add(q.SQL, q.Args)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart implements [pgx.BatchTracer].
func (s *statements) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	return ctx
}

// TraceBatchQuery implements [pgx.BatchTracer].
func (s *statements) TraceBatchQuery(_ context.Context, _ *pgx.Conn, q pgx.TraceBatchQueryData) {
	s.add(q.SQL, q.Args)
}

// TraceBatchEnd implements [pgx.BatchTracer].
func (s *statements) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// large are the tables that a frequent statement must not read as a whole.
var large = []string{"workspaces", "archives", "workspace_history", "users", "sessions", "usage_days"}

// scans lists the large tables of which a statement reads every row. Its effects are undone.
func scans(b *testing.B, s *store.Store, st statement) (tables []string) {
	b.Helper()
	pool := storetest.Pool(b, s)
	tx, err := pool.Begin(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = tx.Rollback(b.Context()); pool.Close() }()
	var text []byte
	if err := tx.QueryRow(b.Context(), `EXPLAIN (ANALYZE, FORMAT JSON) `+st.sql, st.args...).Scan(&text); err != nil {
		b.Fatalf("%s: %v", st.sql, err)
	}
	var plans []struct{ Plan map[string]any }
	if err := json.Unmarshal(text, &plans); err != nil {
		b.Fatal(err)
	}
	var walk func(map[string]any)
	walk = func(node map[string]any) {
		relation, _ := node["Relation Name"].(string)
		if kind := node["Node Type"].(string); kind == "Seq Scan" && slices.Contains(large, relation) {
			tables = append(tables, relation)
		}
		children, _ := node["Plans"].([]any)
		for _, c := range children {
			walk(c.(map[string]any))
		}
	}
	walk(plans[0].Plan)
	return tables
}

// operation is a query or a change that the product makes.
type operation struct {
	name string
	// whole is the reason why the operation may read every row of a large table. If it is empty, the operation may not
	// do so.
	whole string
	do    func(ctx context.Context) (rows int, err error)
}

// BenchmarkMillion measures the product's statements on a database with a million workspaces, and fails if a
// frequent statement reads every row of a large table. `make simulate MEASURE=1` runs it.
func BenchmarkMillion(b *testing.B) {
	s := storetest.Open(b)
	began := time.Now()
	load(b, s)
	fmt.Printf("figure million_load %.0f s\n", time.Since(began).Seconds())
	traced := new(statements)
	s, err := store.Open(s.ConnConfig().ConnString(), postgres.Options{Tracer: traced})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, op := range operations(b, s) {
		var rows int
		quickest := time.Hour
		for range measures {
			began := time.Now()
			n, err := op.do(b.Context())
			took := time.Since(began)
			if err != nil {
				b.Fatalf("%s: %v", op.name, err)
			}
			rows, quickest = n, min(quickest, took)
			if took > time.Second {
				break // it is slow, however often it is tried
			}
		}
		traced.take()
		if _, err := op.do(b.Context()); err != nil {
			b.Fatal(err)
		}
		var whole []string
		for _, st := range traced.take() {
			if word, _, _ := strings.Cut(strings.TrimSpace(strings.ToUpper(st.sql)), " "); !slices.Contains([]string{"BEGIN", "COMMIT", "SET"}, word) {
				whole = append(whole, scans(b, s, st)...)
			}
		}
		fmt.Printf("figure million_%s %.3f ms\n", op.name, float64(quickest.Microseconds())/1000)
		fmt.Printf("figure million_%s_rows %d rows\n", op.name, rows)
		if len(whole) > 0 && op.whole == "" {
			b.Errorf("%s reads all of %q", op.name, whole)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func operations(b *testing.B, s *store.Store) []operation {
	b.Helper()
	value := func(sql string) string { b.Helper(); return storetest.Value[string](b, s, sql) }
	ids := func(where string, n int) (all []workspace.ID) {
		b.Helper()
		text := value(fmt.Sprintf(`SELECT string_agg(id::text, ',') FROM (SELECT id FROM workspaces WHERE %s LIMIT %d) w`, where, n))
		for id := range strings.SplitSeq(text, ",") {
			all = append(all, workspace.ID(id))
		}
		return all
	}
	running, asleep, archived := ids(`phase = 'RUNNING'`, 500), ids(`phase = 'STANDBY'`, 500), ids(`phase = 'ARCHIVED'`, 1000)
	owner := value(`SELECT owner_user_id FROM workspaces WHERE id = '` + string(archived[0]) + `'`)
	position, err := s.Position(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	viewer := store.Viewer{UserID: owner, Through: "api"}
	fence := postgres.Fence{Lock: "coordinator", Epoch: 1}
	limits := store.Limits{PerUser: 2, Global: *rows, Workspaces: 100}
	people := accounts.New(s.DB)
	list := func(f store.Filter) func(context.Context) (int, error) {
		return func(ctx context.Context) (int, error) {
			all, err := s.List(ctx, f, 100, nil)
			return len(all), err
		}
	}
	const adminsLook = "an administrator's page"
	toggle := 0
	return []operation{
		{"position", "", func(ctx context.Context) (int, error) { _, err := s.Position(ctx); return 1, err }},
		{"feed_nothing", "", func(ctx context.Context) (int, error) {
			all, err := s.ChangesSince(ctx, position.Revision, 500)
			return len(all), err
		}},
		{"feed_page", "", func(ctx context.Context) (int, error) {
			all, err := s.ChangesSince(ctx, position.Revision-500, 500)
			return len(all), err
		}},
		{"route", "", func(ctx context.Context) (int, error) { all, err := s.Routes(ctx, running[:1]); return len(all), err }},
		{"compare_100", "", func(ctx context.Context) (int, error) { all, err := s.Routes(ctx, running[:100]); return len(all), err }},
		{"awake_page", "", func(ctx context.Context) (int, error) { all, err := s.AwakeRoutes(ctx, "", 500); return len(all), err }},
		{"get", "", func(ctx context.Context) (int, error) { _, err := s.Get(ctx, viewer, archived[0]); return 1, err }},
		{"list_owner", "", list(store.Filter{Owner: owner, Order: store.ByCreation, Descending: true})},
		{"list_owner_text", "", list(store.Filter{Owner: owner, Text: "space", Order: store.ByName})},
		{"list_deleted", "", list(store.Filter{Owner: owner, Deleted: true, Order: store.ByDeletion, Descending: true})},
		{"list_all", "", list(store.Filter{Order: store.ByCreation, Descending: true})},
		{"list_all_failed", "", list(store.Filter{Order: store.ByCreation, Phases: []workspace.Phase{workspace.PhaseError}})},
		{"list_all_name", adminsLook, list(store.Filter{Order: store.ByName})},
		{"list_all_use", adminsLook, list(store.Filter{Order: store.ByUse, Descending: true})},
		{"list_all_size", adminsLook, list(store.Filter{Order: store.BySize, Descending: true})},
		{"list_all_text", adminsLook, list(store.Filter{Order: store.ByCreation, Text: "nothing has this"})},
		{"overview", adminsLook, func(ctx context.Context) (int, error) { _, err := s.Overview(ctx); return 1, err }},
		{"census", "", func(ctx context.Context) (int, error) { _, err := s.Count(ctx); return 1, err }},
		{"report_all", adminsLook, func(ctx context.Context) (int, error) {
			from, to := usage.LastMonth(time.Now())
			r, err := usage.New(s.DB).Report(ctx, from, to, "")
			return len(r.Workspaces), err
		}},
		{"recount", "once a term, and once a day", func(ctx context.Context) (int, error) { _, err := s.Recount(ctx); return 1, err }},
		{"events", "", func(ctx context.Context) (int, error) { all, err := s.Events(ctx, 100, 0); return len(all), err }},
		{"history", "", func(ctx context.Context) (int, error) {
			all, err := s.History(ctx, archived[0], 100, 0)
			return len(all), err
		}},
		{"owned_since", "", func(ctx context.Context) (int, error) {
			all, err := s.OwnedSince(ctx, owner, position, "", 500)
			return len(all), err
		}},
		{"candidates_all", "", func(ctx context.Context) (int, error) {
			all, err := s.Candidates(ctx, 0, 1, false)
			return len(all), err
		}},
		{"candidates_shard_of_16", "", func(ctx context.Context) (int, error) {
			all, err := s.Candidates(ctx, 0, 16, false)
			return len(all), err
		}},
		{"candidates_in_transition", "", func(ctx context.Context) (int, error) {
			all, err := s.Candidates(ctx, 0, 16, true)
			return len(all), err
		}},
		{"sweep_page", "", func(ctx context.Context) (int, error) {
			all, err := s.SweepPage(ctx, 0, 16, "", 500)
			return len(all), err
		}},
		{"unmeasured", "", func(ctx context.Context) (int, error) {
			all, err := s.UnmeasuredHomes(ctx, 0, 16, time.Minute, 6*time.Hour, true, 100)
			return len(all), err
		}},
		{"unused", "", func(ctx context.Context) (int, error) {
			all, _, err := s.Unused(ctx, 3*time.Hour, 3*time.Hour, store.Unused{}, 500)
			return len(all), err
		}},
		{"expired_standby", "", func(ctx context.Context) (int, error) {
			all, err := s.ExpiredStandby(ctx, 20*time.Hour, 500)
			return len(all), err
		}},
		{"longest_asleep", "", func(ctx context.Context) (int, error) {
			all, err := s.LongestAsleep(ctx, time.Minute, 100)
			return len(all), err
		}},
		{"leaving_disk", "", func(ctx context.Context) (int, error) { _, err := s.LeavingDisk(ctx); return 1, err }},
		{"touch_500", "", func(ctx context.Context) (int, error) {
			ages := map[workspace.ID]time.Duration{}
			for _, id := range running {
				ages[id] = 0
			}
			return len(ages), s.TouchLastAccess(ctx, ages, ages)
		}},
		{"wake", "", func(ctx context.Context) (int, error) {
			// In turns, so that each call changes it.
			toggle++
			to := []workspace.DesiredState{workspace.DesiredStandby, workspace.DesiredRunning}[toggle%2]
			_, outcome, err := s.Update(ctx, store.Viewer{All: true, Through: "gateway"}, asleep[0], store.Edit{Desired: &to}, limits)
			if err == nil && outcome != store.Changed && outcome != store.Unchanged {
				err = fmt.Errorf("the outcome is %s", outcome)
			}
			return 1, err
		}},
		{"create", "", func(ctx context.Context) (int, error) {
			_, _, err := s.Create(ctx, workspace.Workspace{
				ID: workspace.ID(uuid.NewString()), OwnerID: owner, Name: "new", InstanceBackend: "kubernetes",
				StorageBackend: "kubernetes", DesiredState: workspace.DesiredArchived,
			}, "api", store.Limits{Global: *rows})
			return 1, err
		}},
		{"save", "", func(ctx context.Context) (int, error) {
			w := storetest.Row(b, s, asleep[1])
			next := w
			next.ObservedAt = time.Now()
			saved, err := s.Save(ctx, fence, w, next, nil)
			if err == nil && !saved {
				err = fmt.Errorf("it was not saved")
			}
			return 1, err
		}},
		{"protection_1000", "", func(ctx context.Context) (int, error) {
			all, err := s.Protection(ctx, archived)
			return len(all), err
		}},
		{"count", "once in a collection", func(ctx context.Context) (int, error) { n, err := s.CountWorkspaces(ctx); return int(n), err }},
		{"next_archive", "", func(ctx context.Context) (int, error) {
			_, _, err := s.NextArchive(ctx, time.Hour, time.Hour)
			return 1, err
		}},
		{"last_check", "", func(ctx context.Context) (int, error) { _, _, err := s.LastCheck(ctx); return 1, err }},
		{"requested_archive", "", func(ctx context.Context) (int, error) {
			_, _, err := s.RequestedArchive(ctx, time.Hour)
			return 1, err
		}},
		{"archive_health", adminsLook, func(ctx context.Context) (int, error) { _, err := s.ArchiveHealth(ctx); return 1, err }},
		{"scrub_counts", adminsLook, func(ctx context.Context) (int, error) { _, err := s.Scrub(ctx); return 1, err }},
		{"failed", "", func(ctx context.Context) (int, error) {
			all, err := s.Failed(ctx, workspace.ReasonTimeout, "", 500)
			return len(all), err
		}},
		{"trim_history", "", func(ctx context.Context) (int, error) {
			n, err := s.TrimHistory(ctx, 30*24*time.Hour, 1000)
			return int(n), err
		}},
		{"session", "", func(ctx context.Context) (int, error) {
			_, err := people.Session(ctx, accounts.TokenHash{1})
			if errors.Is(err, postgres.ErrNotFound) {
				err = nil
			}
			return 1, err
		}},
		{"users_page", "", func(ctx context.Context) (int, error) {
			all, err := people.Overviews(ctx, "", "", 100)
			return len(all), err
		}},
		{"user_by_name", "", func(ctx context.Context) (int, error) { _, err := people.UserByName(ctx, "USER 77"); return 1, err }},
		{"writers", "", func(ctx context.Context) (int, error) { all, err := s.Writers(ctx); return len(all.All), err }},
	}
}
