package command_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// gcInstallation is a database, a Redis and a bucket with a Caddyfile that names them, and one workspace. The workspace
// has its current archive, an archive that was replaced, and an object whose key names another user.
type gcInstallation struct {
	t                   *testing.T
	caddyfile, text     string // the file and its content
	redis               *redis.Client
	objects             devenv.ObjectStore
	current, superseded string
}

func newGCInstallation(t *testing.T) *gcInstallation {
	t.Helper()
	dsn := storetest.Migrated(t)
	st, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	address := devenv.Redis(t)
	options, err := redis.ParseURL(address)
	if err != nil {
		t.Fatal(err)
	}
	in := &gcInstallation{t: t, redis: redis.NewClient(options)}
	t.Cleanup(func() { _ = in.redis.Close() })

	id := workspace.ID("00000000-0000-4000-8000-000000000001")
	in.current = id.ArchiveKey("00000000-0000-4000-9000-000000000002")
	in.superseded = id.ArchiveKey("00000000-0000-4000-9000-000000000001")
	db, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if _, err := db.Exec(t.Context(), `WITH u AS (INSERT INTO users (username) VALUES ('ann') RETURNING id)
		INSERT INTO workspaces (id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, archive_key)
		SELECT $1, u.id, 'w', 'docker', 'docker', 'k', 'ARCHIVED', 'ARCHIVED', $2 FROM u`, string(id), in.current); err != nil {
		t.Fatal(err)
	}
	objects := devenv.S3(t)
	in.objects = objects
	in.put("notes.txt")
	older := in.put(in.superseded)
	// Stores report times in whole seconds, so the current archive is stored again until its time is later than that of
	// the replaced archive.
	wait.Until(t, "the current archive is newer", func() bool { return in.put(in.current).After(older) })
	t.Setenv("GC_TEST_DATABASE", dsn)
	t.Setenv("GC_TEST_REDIS", address)
	t.Setenv("GC_TEST_BUCKET", objects.Bucket)
	in.caddyfile = filepath.Join(t.TempDir(), "Caddyfile")
	in.text = fmt.Sprintf(`{
	codehub {
		database {env.GC_TEST_DATABASE}
		redis {env.GC_TEST_REDIS}
		s3 {
			endpoint %s
			bucket {env.GC_TEST_BUCKET}
			access_key %s
			secret_key %s
		}
		coordinator {
			gc_delay 3h
		}
	}
}
`, objects.Endpoint, objects.AccessKey, objects.SecretKey)
	in.write(in.text)
	return in
}

// put stores an object. If it is an archive, put stores its commit marker, too. It returns the object's time in the
// store.
func (in *gcInstallation) put(key string) time.Time {
	in.t.Helper()
	objects := []string{"archives/" + key}
	if strings.Contains(key, "/") {
		objects = append(objects, "archives/"+key+".meta")
	}
	client := in.objects.Client(in.t)
	for _, object := range objects {
		if _, err := client.PutObject(in.t.Context(), &s3.PutObjectInput{Bucket: &in.objects.Bucket, Key: &object, Body: strings.NewReader("1234")}); err != nil {
			in.t.Fatal(err)
		}
	}
	head, err := client.HeadObject(in.t.Context(), &s3.HeadObjectInput{Bucket: &in.objects.Bucket, Key: &objects[0]})
	if err != nil {
		in.t.Fatal(err)
	}
	return *head.LastModified
}

// exists reports whether an archive is in the bucket.
func (in *gcInstallation) exists(key string) bool {
	in.t.Helper()
	object := "archives/" + key
	_, err := in.objects.Client(in.t).HeadObject(in.t.Context(), &s3.HeadObjectInput{Bucket: &in.objects.Bucket, Key: &object})
	return err == nil
}

func (in *gcInstallation) write(text string) {
	in.t.Helper()
	if err := os.WriteFile(in.caddyfile, []byte(text), 0o600); err != nil {
		in.t.Fatal(err)
	}
}

func (in *gcInstallation) run(args ...string) commandtest.Outcome {
	in.t.Helper()
	return in.collect("", append(args, "--dry-run")...)
}

// collect runs the command with answer as its input.
func (in *gcInstallation) collect(answer string, args ...string) commandtest.Outcome {
	in.t.Helper()
	return commandtest.Run(in.t, strings.NewReader(answer), append([]string{"gc", "--config", in.caddyfile}, args...)...)
}

// row returns the line of an archive, with single spaces.
func (in *gcInstallation) row(o commandtest.Outcome, key string) string {
	in.t.Helper()
	for line := range strings.Lines(o.Stdout) {
		if strings.Contains(line, key) {
			return strings.Join(strings.Fields(line), " ")
		}
	}
	in.t.Fatalf("no line for %s: %s", key, o.Stdout)
	return ""
}

