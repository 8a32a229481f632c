package scrub_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/control/scrub"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

func TestMain(m *testing.M) { wait.Main(m) }

// fence is the term under which tests write.
var fence = postgres.Fence{Lock: "coordinator", Epoch: 7}

// harness is a database, a bucket, and the scrub of them.
type harness struct {
	t        *testing.T
	store    *store.Store
	pool     *pgxpool.Pool
	bucket   string
	s3       *s3.Client
	archives *archive.Store
	opts     scrub.Options
	logs     *observer.ObservedLogs
	runner   *scrub.Runner
	owner    string
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, store: storetest.Open(t)}
	h.pool = storetest.Pool(t, h.store)
	objects := devenv.S3(t)
	h.bucket, h.s3 = objects.Bucket, objects.Client(t)
	var err error
	if h.archives, err = archive.New(archive.Options{
		Endpoint: objects.Endpoint, Region: objects.Region, Bucket: objects.Bucket,
		AccessKey: objects.AccessKey, SecretKey: objects.SecretKey, PathStyle: true,
	}); err != nil {
		t.Fatal(err)
	}
	h.exec(`INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'a', $2)
		ON CONFLICT (lock_name) DO UPDATE SET epoch = EXCLUDED.epoch`, fence.Lock, fence.Epoch)
	if err := h.pool.QueryRow(t.Context(), "INSERT INTO users (username) VALUES ('ann') RETURNING id::text").Scan(&h.owner); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zapcore.InfoLevel)
	h.logs = logs
	h.opts = scrub.Options{Store: h.store, Archives: h.archives,
		Identity: identity.New(h.store, nil, h.archives, "test", zap.NewNop()), Log: zap.New(core)}
	h.runner = scrub.New(h.opts)
	h.runner.Lead(fence)
	return h
}

