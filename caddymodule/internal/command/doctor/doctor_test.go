package doctor_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
)

// line is the output of `doctor --json` for a check.
type line struct{ Check, Level, Text, Remedy string }

// withoutEngine is a database, a Redis and a non-empty bucket, with a Caddyfile that names them and
// an engine that does not exist.
func withoutEngine(t *testing.T) (caddyfile string, objects devenv.ObjectStore) {
	t.Helper()
	dsn := devenv.PostgreSQL(t)
	commandtest.Run(t, nil, "migrate", "--database", dsn).Want(t, 0)
	objects = devenv.S3(t)
	putObject(t, objects, "archives/notes.txt", "1234")
	t.Setenv("DOCTOR_TEST_DATABASE", dsn)
	t.Setenv("DOCTOR_TEST_REDIS", devenv.Redis(t))
	t.Setenv("DOCTOR_TEST_BUCKET", objects.Bucket)
	text := fmt.Sprintf(`{
	codehub {
		database {env.DOCTOR_TEST_DATABASE}
		redis {env.DOCTOR_TEST_REDIS}
		docker {
			host unix:///nonexistent/docker.sock
		}
		s3 {
			endpoint %s
			bucket {env.DOCTOR_TEST_BUCKET}
			access_key %s
			secret_key %s
		}
	}
}
`, objects.Endpoint, objects.AccessKey, objects.SecretKey)
	caddyfile = filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return caddyfile, objects
}

// putObject stores an object under its whole name.
func putObject(t *testing.T, objects devenv.ObjectStore, name, content string) {
	t.Helper()
	if _, err := objects.Client(t).PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &objects.Bucket, Key: &name, Body: strings.NewReader(content),
	}); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorWithoutAnEngine: servers that answer are ok, one that does not is a problem with a
// remedy, and checks that depend on it are skipped.
func TestDoctorWithoutAnEngine(t *testing.T) {
	caddyfile, objects := withoutEngine(t)
	doctor := func(args ...string) (commandtest.Outcome, map[string]line) {
		t.Helper()
		o := commandtest.Run(t, nil, append([]string{"doctor", "--config", caddyfile, "--json"}, args...)...)
		var lines []line
		if err := json.Unmarshal([]byte(o.Stdout), &lines); err != nil {
			t.Fatalf("%v: %s %s", err, o.Stdout, o.Stderr)
		}
		found := make(map[string]line)
		for _, l := range lines {
			found[l.Check] = l
			if (l.Level == "ok") != (l.Remedy == "") || l.Text == "" {
				t.Errorf("%+v", l)
			}
		}
		return o, found
	}
	o, found := doctor()
	for check, level := range map[string]string{
		"release": "ok", "database": "ok", "redis": "warning", "object store": "ok", "engine": "problem",
		"identity": "warning", "images": "warning", "network": "warning", "egress": "warning", "isolation": "warning", "disk": "warning", "home": "warning", "hosts": "ok",
	} {
		if found[check].Level != level {
			t.Errorf("%s: %+v, want %s", check, found[check], level)
		}
	}
	if o.Code != 1 || !strings.Contains(o.Stderr, "1 problem found") || !strings.Contains(found["egress"].Remedy, "engine") {
		t.Errorf("exit code %d, %s, %+v", o.Code, o.Stderr, found["egress"])
	}
	plain := commandtest.Run(t, nil, "doctor", "--config", caddyfile)
	for _, part := range []string{"problem  engine", "→ check the setting docker host", "ok       database"} {
		if !strings.Contains(plain.Stdout, part) {
			t.Errorf("printed %q without %q", plain.Stdout, part)
		}
	}
	if plain.Code != 1 {
		t.Errorf("exit code %d", plain.Code)
	}

	// Doctor tests a bucket by writing to it, so it tests only a bucket of this installation.
	marker := `{"installation": "somebody", "database": "elsewhere", "generation": 1}`
	putObject(t, objects, "archives/codehub.json", marker)
	if _, found = doctor(); found["object store"].Level != "problem" || !strings.Contains(found["object store"].Text, "somebody") {
		t.Errorf("another installation's: %+v", found["object store"])
	}
	t.Setenv("DOCTOR_TEST_BUCKET", objects.Bucket+"-missing")
	if _, found = doctor(); found["object store"].Level != "warning" || !strings.Contains(found["object store"].Remedy, "it creates the bucket") {
		t.Errorf("no bucket yet: %+v", found["object store"])
	}

	direct := os.Getenv("DOCTOR_TEST_DATABASE")
	for fault, says := range map[faulty.Fault]string{faulty.RefusesSetting: "a connection pooler refuses", faulty.DropsSetting: "a connection pooler has dropped"} {
		t.Setenv("DOCTOR_TEST_DATABASE", faulty.Pooler(t, direct, "codehub.schema", fault))
		_, found = doctor()
		if l := found["database"]; l.Level != "problem" || !strings.Contains(l.Text, says) || !strings.Contains(l.Remedy, "name PostgreSQL itself") {
			t.Errorf("a pooler that %s: %+v", fault, l)
		}
	}

	t.Setenv("DOCTOR_TEST_REDIS", "redis://:hidden@127.0.0.1:1/0")
	t.Setenv("DOCTOR_TEST_DATABASE", "postgres://ann:hidden@127.0.0.1:1/x")
	o, found = doctor()
	if found["redis"].Level != "problem" || found["database"].Level != "problem" || strings.Contains(o.Stdout+o.Stderr, "hidden") {
		t.Errorf("%s %s", o.Stdout, o.Stderr)
	}
}
