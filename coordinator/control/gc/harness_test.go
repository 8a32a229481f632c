package gc_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// harness is a database, a Redis and a bucket, and the collector's other dependencies.
type harness struct {
	t           *testing.T
	store       *store.Store
	pool        *pgxpool.Pool
	server      *server.Redis
	redis       *redis.Client
	objectStore devenv.ObjectStore
	bucket      string
	s3          *s3.Client
	archives    *archive.Store
	owner       string
	collected   []workspace.ID
	opts        gc.Options
	now         time.Time            // when the last archive was written
	written     map[string]time.Time // when each was
}

// dated is a bucket that reports the times of archives that the test sets. Real times would all be within the same
// second.
type dated struct {
	*archive.Store
	h *harness
}

func (d dated) at(key string, real time.Time) time.Time {
	if at, ok := d.h.written[strings.TrimSuffix(key, contract.MetaSuffix)]; ok {
		return at
	}
	return real
}

func (d dated) List(ctx context.Context, page func([]archive.Object) error) error {
	return d.Store.List(ctx, func(objects []archive.Object) error {
		for i, o := range objects {
			objects[i].LastModified = d.at(o.Key, o.LastModified)
		}
		return page(objects)
	})
}

func (d dated) Stat(ctx context.Context, key string) (archive.Info, error) {
	info, err := d.Store.Stat(ctx, key)
	info.Modified = d.at(key, info.Modified)
	return info, err
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, now: time.Now().Add(-1000 * time.Hour), written: make(map[string]time.Time)}
	var err error
	if h.store, err = store.Open(storetest.Migrated(t), postgres.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.store.Close)
	h.pool = storetest.Pool(t, h.store)
	h.server = devenv.NewRedis(t)
	opts, err := redis.ParseURL(h.server.URL())
	if err != nil {
		t.Fatal(err)
	}
	opts.MaxRetries = -1
	h.redis = redis.NewClient(opts)
	t.Cleanup(func() { _ = h.redis.Close() })
	objects := devenv.S3(t)
	h.objectStore, h.bucket, h.s3 = objects, objects.Bucket, objects.Client(t)
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
		Archives: dated{h.archives, h}, Store: h.store, Orphans: gc.NewOrphanTracker(h.redis, ""),
		Identity: identity.New(h.store, nil, h.archives, "test", zap.NewNop()), Holder: "test",
		OnCollected: func(ids []workspace.ID) { h.collected = append(h.collected, ids...) },
	}
	return h
}

func id(n int) workspace.ID {
	return workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
}

func op(n int) string { return fmt.Sprintf("00000000-0000-4000-9000-%012x", n) }

// insert adds a row; set is SQL for its other columns.
func (h *harness) insert(n int, set string) workspace.ID {
	h.t.Helper()
	_, err := h.pool.Exec(h.t.Context(), `INSERT INTO workspaces
		(id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, created_at)
		VALUES ($1, $2, 'w', 'docker', 'docker', 'k', 'ARCHIVED', 'ARCHIVED', 'epoch')`, string(id(n)), h.owner)
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
	h.now = h.now.Add(time.Minute)
	h.written[key] = h.now
	return key
}

// half puts an archive without its commit marker.
func (h *harness) half(ws, o int) string {
	h.t.Helper()
	key := h.archive(ws, o)
	h.lose(key + ".meta")
	return key
}

// lose removes objects, as something outside the installation would.
func (h *harness) lose(keys ...string) {
	h.t.Helper()
	if failed, err := h.archives.Delete(h.t.Context(), keys); err != nil || len(failed) > 0 {
		h.t.Fatal(failed, err)
	}
}

// objects returns the keys of everything in the bucket but its marker.
func (h *harness) objects() []string {
	h.t.Helper()
	var keys []string
	if err := h.archives.List(h.t.Context(), func(page []archive.Object) error {
		for _, o := range page {
			if o.Key != archive.MarkerKey {
				keys = append(keys, o.Key)
			}
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
	r, err := gc.Collect(h.t.Context(), h.opts, gc.Request{}, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// collectLate runs one cycle that first sees the orphans, and another one after their delay.
func (h *harness) collectLate() gc.Report {
	h.t.Helper()
	h.collect()
	h.age(2 * gc.DefaultDelay)
	return h.collect()
}

// deleted is SQL for the columns of a workspace whose undeletion window has passed and which has only archives left.
const deleted = "deleted_at = now() - interval '8 days', desired_state = 'DELETED', phase = 'DELETING', awaits_gc = true"

// undeleted is SQL for a deletion that is undone.
const undeleted = "deleted_at = NULL, desired_state = 'ARCHIVED', phase = 'ARCHIVED', awaits_gc = false"

// current is SQL for the workspace's archive.
func current(key string) string { return fmt.Sprintf("archive_key = '%s'", key) }

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

// superseded adds a workspace with its archive and an older one, and returns the older one.
func (h *harness) superseded(ws int) string {
	h.t.Helper()
	old := h.archive(ws, 1)
	h.insert(ws, current(h.archive(ws, 2)))
	return old
}

// isCollected reports whether the row is marked.
func (h *harness) isCollected(n int) (marked bool) {
	h.t.Helper()
	err := h.pool.QueryRow(h.t.Context(), "SELECT collected_at IS NOT NULL FROM workspaces WHERE id = $1", string(id(n))).Scan(&marked)
	if err != nil {
		h.t.Fatal(err)
	}
	return marked
}

// lacks checks that archives are gone.
func (h *harness) lacks(keys ...string) {
	h.t.Helper()
	left := h.objects()
	for _, key := range keys {
		if slices.Contains(left, key) || slices.Contains(left, key+contract.MetaSuffix) {
			h.t.Errorf("%s is still there", key)
		}
	}
}
