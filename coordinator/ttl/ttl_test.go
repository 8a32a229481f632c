package ttl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/ttl"
	"github.com/codehub/gateway/coordinator/workspace"
)

// world is a database, a Redis and a runner between them.
type world struct {
	*ttl.Runner
	t      *testing.T
	store  *store.Store
	pool   *pgxpool.Pool
	server *server.Redis
	redis  *redis.Client
	owner  string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := store.Open(devenv.PostgreSQL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv := devenv.NewRedis(t)
	opts, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	w := &world{t: t, store: st, pool: st.Pool(), server: srv, redis: client}
	w.Runner = w.runner(service.New(st, service.Options{InstanceBackend: "docker", StorageBackend: "docker", Logger: zap.NewNop()}))
	if err := w.pool.QueryRow(t.Context(), "INSERT INTO users (username) VALUES ('ann') RETURNING id").Scan(&w.owner); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) runner(wisher ttl.Wisher) *ttl.Runner {
	return ttl.New(w.store, wisher, activity.NewLog(w.redis, ""),
		ttl.Settings{Standby: 10 * time.Minute, Archive: time.Hour}, zap.NewNop())
}

// row is a workspace as a test wants it; the times are ages.
type row struct {
	phase     workspace.Phase
	operation workspace.Operation
	accessed  time.Duration // 0: never
	changed   time.Duration
	deleted   bool
}

func (w *world) insert(r row) workspace.ID {
	w.t.Helper()
	if r.operation == "" {
		r.operation = workspace.OpNone
	}
	var accessed *string
	if r.accessed != 0 {
		s := fmt.Sprintf("%d seconds", int(r.accessed.Seconds()))
		accessed = &s
	}
	desired := workspace.DesiredState(r.phase)
	if r.deleted {
		desired = workspace.DesiredDeleted
	}
	var id string
	err := w.pool.QueryRow(w.t.Context(), `
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key,
			phase, operation, desired_state, last_access_at, phase_changed_at, deleted_at)
		VALUES ($1, 'w', 'docker', 'docker', 'k', $2, $3, $4, now() - $5::interval, now() - $6::interval,
			CASE WHEN $7 THEN now() END)
		RETURNING id::text`,
		w.owner, string(r.phase), string(r.operation), string(desired), accessed,
		fmt.Sprintf("%d seconds", int(r.changed.Seconds())), r.deleted).Scan(&id)
	if err != nil {
		w.t.Fatal(err)
	}
	return workspace.ID(id)
}

func (w *world) used(id workspace.ID, ago time.Duration) {
	w.t.Helper()
	at := time.Now().Add(-ago).UnixMilli()
	if err := w.redis.ZAdd(w.t.Context(), activity.DefaultKey, redis.Z{Score: float64(at), Member: string(id)}).Err(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) desired(id workspace.ID) workspace.DesiredState {
	w.t.Helper()
	var d string
	if err := w.pool.QueryRow(w.t.Context(), "SELECT desired_state FROM workspaces WHERE id = $1", string(id)).Scan(&d); err != nil {
		w.t.Fatal(err)
	}
	return workspace.DesiredState(d)
}

// idle returns for how long the workspace has not been accessed.
func (w *world) idle(id workspace.ID) time.Duration {
	w.t.Helper()
	var s float64
	if err := w.pool.QueryRow(w.t.Context(),
		"SELECT extract(epoch FROM now() - last_access_at)::float8 FROM workspaces WHERE id = $1", string(id)).Scan(&s); err != nil {
		w.t.Fatal(err)
	}
	return time.Duration(s * float64(time.Second))
}

func (w *world) wants(id workspace.ID, want workspace.DesiredState) {
	w.t.Helper()
	if got := w.desired(id); got != want {
		w.t.Errorf("desired_state is %s, want %s", got, want)
	}
}

func (w *world) tick() {
	w.t.Helper()
	if err := w.Tick(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func TestWhatIsNotUsedGoesToSleepAndIsArchived(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		name string
		row  row
		want workspace.DesiredState
	}{
		{"unused for long", row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: 2 * time.Hour}, workspace.DesiredStandby},
		{"never used, running for long", row{phase: workspace.PhaseRunning, changed: time.Hour}, workspace.DesiredStandby},
		{"used just now", row{phase: workspace.PhaseRunning, accessed: time.Minute, changed: time.Hour}, workspace.DesiredRunning},
		{"just started", row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Minute}, workspace.DesiredRunning},
		{"in the middle of something", row{phase: workspace.PhaseRunning, operation: workspace.OpStopping, accessed: time.Hour, changed: time.Hour}, workspace.DesiredRunning},
		{"asleep for long", row{phase: workspace.PhaseStandby, accessed: 3 * time.Hour, changed: 2 * time.Hour}, workspace.DesiredArchived},
		{"just fallen asleep", row{phase: workspace.PhaseStandby, accessed: 3 * time.Hour, changed: time.Minute}, workspace.DesiredStandby},
		{"deleted", row{phase: workspace.PhaseStandby, changed: 3 * time.Hour, deleted: true}, workspace.DesiredDeleted},
		{"archived already", row{phase: workspace.PhaseArchived, changed: 3 * time.Hour}, workspace.DesiredArchived},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := w.insert(c.row)
			w.tick()
			if got := w.desired(id); got != c.want {
				t.Errorf("desired_state is %s, want %s", got, c.want)
			}
		})
	}
}