func (h *harness) exec(sql string, args ...any) {
	h.t.Helper()
	if _, err := h.pool.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) put(key string, content []byte) {
	h.t.Helper()
	object := archive.DefaultPrefix + key
	if _, err := h.s3.PutObject(h.t.Context(), &s3.PutObjectInput{Bucket: &h.bucket, Key: &object, Body: bytes.NewReader(content)}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) lose(key string) {
	h.t.Helper()
	object := archive.DefaultPrefix + key
	if _, err := h.s3.DeleteObject(h.t.Context(), &s3.DeleteObjectInput{Bucket: &h.bucket, Key: &object}); err != nil {
		h.t.Fatal(err)
	}
}

// add inserts a workspace with an archive that has that content, and returns the archive's key.
func (h *harness) add(n int, content []byte) string {
	h.t.Helper()
	id := workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", n))
	key := id.ArchiveKey(fmt.Sprintf("00000000-0000-4000-9000-%012x", n))
	sum := sha256.Sum256(content)
	h.put(key, content)
	h.put(key+contract.MetaSuffix, []byte(contract.FormatMeta(hex.EncodeToString(sum[:]))))
	h.exec(`INSERT INTO workspaces (id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, archive_key)
		VALUES ($1, $2, 'w', 'docker', 'docker', 'k', 'ARCHIVED', 'ARCHIVED', $3)`, string(id), h.owner, key)
	h.exec(`INSERT INTO archives (workspace_id, key, size) VALUES ($1, $2, $3)`, string(id), key, len(content))
	return key
}

// row returns the record of an archive, and the damage that the workspace's row shows.
func (h *harness) row(key string) (a store.Archive, shown string) {
	h.t.Helper()
	id, _, _ := strings.Cut(key, "/")
	found, err := h.store.Archives(h.t.Context(), workspace.ID(id))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, a = range found {
		if a.Key == key {
			break
		}
	}
	return a, storetest.Row(h.t, h.store, workspace.ID(id)).ArchiveDamage
}

func (h *harness) look() {
	h.t.Helper()
	if err := h.runner.Look(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// TestDamageIsFoundAndShown: any change of an archive in the bucket is reported after the archive was read a second
// time. A repaired archive is reported after the first.
func TestDamageIsFoundAndShown(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 300_000) // more than one part
	for name, c := range map[string]struct {
		spoil func(h *harness, key string)
		want  string // of the damage; empty for none
	}{
		"nothing": {func(*harness, string) {}, ""},
		"a byte in the last part is another": {func(h *harness, key string) {
			torn := bytes.Clone(content)
			torn[len(torn)-1] ^= 1
			h.put(key, torn)
		}, "checksum differs"},
		"it is cut off":         {func(h *harness, key string) { h.put(key, content[:1000]) }, "checksum differs"},
		"it is empty":           {func(h *harness, key string) { h.put(key, nil) }, "checksum differs"},
		"it is gone":            {func(h *harness, key string) { h.lose(key) }, "not in the object store"},
		"its marker is gone":    {func(h *harness, key string) { h.lose(key + contract.MetaSuffix) }, "not in the object store"},
		"its marker is no such": {func(h *harness, key string) { h.put(key+contract.MetaSuffix, []byte("hello")) }, "malformed"},
		"its marker is another's": {func(h *harness, key string) {
			h.put(key+contract.MetaSuffix, []byte(contract.FormatMeta(strings.Repeat("0f", 32))))
		}, "checksum differs"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t)
			key := h.add(1, content)
			h.look()
			first, _ := h.row(key)
			if first.VerifiedAt.IsZero() || first.SHA256 == "" || first.Damage != "" {
				t.Fatalf("at first: %+v", first)
			}
			h.look() // it was read just now
			if again, _ := h.row(key); !again.CheckedAt.Equal(first.CheckedAt) {
				t.Fatal("it was read again at once")
			}
			c.spoil(h, key)
			h.exec(`UPDATE archives SET checked_at = now() - interval '8 days', verified_at = now() - interval '8 days'`)
			h.look()
			a, shown := h.row(key)
			if a.Damage != "" || shown != "" || a.SuspectedAt.IsZero() == (c.want != "") {
				t.Fatalf("after one look: %+v, shown %q", a, shown)
			}
			h.look() // too soon to look again
			if a, _ := h.row(key); a.Damage != "" {
				t.Fatalf("after one look: %+v", a)
			}
			h.exec(`UPDATE archives SET suspected_at = suspected_at - interval '6 minutes', checked_at = checked_at - interval '6 minutes'`)
			h.look()
			h.runner.Forget()
			h.look()
			a, shown = h.row(key)
			health, known := h.runner.Health()
			if c.want == "" {
				if a.Damage != "" || shown != "" || !known || health.Damaged != 0 || health.Current != 1 || h.logs.Len() != 0 {
					t.Fatalf("%+v, shown %q, %+v, %v", a, shown, health, h.logs.All())
				}
				return
			}
			if !strings.Contains(a.Damage, c.want) || shown != a.Damage || !a.SuspectedAt.IsZero() || !known || health.Damaged != 1 {
				t.Fatalf("after two looks: %+v, shown %q, %+v", a, shown, health)
			}
			if n := h.logs.FilterLevelExact(zapcore.ErrorLevel).Len(); n != 1 {
				t.Errorf("%d lines in the log", n)
			}
			// An administrator has repaired it.
			sum := sha256.Sum256(content)
			h.put(key, content)
			h.put(key+contract.MetaSuffix, []byte(contract.FormatMeta(hex.EncodeToString(sum[:]))))
			h.exec(`UPDATE archives SET checked_at = now() - interval '8 days'`)
			h.look()
			if a, shown := h.row(key); a.Damage != "" || shown != "" || time.Since(a.VerifiedAt) > time.Hour {
				t.Errorf("repaired: %+v, shown %q", a, shown)
			}
		})
	}
}

