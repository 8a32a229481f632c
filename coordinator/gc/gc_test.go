package gc_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

// world is a database, a Redis and a bucket, and a collector over them.
type world struct {
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

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	if w.store, err = store.Open(devenv.PostgreSQL(t)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if err := w.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.pool = w.store.Pool()
	w.server = devenv.NewRedis(t)
	opts, err := redis.ParseURL(w.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	w.redis = redis.NewClient(opts)
	t.Cleanup(func() { _ = w.redis.Close() })
	objects := devenv.S3(t)
	w.bucket, w.s3 = objects.Bucket, objects.Client(t)
	if w.archives, err = archive.New(archive.Options{
		Endpoint: objects.Endpoint, Region: objects.Region, Bucket: objects.Bucket,
		AccessKey: objects.AccessKey, SecretKey: objects.SecretKey, PathStyle: true,
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.pool.QueryRow(t.Context(), "INSERT INTO users (username) VALUES ('ann') RETURNING id::text").Scan(&w.owner); err != nil {
		t.Fatal(err)
	}
	w.opts = gc.Options{
		Archives: w.archives, Store: w.store, Sightings: gc.NewSightings(w.redis, ""),
		OnCollected: func(ids []workspace.ID) { w.collected = append(w.collected, ids...) },
	}
	w.restart()
	return w
}

// restart makes the collector anew from w.opts.
func (w *world) restart() { w.runner = gc.New(w.opts, zap.NewNop()) }

func id(n int) workspace.ID {
	return workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

func op(n int) string { return fmt.Sprintf("00000000-0000-4000-9000-%012x", n) }

// insert makes a row; set is SQL for its archive columns and whatever else.
func (w *world) insert(n int, set string) workspace.ID {
	w.t.Helper()
	_, err := w.pool.Exec(w.t.Context(), `INSERT INTO workspaces
		(id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state)
		VALUES ($1, $2, 'w', 'docker', 'docker', 'k', 'ARCHIVED', 'ARCHIVED')`, string(id(n)), w.owner)
	if err != nil {
		w.t.Fatal(err)
	}
	w.update(n, set)
	return id(n)
}

func (w *world) update(n int, set string) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), "UPDATE workspaces SET "+set+" WHERE id = $1", string(id(n))); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) put(keys ...string) {
	w.t.Helper()
	for _, key := range keys {
		object := "archives/" + key
		if _, err := w.s3.PutObject(w.t.Context(), &s3.PutObjectInput{
			Bucket: &w.bucket, Key: &object, Body: strings.NewReader("x"),
		}); err != nil {
			w.t.Fatal(err)
		}
	}
}

// archive puts an archive with its commit marker, and returns its key.
func (w *world) archive(ws, o int) string {
	w.t.Helper()
	key := id(ws).ArchiveKey(op(o))
	w.put(key, key+".meta")
	return key
}

func (w *world) objects() []string {
	w.t.Helper()
	var keys []string
	if err := w.archives.List(w.t.Context(), func(page []archive.Object) error {
		for _, o := range page {
			keys = append(keys, o.Key)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) collect() gc.Report {
	w.t.Helper()
	r, err := w.runner.Collect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// age makes all sightings older.
func (w *world) age(by time.Duration) {
	w.t.Helper()
	for _, key := range w.sightings() {
		if err := w.redis.ZIncrBy(w.t.Context(), gc.DefaultKey, -float64(by.Milliseconds()), key).Err(); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) sightings() []string {
	w.t.Helper()
	keys, err := w.redis.ZRange(w.t.Context(), gc.DefaultKey, 0, -1).Result()
	if err != nil {
		w.t.Fatal(err)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) has(want ...string) {
	w.t.Helper()
	slices.Sort(want)
	if got := w.objects(); !slices.Equal(got, want) {
		w.t.Errorf("the bucket holds\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOrphansGoAfterTheirDelayAndNothingElseDoes(t *testing.T) {
	w := newWorld(t)
	w.insert(1, fmt.Sprintf("archive_key = '%s', archive_op_id = '%s'", id(1).ArchiveKey(op(1)), op(2)))
	w.insert(2, "phase = 'ERROR', error_reason = 'DataLost'")
	w.insert(3, `conditions = '{"policy.healthy": {"status": "False"}}'`)
	w.insert(4, fmt.Sprintf("archive_key = '%s', archive_op_id = '%s', deleted_at = now(), desired_state = 'DELETED'", id(4).ArchiveKey(op(1)), op(2)))
	var kept, gone []string
	keep := func(key string) { kept = append(kept, key, key+".meta") }
	keep(w.archive(1, 1)) // current
	keep(w.archive(1, 2)) // last operation
	keep(w.archive(2, 9)) // in error
	keep(w.archive(3, 9)) // unhealthy
	superseded := w.archive(1, 3)
	gone = append(gone, superseded, w.archive(4, 1), w.archive(4, 2), w.archive(5, 1))
	// Halves: the archive without its marker, the marker without its archive.
	half := id(1).ArchiveKey(op(4))
	w.put(half)
	lone := id(1).ArchiveKey(op(5))
	w.put(lone + ".meta")
	gone = append(gone, half, lone)
	foreign := []string{"README", "backup/home.tar.zst", string(id(1)) + "/latest/home.tar.zst", superseded + ".part"}
	w.put(foreign...)

	all := w.objects()
	for cycle := range 2 {
		r := w.collect()
		if r.Archives != 10 || r.Orphans != 6 || r.Due != 0 || r.Deleted != 0 || r.Foreign != 4 || r.Objects != len(all) {
			t.Fatalf("cycle %d: %+v", cycle, r)
		}
		w.has(all...)
	}
	slices.Sort(gone)
	if got := w.sightings(); !slices.Equal(got, gone) {
		t.Fatalf("timed: %q", got)
	}

	w.age(gc.DefaultDelay - time.Minute)
	if r := w.collect(); r.Due != 0 {
		t.Fatalf("a minute too early: %+v", r)
	}
	w.has(all...)

	w.age(time.Minute)
	if r := w.collect(); r.Due != 6 || r.Deleted != 6 || r.Failed != 0 || r.Spared != 0 {
		t.Fatalf("%+v", r)
	}
	w.has(append(kept, foreign...)...)
	if got := w.sightings(); len(got) != 0 {
		t.Fatalf("still timed: %q", got)
	}
	slices.Sort(w.collected)
	if got := slices.Compact(w.collected); !slices.Equal(got, []workspace.ID{id(1), id(4), id(5)}) {
		t.Fatalf("told of %q", got)
	}
}

func TestAnOrphanThatIsNeededAgainStartsAnew(t *testing.T) {
	w := newWorld(t)
	key := w.archive(1, 1)
	w.insert(1, "deleted_at = now(), desired_state = 'DELETED'")
	w.collect()
	w.age(3 * time.Hour)
	// The deletion is undone, and done again.
	w.update(1, fmt.Sprintf("deleted_at = NULL, desired_state = 'ARCHIVED', archive_key = '%s'", key))
	if r := w.collect(); r.Orphans != 0 || len(w.sightings()) != 0 {
		t.Fatalf("%+v", r)
	}
	w.update(1, "deleted_at = now(), desired_state = 'DELETED'")
	if r := w.collect(); r.Orphans != 1 || r.Due != 0 {
		t.Fatalf("%+v", r)
	}
	w.has(key, key+".meta")
}

func TestLostTimersOnlyDelay(t *testing.T) {
	w := newWorld(t)
	w.insert(1, "name = 'x'")
	w.archive(1, 1)
	w.collect()
	w.age(3 * time.Hour)
	if err := w.redis.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if r := w.collect(); r.Due != 0 || r.Orphans != 1 {
		t.Fatalf("%+v", r)
	}
	w.age(3 * time.Hour)
	if r := w.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	w.has()
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
	w := newWorld(t)
	w.insert(1, "name = 'x'")
	w.archive(1, 1)
	w.archive(1, 2)
	w.opts.Archives = single{w.archives}
	w.restart()
	if r := w.collect(); r.Objects != 4 || r.Archives != 2 || r.Orphans != 2 {
		t.Fatalf("%+v", r)
	}
}

// late is a store in which a wish comes between the listing and the deletion.
type late struct {
	gc.Store
	wish func()
	n    int
}

func (l *late) Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error) {
	if l.n++; l.n == 2 {
		l.wish()
	}
	return l.Store.Protection(ctx, ids)
}

func TestAWishThatComesLastStillSaves(t *testing.T) {
	w := newWorld(t)
	w.insert(1, "deleted_at = now(), desired_state = 'DELETED'")
	key := w.archive(1, 1)
	w.collect()
	w.age(3 * time.Hour)
	w.opts.Store = &late{Store: w.store, wish: func() {
		w.update(1, fmt.Sprintf("deleted_at = NULL, desired_state = 'ARCHIVED', archive_key = '%s'", key))
	}}
	w.restart()
	if r := w.collect(); r.Due != 1 || r.Spared != 1 || r.Deleted != 0 {
		t.Fatalf("%+v", r)
	}
	w.has(key, key+".meta")
}

func TestADryRunChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.insert(1, "name = 'x'")
	key := w.archive(1, 1)
	dry := func() gc.Report {
		t.Helper()
		r, err := w.runner.DryRun(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := dry(); !r.DryRun || r.Orphans != 1 || len(w.sightings()) != 0 {
		t.Fatalf("%+v, timed %q", r, w.sightings())
	}
	w.collect()
	w.age(3 * time.Hour)
	r := dry()
	if r.Due != 1 || r.Deleted != 0 || len(r.Findings) != 1 {
		t.Fatalf("%+v", r)
	}
	f := r.Findings[0]
	if f.Key != key || f.Workspace != id(1) || f.Reason != gc.OrphanSuperseded || !f.Due || time.Since(f.Since) < 2*time.Hour {
		t.Fatalf("%+v", f)
	}
	w.has(key, key+".meta")
	w.opts.DryRun = true
	w.restart()
	if r := w.collect(); r.Due != 1 || r.Deleted != 0 {
		t.Fatalf("%+v", r)
	}
	w.has(key, key+".meta")
}

func TestTheBrake(t *testing.T) {
	w := newWorld(t)
	for i := range 41 {
		w.archive(1, i)
	}
	stopped := func(why string) {
		t.Helper()
		all := w.objects()
		w.age(3 * time.Hour)
		r, err := w.runner.Collect(t.Context())
		var brake *gc.BrakeError
		if !errors.As(err, &brake) || !strings.Contains(err.Error(), why) {
			t.Fatalf("%+v, %v; want an error that says %q", r, err, why)
		}
		w.has(all...)
	}
	// The wrong database: there is nothing in it.
	if _, err := w.runner.Collect(t.Context()); err == nil {
		t.Fatal("an empty table does not stop the first cycle")
	}
	stopped("no workspace at all")

	// A restored one: it knows of less than half.
	for i := range 40 {
		w.archive(100+i, 1)
		w.insert(100+i, fmt.Sprintf("archive_key = '%s'", id(100+i).ArchiveKey(op(1))))
	}
	stopped("41 of 81 archives")

	// One more that is needed, and it is only half of all.
	w.archive(200, 1)
	w.insert(200, fmt.Sprintf("archive_key = '%s'", id(200).ArchiveKey(op(1))))
	w.age(3 * time.Hour)
	if r := w.collect(); r.Deleted != 41 {
		t.Fatalf("%+v", r)
	}
}

func TestASmallInstallationMayLoseAll(t *testing.T) {
	w := newWorld(t)
	w.insert(99, "name = 'x'")
	for i := range 20 {
		w.archive(1, i)
	}
	w.collect()
	w.age(3 * time.Hour)
	if r := w.collect(); r.Deleted != 20 {
		t.Fatalf("%+v", r)
	}
	// And one more than a handful, when it is meant.
	for i := range 21 {
		w.archive(1, i)
	}
	w.collect()
	w.age(3 * time.Hour)
	if _, err := w.runner.Collect(t.Context()); err == nil {
		t.Fatal("the brake does not hold")
	}
	w.runner.Set(gc.Settings{MaxShare: 1})
	if r := w.collect(); r.Deleted != 21 {
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
	w := newWorld(t)
	w.insert(1, "name = 'x'")
	key := w.archive(1, 1)
	w.collect()
	w.age(3 * time.Hour)
	out := errors.New("out of order")
	for name, b := range map[string]broken{
		"listing":  {list: out},
		"query":    {protect: out},
		"counting": {count: out},
	} {
		t.Run(name, func(t *testing.T) {
			b.Archives, b.Store = w.archives, w.store
			w.opts.Archives, w.opts.Store = b, b
			w.restart()
			if _, err := w.runner.Collect(t.Context()); !errors.Is(err, out) {
				t.Fatalf("Collect returns %v", err)
			}
			w.has(key, key+".meta")
			if n := len(w.sightings()); n != 1 {
				t.Fatalf("%d sightings are left", n)
			}
		})
	}
}

func TestADeletionThatFailsIsTriedByTheNextCycle(t *testing.T) {
	w := newWorld(t)
	w.insert(1, "name = 'x'")
	a := w.archive(1, 1)
	w.archive(1, 2)
	w.collect()
	w.age(3 * time.Hour)
	w.opts.Archives = broken{Archives: w.archives, refuse: op(1) + "/home.tar.zst.meta"}
	w.restart()
	r, err := w.runner.Collect(t.Context())
	if err == nil || !strings.Contains(err.Error(), a) || r.Deleted != 1 || r.Failed != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.has(a + ".meta")
	w.opts.Archives = w.archives
	w.restart()
	if r := w.collect(); r.Deleted != 1 {
		t.Fatalf("%+v", r)
	}
	w.has()
}

func TestWithoutRedisNothingIsDeleted(t *testing.T) {
	w := newWorld(t)
	w.insert(1, "name = 'x'")
	key := w.archive(1, 1)
	w.collect()
	w.age(3 * time.Hour)
	if err := w.server.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.runner.Collect(t.Context()); err == nil {
		t.Fatal("Collect succeeds")
	}
	w.has(key, key+".meta")
}
