package gc_test

import (
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
	if h.store, err = store.Open(devenv.PostgreSQL(t), store.Options{}); err != nil {
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

// insert adds a row; set is SQL for its other columns.
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