// TestADayHasItsBytes: the pause after an archive is the part of a day that corresponds to the archive's part of the
// daily amount.
func TestADayHasItsBytes(t *testing.T) {
	h := newHarness(t)
	keys := []string{h.add(1, make([]byte, 1000)), h.add(2, make([]byte, 1000))}
	read := func() (n int) {
		for _, key := range keys {
			if a, _ := h.row(key); !a.CheckedAt.IsZero() {
				n++
			}
		}
		return n
	}
	h.runner.Set(scrub.Settings{})
	h.look()
	if n := read(); n != 0 {
		t.Fatalf("%d were read although it is off", n)
	}
	h.runner.Set(scrub.Settings{BytesPerDay: 24_000}) // an hour for each
	h.look()
	if n := read(); n != 1 {
		t.Fatalf("%d were read", n)
	}
	h.exec(`UPDATE archives SET checked_at = checked_at - interval '59 minutes'`)
	if h.look(); read() != 1 {
		t.Fatal("the second one was read too soon")
	}
	h.exec(`UPDATE archives SET checked_at = checked_at - interval '2 minutes'`)
	if h.look(); read() != 2 {
		t.Fatal("the second one was not read")
	}
}

// broken is a store that fails, or another bucket.
type broken struct {
	scrub.Archives
	read, bucket error
}

func (b broken) ReadBack(ctx context.Context, key string, pace func(int) error) (archive.Content, error) {
	if b.read != nil {
		return archive.Content{}, b.read
	}
	return b.Archives.ReadBack(ctx, key, pace)
}

func (b broken) Bucket(context.Context) error { return b.bucket }

// TestWhatSaysNothingAboutAnArchive: an inconclusive read makes the archive neither verified nor damaged.
func TestWhatSaysNothingAboutAnArchive(t *testing.T) {
	out := errors.New("out of order")
	away := workspace.Fail(workspace.ReasonUnreachable, out)
	for name, c := range map[string]struct {
		broken  broken
		checked bool // so that the next archive has its turn
	}{
		"the store is away":      {broken{read: away}, false},
		"the store refuses":      {broken{read: out}, true},
		"there is no bucket":     {broken{read: archive.ErrNoBucket}, true},
		"it is another bucket":   {broken{bucket: out}, false},
		"missing in another one": {broken{read: fs.ErrNotExist, bucket: out}, false},
	} {
		h := newHarness(t)
		key := h.add(1, []byte("x"))
		h.lose(key)
		c.broken.Archives = h.archives
		opts := h.opts
		opts.Archives, opts.Identity = c.broken, c.broken
		h.runner = scrub.New(opts)
		h.runner.Lead(fence)
		for range 3 {
			if err := h.runner.Look(t.Context()); err == nil && !c.checked {
				t.Errorf("%s: no error", name)
			}
			h.exec(`UPDATE archives SET suspected_at = suspected_at - interval '6 minutes', checked_at = checked_at - interval '6 minutes'`)
		}
		if a, shown := h.row(key); a.Damage != "" || shown != "" || !a.VerifiedAt.IsZero() || !a.SuspectedAt.IsZero() || a.CheckedAt.IsZero() == c.checked {
			t.Errorf("%s: %+v, shown %q", name, a, shown)
		}
	}
}

// TestADeposedLeaderWritesNothing of its results.
func TestADeposedLeaderWritesNothing(t *testing.T) {
	h := newHarness(t)
	key := h.add(1, []byte("x"))
	opts, read := h.opts, 0
	opts.Archives = counting{h.archives, func() { read++ }}
	h.runner = scrub.New(opts)
	h.runner.Lead(postgres.Fence{Lock: fence.Lock, Epoch: fence.Epoch - 1})
	if h.look(); read != 1 {
		t.Errorf("it was read %d times", read)
	}
	if a, _ := h.row(key); !a.VerifiedAt.IsZero() || !a.CheckedAt.IsZero() {
		t.Errorf("%+v", a)
	}
}

// counting reports each archive that is read.
type counting struct {
	scrub.Archives
	read func()
}

func (c counting) ReadBack(ctx context.Context, key string, pace func(int) error) (archive.Content, error) {
	c.read()
	return c.Archives.ReadBack(ctx, key, pace)
}

func TestTheScrubEndsWithTheTerm(t *testing.T) {
	h := newHarness(t)
	h.add(1, []byte("x"))
	ctx, cancel := context.WithCancel(t.Context())
	opts := h.opts
	opts.Archives = counting{h.archives, func() { cancel() }}
	r := scrub.New(opts)
	r.Wake()
	if err := r.Run(ctx, fence); err != nil {
		t.Fatal(err)
	}
}