// firstSeen records that the garbage collector found the replaced archive to be an orphan this many seconds ago.
func (in *gcInstallation) firstSeen(seconds int64) {
	in.t.Helper()
	now, err := in.redis.Time(in.t.Context()).Result()
	if err == nil {
		err = in.redis.ZAdd(in.t.Context(), gc.DefaultKey, redis.Z{Score: float64(now.UnixMilli() - 1000*seconds), Member: in.superseded}).Err()
	}
	if err != nil {
		in.t.Fatal(err)
	}
}

func TestCommandGCShowsWhatWouldHappen(t *testing.T) {
	in := newGCInstallation(t)
	o := in.run()
	o.Want(t, 0, "2 archives: 1 protected, 1 candidates, 0 due (0B), 0 reported (0B). Other objects, which are left alone: 1.\n")
	if got, want := in.row(o, in.current), "protected - 4B "+in.current+" current archive"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := in.row(o, in.superseded), "candidate 3h0m0s 4B "+in.superseded+" superseded"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := in.redis.Exists(t.Context(), gc.DefaultKey).Val(); n != 0 {
		t.Error("a dry run has recorded orphans")
	}

	in.firstSeen(4 * 3600)
	o = in.run("--adapter", "caddyfile")
	o.Want(t, 0, "2 archives: 1 protected, 0 candidates, 1 due (4B), 0 reported (0B).")
	if got, want := in.row(o, in.superseded), "due now 4B "+in.superseded+" superseded"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	in.firstSeen(3600)
	o = in.run("--json")
	o.Want(t, 0)
	var found []struct {
		Archive, Verdict, Reason string
		Workspace                *string `json:"workspace_id"`
		Size                     *int64  `json:"size_bytes"`
		Modified                 string
		FirstSeen                *string `json:"first_seen"`
		DeletedIn                *int64  `json:"deleted_in_seconds"`
	}
	if err := json.Unmarshal([]byte(o.Stdout), &found); err != nil || len(found) != 3 {
		t.Fatalf("%v: %s", err, o.Stdout)
	}
	if f := found[0]; f.Archive != "notes.txt" || f.Verdict != "foreign" || f.Workspace != nil {
		t.Errorf("got %+v", f)
	}
	if f := found[1]; f.Archive != in.superseded || f.Verdict != "candidate" || *f.Size != 4 || *f.Workspace != in.current[:36] ||
		f.FirstSeen == nil || *f.DeletedIn > 2*3600 || *f.DeletedIn < 2*3600-60 {
		t.Errorf("got %+v", f)
	}
	if f := found[2]; f.Archive != in.current || f.Verdict != "protected" || f.FirstSeen != nil || f.DeletedIn != nil {
		t.Errorf("got %+v", f)
	}
}

func TestCommandGCNeedsPostgreSQLButNotRedis(t *testing.T) {
	in := newGCInstallation(t)
	in.firstSeen(4 * 3600)
	t.Setenv("GC_TEST_REDIS", "redis://127.0.0.1:1")
	printed, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	terminal := os.Stderr
	os.Stderr = printed
	logging.Enable() // the Redis client prints its errors, as in a command's own process
	o := in.run()
	os.Stderr = terminal
	if text, err := os.ReadFile(printed.Name()); err != nil || len(text) > 0 {
		t.Errorf("past the command's output it printed %q, %v", text, err)
	}
	if o.Code != 0 || !strings.Contains(o.Stderr, "Warning: Redis cannot be reached") || !strings.HasPrefix(in.row(o, in.superseded), "candidate ? 4B") {
		t.Errorf("got %+v", o)
	}

	t.Setenv("GC_TEST_DATABASE", "postgres://ann:hunter2@127.0.0.1:1/x")
	o = in.run()
	o.Want(t, 1, "the database cannot be reached; check the setting database")
	if strings.Contains(o.Stderr, "hunter2") {
		t.Errorf("it prints the password: %s", o.Stderr)
	}
}

// The bucket has archives of workspaces that the database does not have, so it must be the wrong database.
func TestCommandGCSaysWhenACollectionWouldBeStopped(t *testing.T) {
	in := newGCInstallation(t)
	other := devenv.PostgreSQL(t)
	t.Setenv("GC_TEST_DATABASE", other)
	if o := in.run(); o.Code != 1 || !strings.Contains(o.Stderr, "caddy codehub migrate") {
		t.Errorf("got %+v", o)
	}
	commandtest.Run(t, nil, "migrate", "--database", other).Want(t, 0)
	o := in.run()
	if o.Code != 1 || !strings.Contains(o.Stdout, "2 archives: 0 protected, 0 candidates, 0 due (0B), 2 reported (8B)") ||
		!strings.Contains(o.Stderr, "no archive is deleted: 2 of 2 archives belong to no workspace of this database, which has 0") || !strings.Contains(o.Stderr, "--force runs one collection") {
		t.Errorf("got %+v", o)
	}
	t.Setenv("GC_TEST_BUCKET", "no-such-bucket-anywhere")
	in.run().Want(t, 1, "the archives could not be listed")
}