func TestUseThatIsOnlyKnownToRedisKeepsAwake(t *testing.T) {
	w := newWorld(t)
	used := w.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	unused := w.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	w.used(used, time.Minute)
	w.tick()
	w.wants(used, workspace.DesiredRunning)
	w.wants(unused, workspace.DesiredStandby)
	if n := w.redis.ZCard(t.Context(), activity.DefaultKey).Val(); n != 0 {
		t.Errorf("%d entries are left in redis", n)
	}
	if d := w.idle(used); d < 50*time.Second || d > 2*time.Minute {
		t.Errorf("last access was %s ago, want a minute", d)
	}
}

func TestLastAccessOnlyMovesForward(t *testing.T) {
	w := newWorld(t)
	id := w.insert(row{phase: workspace.PhaseRunning, accessed: time.Minute, changed: time.Hour})
	w.used(id, 30*time.Minute)
	w.tick()
	if d := w.idle(id); d > 2*time.Minute {
		t.Errorf("last access moved back to %s ago", d)
	}
	w.wants(id, workspace.DesiredRunning)
}

func TestNobodyIsPutToSleepWhileRedisIsAway(t *testing.T) {
	w := newWorld(t)
	running := w.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	asleep := w.insert(row{phase: workspace.PhaseStandby, changed: 3 * time.Hour})
	if err := w.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := w.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "nobody is put to sleep") {
		t.Fatalf("Tick returns %v", err)
	}
	w.wants(running, workspace.DesiredRunning)
	// What is in standby cannot be in use: archiving goes on.
	w.wants(asleep, workspace.DesiredArchived)
}

// failing is a store whose write of the activity fails.
type failing struct{ ttl.Store }

func (failing) TouchLastAccess(context.Context, map[workspace.ID]time.Time) error {
	return errors.New("disk full")
}

func TestActivityThatWasNotSavedStaysInRedis(t *testing.T) {
	w := newWorld(t)
	id := w.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	w.used(id, time.Minute)
	r := ttl.New(failing{w.store}, service.New(w.store, service.Options{Logger: zap.NewNop()}),
		activity.NewLog(w.redis, ""), ttl.Settings{Standby: time.Minute}, zap.NewNop())
	if err := r.Tick(t.Context()); err == nil {
		t.Fatal("Tick succeeds")
	}
	w.wants(id, workspace.DesiredRunning)
	if n := w.redis.ZCard(t.Context(), activity.DefaultKey).Val(); n != 1 {
		t.Fatalf("%d entries are left in redis, want 1", n)
	}
}

// moving is an activity log into which newer activity comes while it is written.
type moving struct {
	*activity.Log
	move func()
}

func (m moving) Remove(ctx context.Context, read map[workspace.ID]time.Time) error {
	m.move()
	return m.Log.Remove(ctx, read)
}

func TestActivityThatCameMeanwhileIsNotRemoved(t *testing.T) {
	w := newWorld(t)
	id := w.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	w.used(id, time.Minute)
	log := moving{activity.NewLog(w.redis, ""), func() { w.used(id, 0) }}
	r := ttl.New(w.store, service.New(w.store, service.Options{Logger: zap.NewNop()}), log, ttl.Settings{}, zap.NewNop())
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := w.redis.ZCard(t.Context(), activity.DefaultKey).Val(); n != 1 {
		t.Fatalf("%d entries are left in redis, want 1", n)
	}
}

// refusing is a service layer that fails for one workspace.
type refusing struct {
	ttl.Wisher
	id workspace.ID
}

func (r refusing) Expire(ctx context.Context, id workspace.ID, from workspace.Phase, to workspace.DesiredState, d time.Duration) (bool, error) {
	if id == r.id {
		return false, errors.New("out of order")
	}
	return r.Wisher.Expire(ctx, id, from, to, d)
}

func TestOneThatFailsDoesNotHoldUpTheOthers(t *testing.T) {
	w := newWorld(t)
	bad := w.insert(row{phase: workspace.PhaseRunning, changed: 2 * time.Hour})
	good := w.insert(row{phase: workspace.PhaseRunning, changed: time.Hour})
	r := w.runner(refusing{service.New(w.store, service.Options{Logger: zap.NewNop()}), bad})
	if err := r.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), string(bad)) {
		t.Fatalf("Tick returns %v", err)
	}
	w.wants(bad, workspace.DesiredRunning)
	w.wants(good, workspace.DesiredStandby)
}

func TestMoreThanOneStatementHolds(t *testing.T) {
	w := newWorld(t)
	_, err := w.pool.Exec(t.Context(), `
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, phase_changed_at)
		SELECT $1, 'w', 'docker', 'docker', 'k', 'RUNNING', 'RUNNING', now() - interval '1 hour' FROM generate_series(1, 1100)`, w.owner)
	if err != nil {
		t.Fatal(err)
	}
	w.tick()
	var n int
	if err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM workspaces WHERE desired_state = 'STANDBY'").Scan(&n); err != nil || n != 1100 {
		t.Fatalf("%d of 1100 are to sleep, %v", n, err)
	}
}

func TestSettingsAreTakenWhileItRuns(t *testing.T) {
	w := newWorld(t)
	never := w.insert(row{phase: workspace.PhaseRunning, accessed: 100 * time.Hour, changed: 100 * time.Hour})
	w.Set(ttl.Settings{Standby: -1, Archive: -1})
	w.tick()
	w.wants(never, workspace.DesiredRunning)

	ignore := goleak.IgnoreCurrent()
	w.Set(ttl.Settings{Interval: time.Hour, Standby: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	w.Set(ttl.Settings{Interval: time.Millisecond, Standby: time.Minute})
	for w.desired(never) != workspace.DesiredStandby {
		if t.Context().Err() != nil {
			t.Fatal("the new interval is not taken")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	goleak.VerifyNone(t, ignore)
}
