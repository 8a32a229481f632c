package coordinator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// How often each case is measured.
const (
	killRuns      = 25
	killManyRuns  = 10
	stopRuns      = 4
	shardsOfMany  = 8
	membersOfMany = 3
)

// race is an installation whose leaders are killed and stopped.
type race struct {
	b       *testing.B
	options Options
	store   *store.Store
	service *service.Service
	owner   service.Actor
	conn    *pgx.Conn
	id      workspace.ID
	next    int
}

func newRace(b *testing.B) *race {
	b.Helper()
	bucket := devenv.S3(b)
	r := &race{b: b, options: Options{
		Database: devenv.PostgreSQL(b), Redis: devenv.Redis(b),
		Archive: archive.Options{
			Endpoint: bucket.Endpoint, Region: bucket.Region, Bucket: bucket.Bucket, PathStyle: true,
			AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
		},
		Docker: docker.Options{
			Host: devenv.Docker(b), Installation: devenv.Installation("race"),
			Image: devenv.TerminalImage(b), JobImage: devenv.StorageJobImage(b), JobNetwork: "host",
		},
	}}
	var err error
	if r.store, err = store.Open(r.options.Database, postgres.Options{}); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(r.store.Close)
	if err := r.store.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	if r.conn, err = pgx.Connect(b.Context(), r.options.Database); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = r.conn.Close(context.Background()) })
	r.service = service.New(r.store, service.Options{})
	r.owner = service.Actor{UserID: storetest.AddUser(b, r.store), Through: "test"}
	b.Cleanup(r.remove)
	return r
}

// join starts a process with that number of shards.
func (r *race) join(shards int) *process {
	r.b.Helper()
	r.next++
	o := r.options
	o.NodeID, o.Shards = fmt.Sprintf("node-%d", r.next), shards
	text, err := json.Marshal(o)
	if err != nil {
		r.b.Fatal(err)
	}
	return startProcess(r.b, o.NodeID, coordinatorEnv+"="+string(text))
}

// leaders returns how many shards, of that number, each process leads.
func (r *race) leaders(shards int) map[string]int {
	r.b.Helper()
	rows, err := r.conn.Query(r.b.Context(), "SELECT holder_id FROM system_locks WHERE lock_name LIKE CASE $1::int WHEN 1 THEN 'coordinator' ELSE 'coordinator/%' END", shards)
	if err != nil {
		r.b.Fatal(err)
	}
	led := make(map[string]int)
	var holder string
	if _, err := pgx.ForEachRow(rows, []any{&holder}, func() error { led[holder]++; return nil }); err != nil {
		r.b.Fatal(err)
	}
	return led
}

// until checks the condition again and again without a pause, because a pause would be part of the measured time.
func (r *race) until(what string, condition func() bool) time.Time {
	r.b.Helper()
	for deadline := time.Now().Add(wait.Timeout); ; {
		if condition() {
			return time.Now()
		}
		if time.Now().After(deadline) {
			r.b.Fatalf("it never happens that %s", what)
		}
	}
}