// The command deletes nothing unless the answer is yes. It then deletes only archives that were due.
func TestCommandGCCollectsAfterAYes(t *testing.T) {
	in := newGCInstallation(t)
	in.collect("").Want(t, 0, "2 archives: 1 protected, 1 candidates, 0 due", "0 deleted")
	in.firstSeen(4 * 3600)
	for _, answer := range []string{"", "no\n"} {
		o := in.collect(answer)
		if o.Code != 1 || !strings.Contains(o.Stderr, "This deletes 1 archive (4B) for good.") || !strings.Contains(o.Stderr, "nothing was changed") {
			t.Errorf("the answer %q: got %+v", answer, o)
		}
	}
	if !in.exists(in.superseded) {
		t.Fatal("it was deleted without a yes")
	}
	o := in.collect("yes\n")
	if o.Code != 0 || !strings.Contains(o.Stdout, "1 deleted, 0 spared because a workspace needs them again, 0 failed.") ||
		in.exists(in.superseded) || !in.exists(in.current) {
		t.Errorf("got %+v", o)
	}
	if o := in.collect("", "--json"); o.Code != 0 || strings.TrimSpace(o.Stdout) != "[]" {
		t.Errorf("got %+v", o)
	}
	t.Setenv("GC_TEST_REDIS", "redis://127.0.0.1:1")
	in.collect("", "--yes").Want(t, 1, "the Redis server cannot be reached, so it is not known since when archives are orphans")
}

// Objects that the database does not know may be a user's files, until a person says otherwise.
func TestCommandGCDeletesTheUnknownOnCommandOnly(t *testing.T) {
	in := newGCInstallation(t)
	in.write(strings.Replace(in.text, "gc_delay 3h", "gc_delay 100ms", 1))
	unknown := workspace.ID("00000000-0000-4000-8000-00000000000f").ArchiveKey("00000000-0000-4000-9000-000000000001")
	in.put(unknown)
	o := in.collect("", "--yes")
	if o.Code != 0 || !in.exists(unknown) || !strings.Contains(in.row(o, unknown), "reported") {
		t.Errorf("got %+v", o)
	}
	wait.For(t, "the unknown archive is old enough to be deleted", func() error {
		if o := in.collect("yes\n", "--unknown"); o.Code != 0 || in.exists(unknown) {
			return fmt.Errorf("got %+v", o)
		} else if !strings.Contains(o.Stderr, "all that is left of a user's files") {
			t.Errorf("it does not warn: %+v", o)
		}
		return nil
	})
	if !in.exists(in.current) {
		t.Error("the current archive is gone")
	}
}

func TestCommandGCCollectsInSpiteOfTheShareWhenForced(t *testing.T) {
	in := newGCInstallation(t)
	other := devenv.PostgreSQL(t)
	commandtest.Run(t, nil, "migrate", "--database", other).Want(t, 0)
	t.Setenv("GC_TEST_DATABASE", other)
	if o := in.collect("", "--yes"); o.Code != 1 || !strings.Contains(o.Stderr, "no archive is deleted") {
		t.Errorf("got %+v", o)
	}
	in.collect("", "--yes", "--force").Want(t, 0, "2 reported", "0 deleted")
	if !in.exists(in.superseded) || !in.exists(in.current) {
		t.Error("an archive that the database does not know was deleted")
	}
}

func TestCommandGCReadsTheConfiguration(t *testing.T) {
	in := newGCInstallation(t)
	config := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(config, []byte(`{"apps": {"codehub": {"database": "{env.GC_TEST_DATABASE}", "redis": "{env.GC_TEST_REDIS}", "s3": {"bukket": "x"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		text string // of the Caddyfile; empty leaves it
		part string
	}{
		{[]string{"gc", "--dry-run", "now"}, "", "1 argument instead of 0"},
		{[]string{"gc", "--dry-run", "--database", "postgres://x"}, "", "leave --database out"},
		{[]string{"gc", "--dry-run", "--config", "/nowhere/Caddyfile"}, "", "no such file or directory: name it with --config"},
		{[]string{"gc", "--dry-run", "--config", in.caddyfile, "--adapter", "yaml"}, "", `there is no config adapter "yaml"`},
		{[]string{"gc", "--dry-run", "--config", in.caddyfile}, ":8080 {\n}\n", "has no codehub block in its global options"},
		{[]string{"gc", "--dry-run", "--config", in.caddyfile}, "{\n\tcodehub {\n\t\tredis {env.GC_TEST_REDIS}\n\t}\n}\n", `setting "database": is required`},
		{[]string{"gc", "--dry-run", "--config", in.caddyfile}, "{\n\tcodehub {\n\t\tdatabse x\n\t}\n}\n", `codehub has no option "databse"`},
		{[]string{"gc", "--dry-run", "--config", config}, "", `unknown field "bukket"`},
	} {
		if c.text != "" {
			in.write(c.text)
		}
		commandtest.Run(t, nil, c.args...).Want(t, 2, "Error: ", c.part, "See: caddy codehub gc --help")
	}
}
