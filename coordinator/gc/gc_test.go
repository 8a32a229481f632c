package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/gc"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// harness is a database, a Redis and a bucket, and a collector over them.
type harness struct {
	t         *testing.T
	store     *store.Store
	pool      *pgxpool.Pool
	server    *server.Redis
	redis     *redis.Client
	bucket    string
	s3        *s3.Client
	archives  *archive.Store
	owner     string
	collected []workspace.ID
	opts      gc.Options
	runner    *gc.Runner
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t}
	var err error
	if h.store, err = store.Open(devenv.PostgreSQL(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.store.Close)
	if err := h.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.pool = h.store.Pool()
	h.server = devenv.NewRedis(t)
	opts, err := redis.ParseURL(h.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	h.redis = redis.NewClient(opts)
	t.Cleanup(func() { _ = h.redis.Close() })
	objects := devenv.S3(t)
	h.bucket, h.s3 = objects.Bucket, objects.Client(t)
	if h.archives, err = archive.New(archive.Options{
		Endpoint: objects.Endpoint, Region: objects.Region, Bucket: objects.Bucket,
		AccessKey: objects.AccessKey, SecretKey: objects.SecretKey, PathStyle: true,
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.pool.QueryRow(t.Context(), "INSERT INTO users (username) VALUES ('ann') RETURNING id::text").Scan(&h.owner); err != nil {
		t.Fatal(err)
	}
	h.opts = gc.Options{
		Archives: h.archives, Store: h.store, Orphans: gc.NewOrphanTracker(h.redis, ""),
		OnCollected: func(ids []workspace.ID) { h.collected = append(h.collected, ids...) },
	}
	h.restart()
	return h
}

// restart replaces the collector by a new one made from h.opts.
func (h *harness) restart() { h.runner = gc.New(h.opts, zap.NewNop()) }

func id(n int) workspace.ID {
	return workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

func op(n int) string { return fmt.Sprintf("00000000-0000-4000-9000-%012x", n) }

// insert makes a row; set is SQL for its archive columns and whatever else.
func (h *harness) insert(n int, set string) workspace.ID {
	h.t.Helper()
	_, err := h.pool.Exec(h.t.Context(), `INSERT INTO workspaces
		(id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		VALUES ($1, $2, 'w', 'docker', 'docker', 'k', 'ARCHIVED', 'ARCHIVED')`, string(id(n)), h.owner)
	if err != nil {
		h.t.Fatal(err)
	}
	h.update(n, set)
	return id(n)
}

func (h *harness) update(n int, set string) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), "UPDATE workspaces SET "+set+" WHERE id = $1", string(id(n))); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) put(keys ...string) {
	h.t.Helper()
	for _, key := range keys {
		object := "archives/" + key
		if _, err := h.s3.PutObject(h.t.Context(), &s3.PutObjectInput{
			Bucket: &h.bucket, Key: &object, Body: strings.NewReader("x"),
		}); err != nil {
			h.t.Fatal(err)
		}
	}
}

// archive puts an archive with its commit marker, and returns its key.
func (h *harness) archive(ws, o int) string {
	h.t.Helper()
	key := id(ws).ArchiveKey(op(o))
	h.put(key, key+".meta")
	return key
}

func (h *harness) objects() []string {
	h.t.Helper()
	var keys []string
	if err := h.archives.List(h.t.Context(), func(page []archive.Object) error {
		for _, o := range page {
			keys = append(keys, o.Key)
		}
		return nil
	}); err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func (h *harness) collect() gc.Report {
	h.t.Helper()
	r, err := h.runner.Collect(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// age makes all orphans older.
func (h *harness) age(by time.Duration) {
	h.t.Helper()
	for _, key := range h.orphans() {
		if err := h.redis.ZIncrBy(h.t.Context(), gc.DefaultKey, -float64(by.Milliseconds()), key).Err(); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) orphans() []string {
	h.t.Helper()
	keys, err := h.redis.ZRange(h.t.Context(), gc.DefaultKey, 0, -1).Result()
	if err != nil {
		h.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func (h *harness) has(want ...string) {
	h.t.Helper()
	slices.Sort(want)
	if got := h.objects(); !slices.Equal(got, want) {
		h.t.Errorf("the bucket holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOrphansGoAfterTheirDelayAndNothingElseDoes(t *testing.T) {
	h := newHarness(t)
	h.insert(1, fmt.Sprintf("archive_key = '%s', archive_op_id = '%s'", id(1).ArchiveKey(op(1)), op(2)))
	h.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	h.insert(3, `conditions = '{"policy.healthy": {"status": "False"}}'`)
	h.insert(4, fmt.Sprintf("archive_key = '%s', archive_op_id = '%s', deleted_at = now(), desired_state = 'DELETED'", id(4).ArchiveKey(op(1)), op(2)))
	var kept, gone []string
	keep := func(key string) { kept = append(kept, key, key+".meta") }
	keep(h.archive(1, 1)) // current
	keep(h.archive(1, 2)) // last operation
	keep(h.archive(2, 9)) // in error
	keep(h.archive(3, 9)) // unhealthy
	superseded := h.archive(1, 3)
	gone = append(gone, superseded, h.archive(4, 1), h.archive(4, 2), h.archive(5, 1))
	// Halves: the archive without its marker, the marker without its archive.
	half := id(1).ArchiveKey(op(4))
	h.put(half)
	lone := id(1).ArchiveKey(op(5))
	h.put(lone + ".meta")
	gone = append(gone, half, lone)
	foreign := []string{"README", "backup/home.tar.zst", string(id(1)) + "/latest/home.tar.zst", superseded + ".part"}
	h.put(foreign...)

	all := h.objects()
	for cycle := range 2 {
		r := h.collect()
		if r.Archives != 10 || r.Orphans != 6 || r.Due != 0 || r.Deleted != 0 || r.Foreign != 4 || r.Objects != len(all) {
			t.Fatalf("cycle %d: %+v", cycle, r)
		}
		h.has(all...)
	}
	slices.Sort(gone)
	if got := h.orphans(); !slices.Equal(got, gone) {
		t.Fatalf("tracked: %q", got)
	}

	h.age(gc.DefaultDelay - time.Minute)
	if r := h.collect(); r.Due != 0 {
		t.Fatalf("a minute too early: %+v", r)
	}
	h.has(all...)

	h.age(time.Minute)
	if r := h.collect(); r.Due != 6 || r.Deleted != 6 || r.Failed != 0 || r.Spared != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(append(kept, foreign...)...)
	if got := h.orphans(); len(got) != 0 {
		t.Fatalf("still tracked: %q", got)
	}
	slices.Sort(h.collected)
	if got := slices.Compact(h.collected); !slices.Equal(got, []workspace.ID{id(1), id(4), id(5)}) {
		t.Fatalf("OnCollected was called with %q", got)
	}
}

func TestAnOrphanThatIsNeededAgainStartsItsDelayAgain(t *testing.T) {
	h := newHarness(t)
	key := h.archive(1, 1)
	h.insert(1, "deleted_at = now(), desired_state = 'DELETED'")
	h.collect()
	h.age(3 * time.Hour)
	// The deletion is undone, and done again.
	h.update(1, fmt.Sprintf("deleted_at = NULL, desired_state = 'ARCHIVED', archive_key = '%s'", key))
	if r := h.collect(); r.Orphans != 0 || len(h.orphans()) != 0 {
		t.Fatalf("%+v", r)
	}
	h.update(1, "deleted_at = now(), desired_state = 'DELETED'")
	if r := h.collect(); r.Orphans != 1 || r.Due != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(key, key+".meta")
}

func TestALostTrackerOnlyPostpones(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	if err := h.redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if r := h.collect(); r.Due != 0 || r.Orphans != 1 {
		t.Fatalf("%+v", r)
	}
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

// single lists one object a page.
type single struct{ gc.Archives }

func (s single) List(ctx context.Context, page func([]archive.Object) error) error {
	return s.Archives.List(ctx, func(objects []archive.Object) error {
		for i := range objects {
			if err := page(objects[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestAPageMayEndBetweenAnArchiveAndItsMarker(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.archive(1, 1)
	h.archive(1, 2)
	h.opts.Archives = single{h.archives}
	h.restart()
	if r := h.collect(); r.Objects != 4 || r.Archives != 2 || r.Orphans != 2 {
		t.Fatalf("%+v", r)
	}
}

// lateChange is a store in which a row changes between the listing and the deletion.
type lateChange struct {
	gc.Store
	change func()
	n      int
}

func (l *lateChange) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error) {
	if l.n++; l.n == 2 {
		l.change()
	}
	return l.Store.Protection(ctx, ids)
}

func TestAChangeJustBeforeTheDeletionStillSavesTheArchive(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "deleted_at = now(), desired_state = 'DELETED'")
	key := h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	h.opts.Store = &lateChange{Store: h.store, change: func() {
		h.update(1, fmt.Sprintf("deleted_at = NULL, desired_state = 'ARCHIVED', archive_key = '%s'", key))
	}}
	h.restart()
	if r := h.collect(); r.Due != 1 || r.Spared != 1 || r.Deleted != 0 {
		t.Fatalf("%+v", r)
	}
	h.has(key, key+".meta")
}

// dryRun returns the findings of a dry run by key, and its error.
func (h *harness) dryRun() (gc.Report, map[string]gc.Finding, error) {
	h.t.Helper()
	findings := make(map[string]gc.Finding)
	r, err := gc.DryRun(h.t.Context(), h.opts, func(f gc.Finding) error {
		if _, twice := findings[f.Key]; twice {
			h.t.Errorf("%s is reported twice", f.Key)
		}
		findings[f.Key] = f
		return nil
	})
	if len(findings) != r.Archives {
		h.t.Errorf("%d findings for %d archives", len(findings), r.Archives)
	}
	return r, findings, err
}

func TestADryRunExplainsEveryArchiveAndChangesNothing(t *testing.T) {
	h := newHarness(t)
	h.insert(1, fmt.Sprintf("archive_key = '%s'", id(1).ArchiveKey(op(1))))
	h.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	current, superseded, unhealthy := h.archive(1, 1), h.archive(1, 2), h.archive(2, 1)
	unknown := h.archive(3, 1)
	lone := id(1).ArchiveKey(op(3))
	h.put("README", lone+".meta")

	r, found, err := h.dryRun()
	if err != nil || r.Orphans != 3 || r.Due != 0 || r.Foreign != 1 || len(h.orphans()) != 0 {
		t.Fatalf("%+v, %v, tracked %q", r, err, h.orphans())
	}
	if f := found[superseded]; f.Verdict != gc.Candidate || f.Age != 0 || f.FirstSeen.IsZero() {
		t.Errorf("an orphan that no cycle has seen: %+v", f)
	}

	h.collect()
	h.age(3 * time.Hour)
	late := h.archive(1, 4) // after the cycle: its delay has not begun
	all := h.objects()
	tracked := h.orphans()
	r, found, err = h.dryRun()
	if err != nil || r.Archives != 6 || r.Orphans != 4 || r.Due != 3 || r.Deleted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for key, want := range map[string]gc.Finding{
		current:    {Workspace: id(1), Size: 1, Verdict: gc.Protected, Reason: gc.KeptCurrent},
		unhealthy:  {Workspace: id(2), Size: 1, Verdict: gc.Protected, Reason: gc.KeptUnhealthy},
		superseded: {Workspace: id(1), Size: 1, Verdict: gc.Due, Reason: gc.OrphanSuperseded},
		unknown:    {Workspace: id(3), Size: 1, Verdict: gc.Due, Reason: gc.OrphanUnknown},
		lone:       {Workspace: id(1), Size: gc.UnknownSize, Verdict: gc.Due, Reason: gc.OrphanSuperseded},
		late:       {Workspace: id(1), Size: 1, Verdict: gc.Candidate, Reason: gc.OrphanSuperseded},
	} {
		got := found[key]
		if got.Workspace != want.Workspace || got.Size != want.Size || got.Verdict != want.Verdict || got.Reason != want.Reason {
			t.Errorf("%s: %+v, want %+v", key, got, want)
		}
		if d := time.Since(got.Modified).Abs(); d > time.Hour {
			t.Errorf("%s was written %s ago", key, d)
		}
		switch age := got.Age; want.Verdict {
		case gc.Protected:
			if age != 0 || !got.FirstSeen.IsZero() {
				t.Errorf("%s is protected, and first seen %s", key, got.FirstSeen)
			}
		case gc.Due:
			if age < 3*time.Hour || age > 4*time.Hour {
				t.Errorf("%s has been an orphan for %s", key, age)
			}
		}
	}
	if !slices.Equal(h.orphans(), tracked) || len(h.collected) != 0 {
		t.Errorf("tracked %q, collected %q", h.orphans(), h.collected)
	}
	h.has(all...)
}

func TestADryRunEndsWithTheErrorOfItsCaller(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	h.archive(1, 1)
	full := errors.New("no space left on device")
	if _, err := gc.DryRun(t.Context(), h.opts, func(gc.Finding) error { return full }); !errors.Is(err, full) {
		t.Fatalf("DryRun returns %v", err)
	}
}

func TestAProcessThatNoLongerLeadsDeletesNothing(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key := h.archive(1, 1)
	leads := false
	h.opts.HoldsLease = func() bool { return leads }
	h.restart()
	h.collect() // nothing is due yet
	h.age(3 * time.Hour)
	r, err := h.runner.Collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), "leadership") || r.Due != 1 || r.Deleted != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(key, key+".meta")
	leads = true
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

func TestSettingsAreValidatedUnderTheirOptionsNames(t *testing.T) {
	if err := gc.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	err := gc.Settings{Delay: -1, MaxShare: math.NaN()}.Validate()
	for _, name := range []string{"gc_interval: ", "gc_delay: ", "gc_max_share: "} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%q is not named in: %v", name, err)
		}
	}
	for _, share := range []float64{0, -0.1, 1.1, math.Inf(1)} {
		s := gc.DefaultSettings()
		s.MaxShare = share
		if s.Validate() == nil {
			t.Errorf("a share of %g is accepted", share)
		}
	}
}

func TestTheCircuitBreaker(t *testing.T) {
	h := newHarness(t)
	for i := range 41 {
		h.archive(1, i)
	}
	stopped := func(why string) {
		t.Helper()
		all := h.objects()
		h.age(3 * time.Hour)
		r, err := h.runner.Collect(t.Context())
		var breaker *gc.CircuitBreakerError
		if !errors.As(err, &breaker) || !strings.Contains(err.Error(), why) {
			t.Fatalf("%+v, %v; want an error that says %q", r, err, why)
		}
		dry, _, err := h.dryRun()
		if !errors.As(err, &breaker) || dry.Due != r.Due || breaker.Archives != r.Archives {
			t.Errorf("a dry run reports %+v, %v; the cycle %+v", dry, err, r)
		}
		h.has(all...)
	}
	// The wrong database: there is nothing in it.
	if _, err := h.runner.Collect(t.Context()); err == nil {
		t.Fatal("an empty table does not stop the first cycle")
	}
	stopped("the database has no workspaces")

	// A restored one: it knows of less than half.
	for i := range 40 {
		h.archive(100+i, 1)
		h.insert(100+i, fmt.Sprintf("archive_key = '%s'", id(100+i).ArchiveKey(op(1))))
	}
	stopped("41 of 81 archives")
	stopped("gc_max_share (0.5)")
	stopped("COORDINATOR_GC_MAX_SHARE")

	// One more that is needed, and it is only half of all.
	h.archive(200, 1)
	h.insert(200, fmt.Sprintf("archive_key = '%s'", id(200).ArchiveKey(op(1))))
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 41 {
		t.Fatalf("%+v", r)
	}
}

func TestASmallInstallationMayLoseAll(t *testing.T) {
	h := newHarness(t)
	h.insert(99, "name = 'x'")
	for i := range 20 {
		h.archive(1, i)
	}
	h.collect()
	h.age(3 * time.Hour)
	if r := h.collect(); r.Deleted != 20 {
		t.Fatalf("%+v", r)
	}
	// And one more than a handful, when it is meant.
	for i := range 21 {
		h.archive(1, i)
	}
	h.collect()
	h.age(3 * time.Hour)
	if _, err := h.runner.Collect(t.Context()); err == nil {
		t.Fatal("the circuit breaker does not stop the cycle")
	}
	h.runner.Set(gc.Settings{MaxShare: 1})
	if r := h.collect(); r.Deleted != 21 {
		t.Fatalf("%+v", r)
	}
}

// broken is a store or a bucket that fails at one thing.
type broken struct {
	gc.Archives
	gc.Store
	list, protect, count error
	refuse               string
}

func (b broken) List(ctx context.Context, page func([]archive.Object) error) error {
	if err := b.Archives.List(ctx, page); err != nil {
		return err
	}
	return b.list // after some pages
}

func (b broken) Delete(ctx context.Context, keys []string) (map[string]error, error) {
	rest := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return b.refuse != "" && strings.HasSuffix(k, b.refuse) })
	failed, err := b.Archives.Delete(ctx, rest)
	for _, k := range keys {
		if !slices.Contains(rest, k) {
			failed[k] = errors.New("AccessDenied")
		}
	}
	return maps.Clone(failed), err
}

func (b broken) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error) {
	if b.protect != nil {
		return nil, b.protect
	}
	return b.Store.Protection(ctx, ids)
}

func (b broken) CountWorkspaces(ctx context.Context) (int64, error) {
	if b.count != nil {
		return 0, b.count
	}
	return b.Store.CountWorkspaces(ctx)
}

func TestWhatFailsSkipsTheCycle(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key := h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	out := errors.New("out of order")
	for name, b := range map[string]broken{
		"listing":  {list: out},
		"query":    {protect: out},
		"counting": {count: out},
	} {
		t.Run(name, func(t *testing.T) {
			b.Archives, b.Store = h.archives, h.store
			h.opts.Archives, h.opts.Store = b, b
			h.restart()
			if _, err := h.runner.Collect(t.Context()); !errors.Is(err, out) {
				t.Fatalf("Collect returns %v", err)
			}
			h.has(key, key+".meta")
			if n := len(h.orphans()); n != 1 {
				t.Fatalf("%d orphans are left", n)
			}
		})
	}
}

func TestADeletionThatFailsIsTriedByTheNextCycle(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	a := h.archive(1, 1)
	h.archive(1, 2)
	h.collect()
	h.age(3 * time.Hour)
	h.opts.Archives = broken{Archives: h.archives, refuse: op(1) + "/home.tar.zst.meta"}
	h.restart()
	r, err := h.runner.Collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), a) || r.Deleted != 1 || r.Failed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	h.has(a + ".meta")
	h.opts.Archives = h.archives
	h.restart()
	if r := h.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	h.has()
}

func TestWithoutRedisNothingIsDeleted(t *testing.T) {
	h := newHarness(t)
	h.insert(1, "name = 'x'")
	key := h.archive(1, 1)
	h.collect()
	h.age(3 * time.Hour)
	if err := h.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := h.runner.Collect(t.Context()); err == nil {
		t.Fatal("Collect succeeds")
	}
	h.has(key, key+".meta")
}