// waits returns when n sessions wait for an advisory lock.
func (r *race) waits(n int) {
	r.b.Helper()
	wait.Until(r.b, "the other process waits for the lock", func() bool {
		var waiting int
		if err := r.conn.QueryRow(r.b.Context(), `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&waiting); err != nil {
			r.b.Fatal(err)
		}
		return waiting >= n
	})
}

// settled returns when the workspace has its desired state.
func (r *race) settled() {
	r.b.Helper()
	wait.For(r.b, "the workspace has its desired state", func() error {
		w := storetest.Row(r.b, r.store, r.id)
		if w.Operation != workspace.OpNone || string(w.Phase) != string(w.DesiredState) {
			return fmt.Errorf("it is %s, %s, to be %s: %s %s", w.Phase, w.Operation, w.DesiredState, w.ErrorReason, w.ErrorMessage)
		}
		return nil
	})
}

// other is whichever of RUNNING and STANDBY the workspace is not in.
func (r *race) other() workspace.DesiredState {
	r.b.Helper()
	if storetest.Row(r.b, r.store, r.id).Phase == workspace.PhaseRunning {
		return workspace.DesiredStandby
	}
	return workspace.DesiredRunning
}

// bare measures how long PostgreSQL alone takes, from the kill of a process that holds a lock until a waiting session
// has the lock.
func (r *race) bare() time.Duration {
	r.b.Helper()
	p := startProcess(r.b, "bare", bareEnv+"="+r.options.Database)
	waiter, err := pgx.Connect(r.b.Context(), r.options.Database)
	if err != nil {
		r.b.Fatal(err)
	}
	defer waiter.Close(context.Background())
	has := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(r.b.Context(), "SELECT pg_advisory_lock($1)", bareLock)
		has <- err
	}()
	r.waits(1)
	began := time.Now()
	p.signal(r.b, syscall.SIGKILL)
	if err := <-has; err != nil {
		r.b.Fatal(err)
	}
	took := time.Since(began)
	p.kill(r.b)
	return took
}

// remove removes the remains on the engine.
func (r *race) remove() {
	engine, err := docker.New(r.options.Docker)
	if err != nil {
		r.b.Error(err)
		return
	}
	defer engine.Close()
	ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
	defer cancel()
	wait.For(r.b, "everything is removed", func() error {
		left, err := engine.Objects(ctx)
		for _, o := range left {
			if e := engine.Remove(ctx, o); e != nil {
				err = e
			}
		}
		return err
	})
}

// figure prints the median and the largest of the times.
func figure(name string, took []time.Duration) {
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	fmt.Printf("figure %s_ms %.1f ms\n", name, ms(took[len(took)/2]))
	fmt.Printf("figure %s_p99_ms %.1f ms\n", name, ms(took[(len(took)*99)/100]))
}

// BenchmarkFailover measures with real processes how long there is no leader after the leader was killed or stopped.
// For comparison, it also measures how long PostgreSQL alone takes to pass on a lock whose holder was killed. `make
// bench-failover` runs it.
func BenchmarkFailover(b *testing.B) {
	r := newRace(b)
	leads := r.join(1)
	r.until("the first process leads", func() bool { return r.leaders(1)[leads.node] == 1 })
	w, err := r.service.Create(b.Context(), r.owner, service.CreateInput{Name: "race"})
	if err != nil {
		b.Fatal(err)
	}
	r.id = w.ID
	r.settled()

	var kill, action, bare, stop []time.Duration
	for range killRuns {
		next := r.join(1)
		r.waits(1)
		to, asked := r.other(), make(chan error, 1)
		began := time.Now()
		leads.signal(b, syscall.SIGKILL)
		go func() { asked <- r.service.SetDesired(b.Context(), r.owner, r.id, to) }()
		kill = append(kill, r.until("the other process leads", func() bool { return r.leaders(1)[next.node] == 1 }).Sub(began))
		if err := <-asked; err != nil {
			b.Fatal(err)
		}
		wait.Until(b, "the new leader acts", func() bool { _, ok := next.actionAfter(began); return ok })
		at, _ := next.actionAfter(began)
		action = append(action, at.Sub(began))
		leads.kill(b)
		leads = next
		r.settled()
		bare = append(bare, r.bare())
	}
	figure("failover_kill", kill)
	figure("failover_bare_lock", bare)
	figure("failover_first_action", action)

	for range stopRuns {
		next := r.join(1)
		r.waits(1)
		began := time.Now()
		leads.signal(b, syscall.SIGSTOP)
		stop = append(stop, r.until("the other process leads", func() bool { return r.leaders(1)[next.node] == 1 }).Sub(began))
		leads.kill(b)
		leads = next
	}
	figure("failover_stop", stop)
	leads.kill(b)
	benchmarkMany(r)
	b.ReportMetric(0, "ns/op")
}

// benchmarkMany measures the case in which several processes share the shards: how long shards have no leader after one
// of these processes was killed.
func benchmarkMany(r *race) {
	var all []*process
	for range membersOfMany {
		all = append(all, r.join(shardsOfMany))
	}
	var kill []time.Duration
	for range killManyRuns {
		wait.Until(r.b, "every process has its share", func() bool {
			led := r.leaders(shardsOfMany)
			for _, p := range all {
				if led[p.node] < shardsOfMany/membersOfMany {
					return false
				}
			}
			return len(led) == len(all)
		})
		began := time.Now()
		all[0].signal(r.b, syscall.SIGKILL)
		kill = append(kill, r.until("the others lead its shards", func() bool { return r.leaders(shardsOfMany)[all[0].node] == 0 }).Sub(began))
		all[0].kill(r.b)
		all = append(all[1:], r.join(shardsOfMany))
	}
	figure("failover_kill_8_shards", kill)
}