func TestSettings(t *testing.T) {
	if err := scrub.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	if err := (scrub.Settings{}).Validate(); err != nil {
		t.Error(err)
	}
	if err := (scrub.Settings{BytesPerDay: -1}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "coordinator scrub: ") {
		t.Errorf("%v", err)
	}
}

// TestAnAdministratorHasAllArchivesRead: if an administrator requests it, all archives are read immediately, regardless
// of the daily amount. Each archive is read once, and suspicious ones twice. The next leader reads the rest.
func TestAnAdministratorHasAllArchivesRead(t *testing.T) {
	h := newHarness(t)
	h.runner.Set(scrub.Settings{})
	keys := []string{h.add(1, []byte("one")), h.add(2, []byte("two")), h.add(3, []byte("three")), h.add(4, []byte("four"))}
	h.lose(keys[1])
	h.exec(`UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED' WHERE id = $1`, keys[3][:36])
	h.exec(`UPDATE archives SET verified_at = now(), checked_at = now()`) // none is due
	read := make(map[string]int)
	opts, stop := h.opts, false
	opts.Archives = readBack(func(ctx context.Context, key string, pace func(int) error) (archive.Content, error) {
		if stop {
			return archive.Content{}, workspace.Fail(workspace.ReasonUnreachable, errors.New("out of order"))
		}
		read[key]++
		stop = len(read) == 1
		return h.archives.ReadBack(ctx, key, pace)
	})
	lead := func() {
		h.runner = scrub.New(opts)
		h.runner.Set(scrub.Settings{})
		h.runner.Lead(fence)
	}
	left := func(want int64) {
		t.Helper()
		if s, err := h.store.Scrub(t.Context()); err != nil || s.Left != want || s.Archives != 3 || s.Bytes != 11 {
			t.Errorf("%+v, %v; want %d left", s, err, want)
		}
	}
	want := func(what string, times ...int) {
		t.Helper()
		for i, n := range times {
			if read[keys[i]] != n {
				t.Errorf("%s: archive %d was read %d times, want %d", what, i+1, read[keys[i]], n)
			}
		}
	}
	lead()
	if h.look(); len(read) != 0 {
		t.Fatalf("nothing was asked for, and %v were read", read)
	}
	left(0)
	for range 2 { // asking again changes nothing
		if err := h.store.RequestScrub(t.Context()); err != nil {
			t.Fatal(err)
		}
		left(3)
	}
	if err := h.runner.Look(t.Context()); err == nil {
		t.Fatal("the store is away, and no error")
	}
	left(2)
	stop = false
	lead()
	h.look()
	want("the next leader", 1, 1, 1, 0)
	left(1) // the missing one, until it is confirmed
	if a, shown := h.row(keys[1]); a.Damage != "" || shown != "" {
		t.Errorf("after one look: %+v, %q", a, shown)
	}
	h.exec(`UPDATE archives SET suspected_at = suspected_at - interval '6 minutes'`)
	h.look()
	want("at the end", 1, 2, 1, 0)
	left(0)
	if a, shown := h.row(keys[1]); a.Damage == "" || shown != a.Damage {
		t.Errorf("after two looks: %+v, %q", a, shown)
	}
	h.look()
	want("nothing is left", 1, 2, 1, 0)

	// An unreadable archive is not tried forever.
	opts.Archives = readBack(func(context.Context, string, func(int) error) (archive.Content, error) {
		return archive.Content{}, errors.New("refused")
	})
	lead()
	if err := h.store.RequestScrub(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := int64(2); n >= 0; n-- {
		_ = h.runner.Look(t.Context())
		left(n)
	}
	if a, _ := h.row(keys[0]); a.Damage != "" || !a.SuspectedAt.IsZero() {
		t.Errorf("%+v", a)
	}
}

// readBack reads archives as the test defines.
type readBack func(ctx context.Context, key string, pace func(int) error) (archive.Content, error)

func (f readBack) ReadBack(ctx context.Context, key string, pace func(int) error) (archive.Content, error) {
	return f(ctx, key, pace)
}
