package ttl_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// harness is a database, a Redis and a runner between them.
type harness struct {
	*ttl.Runner
	t      *testing.T
	store  *store.Store
	server *server.Redis
	redis  *redis.Client
	owner  string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	st := storetest.Open(t)
	srv := devenv.NewRedis(t)
	opts, err := redis.ParseURL(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	client := redis.NewClient(opts)
	t.Cleanup(func() { _ = client.Close() })
	h := &harness{t: t, store: st, server: srv, redis: client, owner: storetest.AddUser(t, st)}
	h.Runner = h.runner(service.New(st, service.Options{InstanceBackend: "docker", StorageBackend: "docker", Logger: zap.NewNop()}))
	return h
}

func (h *harness) runner(expirer ttl.Expirer) *ttl.Runner {
	return h.with(ttl.Options{Expirer: expirer}, ttl.Settings{Interval: time.Minute, Standby: 10 * time.Minute, Archive: time.Hour})
}

// term is the leader's term in these tests.
var term = postgres.Fence{Lock: "coordinator", Epoch: 1}

// with returns a runner. For parts that o does not have, it uses those of the harness. If the settings have no notice,
// the runner puts workspaces to sleep immediately.
func (h *harness) with(o ttl.Options, s ttl.Settings) *ttl.Runner {
	h.t.Helper()
	if o.Store == nil {
		o.Store = h.store
	}
	if o.Expirer == nil {
		o.Expirer = service.New(h.store, service.Options{Logger: zap.NewNop()})
	}
	if o.Activity == nil {
		o.Activity = activity.NewLog(h.redis, "")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	storetest.Exec(h.t, h.store, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'me', $2) ON CONFLICT DO NOTHING`,
		term.Lock, term.Epoch)
	r := ttl.New(o, s)
	r.SetFence(term)
	return r
}

// atOnce are the default settings, without notice.
func atOnce() ttl.Settings {
	s := ttl.DefaultSettings()
	s.Notice = 0
	return s
}

// row describes a workspace; the times are ages.
type row struct {
	phase     workspace.Phase
	operation workspace.Operation
	accessed  time.Duration // 0: never
	changed   time.Duration
	deleted   bool
}

func (h *harness) insert(r row) workspace.ID {
	h.t.Helper()
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
	return workspace.ID(storetest.Value[string](h.t, h.store, `
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key,
			phase, operation, desired_state, last_access_at, phase_changed_at, deleted_at)
		VALUES (@owner, 'w', 'docker', 'docker', 'k', @phase, @operation, @desired,
			now() - @accessed::interval, now() - @changed::interval, CASE WHEN @deleted THEN now() END)
		RETURNING id::text`, pgx.StrictNamedArgs{
		"owner": h.owner, "phase": string(r.phase), "operation": string(r.operation), "desired": string(desired),
		"accessed": accessed, "changed": fmt.Sprintf("%d seconds", int(r.changed.Seconds())), "deleted": r.deleted,
	}))
}

func (h *harness) used(id workspace.ID, ago time.Duration) {
	h.t.Helper()
	at := time.Now().Add(-ago).UnixMilli()
	if err := h.redis.ZAdd(h.t.Context(), activity.DefaultKey, redis.Z{Score: float64(at), Member: string(id)}).Err(); err != nil {
		h.t.Fatal(err)
	}
}

// left returns the number of workspaces with activity in Redis.
func (h *harness) left() int {
	h.t.Helper()
	read, err := activity.NewLog(h.redis, "").Read(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return len(read.At)
}

func (h *harness) desired(id workspace.ID) workspace.DesiredState {
	h.t.Helper()
	return storetest.Row(h.t, h.store, id).DesiredState
}

// idle returns the time since the workspace's last access.
func (h *harness) idle(id workspace.ID) time.Duration {
	h.t.Helper()
	s := storetest.Value[float64](h.t, h.store,
		"SELECT extract(epoch FROM now() - last_access_at)::float8 FROM workspaces WHERE id = $1", string(id))
	return time.Duration(s * float64(time.Second))
}

func (h *harness) wants(id workspace.ID, want workspace.DesiredState) {
	h.t.Helper()
	if got := h.desired(id); got != want {
		h.t.Errorf("desired_state is %s, want %s", got, want)
	}
}

func (h *harness) tick() {
	h.t.Helper()
	if err := h.Tick(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func TestUnusedWorkspacesExpire(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		name string
		row  row
		want workspace.DesiredState
	}{
		{"unused for long", row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: 2 * time.Hour}, workspace.DesiredStandby},
		{"never used, running for long", row{phase: workspace.PhaseRunning, changed: time.Hour}, workspace.DesiredStandby},
		{"used just now", row{phase: workspace.PhaseRunning, accessed: time.Minute, changed: time.Hour}, workspace.DesiredRunning},
		{"just started", row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Minute}, workspace.DesiredRunning},
		{"operation in progress", row{phase: workspace.PhaseRunning, operation: workspace.OpStopping, accessed: time.Hour, changed: time.Hour}, workspace.DesiredRunning},
		{"in standby for long", row{phase: workspace.PhaseStandby, accessed: 3 * time.Hour, changed: 2 * time.Hour}, workspace.DesiredArchived},
		{"recently in standby", row{phase: workspace.PhaseStandby, accessed: 3 * time.Hour, changed: time.Minute}, workspace.DesiredStandby},
		{"deleted", row{phase: workspace.PhaseStandby, changed: 3 * time.Hour, deleted: true}, workspace.DesiredDeleted},
		{"archived already", row{phase: workspace.PhaseArchived, changed: 3 * time.Hour}, workspace.DesiredArchived},
	} {
		t.Run(c.name, func(t *testing.T) {
			id := h.insert(c.row)
			h.tick()
			if got := h.desired(id); got != c.want {
				t.Errorf("desired_state is %s, want %s", got, c.want)
			}
		})
	}
}

func TestUseRecordedOnlyInRedisCounts(t *testing.T) {
	h := newHarness(t)
	used := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	unused := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	h.used(used, time.Minute)
	h.tick()
	h.wants(used, workspace.DesiredRunning)
	h.wants(unused, workspace.DesiredStandby)
	if n := h.left(); n != 0 {
		t.Errorf("%d entries are left in redis", n)
	}
	if d := h.idle(used); d < 50*time.Second || d > 2*time.Minute {
		t.Errorf("last access was %s ago, want a minute", d)
	}
}

func TestLastAccessOnlyMovesForward(t *testing.T) {
	h := newHarness(t)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Minute, changed: time.Hour})
	h.used(id, 30*time.Minute)
	h.tick()
	if d := h.idle(id); d > 2*time.Minute {
		t.Errorf("last access moved back to %s ago", d)
	}
	h.wants(id, workspace.DesiredRunning)
}

// TestATimeInTheFutureIsThePresent: a time in Redis that lies in the future counts as the present, so it does not keep
// a workspace awake for longer.
func TestATimeInTheFutureIsThePresent(t *testing.T) {
	h := newHarness(t)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	h.used(id, -365*24*time.Hour)
	h.tick()
	if d := h.idle(id); d < -time.Second || d > 2*time.Minute {
		t.Errorf("the last access was %s ago", d)
	}
	if n := h.left(); n != 0 {
		t.Errorf("%d times are still in Redis", n)
	}
}

func TestRunningWorkspacesDoNotExpireDuringARedisOutage(t *testing.T) {
	h := newHarness(t)
	running := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	standby := h.insert(row{phase: workspace.PhaseStandby, changed: 3 * time.Hour})
	if err := h.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := h.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), "running workspaces do not expire") {
		t.Fatalf("Tick returns %v", err)
	}
	h.wants(running, workspace.DesiredRunning)
	// A workspace in STANDBY cannot be in use: archiving continues.
	h.wants(standby, workspace.DesiredArchived)
}

// failing is a store that cannot write activity.
type failing struct{ ttl.Store }

func (failing) TouchLastAccess(_ context.Context, _, _ map[workspace.ID]time.Duration) error {
	return errors.New("disk full")
}

func TestActivityThatWasNotSavedStaysInRedis(t *testing.T) {
	h := newHarness(t)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	h.used(id, time.Minute)
	r := h.with(ttl.Options{Store: failing{h.store}}, ttl.Settings{Interval: time.Minute, Standby: time.Minute, Archive: time.Hour})
	if err := r.Tick(t.Context()); err == nil {
		t.Fatal("Tick succeeds")
	}
	h.wants(id, workspace.DesiredRunning)
	if n := h.left(); n != 1 {
		t.Fatalf("%d entries are left in redis, want 1", n)
	}
}

// moving is an activity log that records newer activity during a tick.
type moving struct {
	*activity.Log
	move func()
}

func (m moving) Remove(ctx context.Context, at, input map[workspace.ID]time.Time) error {
	m.move()
	return m.Log.Remove(ctx, at, input)
}

func TestActivityRecordedDuringATickIsNotRemoved(t *testing.T) {
	h := newHarness(t)
	id := h.insert(row{phase: workspace.PhaseRunning, accessed: time.Hour, changed: time.Hour})
	h.used(id, time.Minute)
	log := moving{activity.NewLog(h.redis, ""), func() { h.used(id, 0) }}
	r := h.with(ttl.Options{Activity: log}, atOnce())
	if err := r.Tick(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := h.left(); n != 1 {
		t.Fatalf("%d entries are left in redis, want 1", n)
	}
}

// refusing is a service layer that fails for one workspace.
type refusing struct {
	ttl.Expirer
	id workspace.ID
}

func (r refusing) Sleep(ctx context.Context, id workspace.ID, u service.Unused) (bool, error) {
	if id == r.id {
		return false, errors.New("refused")
	}
	return r.Expirer.Sleep(ctx, id, u)
}

func TestOneFailureDoesNotStopTheOthers(t *testing.T) {
	h := newHarness(t)
	bad := h.insert(row{phase: workspace.PhaseRunning, changed: 2 * time.Hour})
	good := h.insert(row{phase: workspace.PhaseRunning, changed: time.Hour})
	r := h.runner(refusing{service.New(h.store, service.Options{Logger: zap.NewNop()}), bad})
	if err := r.Tick(t.Context()); err == nil || !strings.Contains(err.Error(), string(bad)) {
		t.Fatalf("Tick returns %v", err)
	}
	h.wants(bad, workspace.DesiredRunning)
	h.wants(good, workspace.DesiredStandby)
}

func TestMoreThanOneBatch(t *testing.T) {
	h := newHarness(t)
	storetest.Exec(t, h.store, `
		INSERT INTO workspaces (owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, phase_changed_at)
		SELECT $1, 'w', 'docker', 'docker', 'k', 'RUNNING', 'RUNNING', now() - interval '1 hour' FROM generate_series(1, 1100)`, h.owner)
	h.tick()
	if n := storetest.Value[int](t, h.store, "SELECT count(*) FROM workspaces WHERE desired_state = 'STANDBY'"); n != 1100 {
		t.Fatalf("%d of 1100 expired", n)
	}
}

func TestSettingsChangeWhileItRuns(t *testing.T) {
	h := newHarness(t)
	unused := h.insert(row{phase: workspace.PhaseRunning, accessed: 100 * time.Hour, changed: 100 * time.Hour})
	h.Set(ttl.Settings{Interval: time.Hour, Standby: 200 * time.Hour, Archive: time.Hour})
	h.tick()
	h.wants(unused, workspace.DesiredRunning)

	ignore := goleak.IgnoreCurrent()
	h.Set(ttl.Settings{Interval: time.Hour, Standby: time.Minute, Archive: time.Hour})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx, term) }()
	h.Set(ttl.Settings{Interval: time.Millisecond, Standby: time.Minute, Archive: time.Hour})
	for h.desired(unused) != workspace.DesiredStandby {
		if t.Context().Err() != nil {
			t.Fatal("the new interval does not apply")
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wait.NoGoroutines(t, ignore)
}

func TestSettingsAreValidatedTogether(t *testing.T) {
	if err := ttl.DefaultSettings().Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := ttl.Settings{Standby: -time.Second}.Validate()
	for _, want := range []string{"coordinator ttl_interval", "ttl standby", "ttl archive"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not mentioned in: %v", want, err)
		}
	}
}
