package codehub

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var updateGolden = flag.Bool("update", false, "write what the Caddyfiles in testdata/adapt become instead of comparing it")

// separator stands between a Caddyfile and what it becomes: JSON, or the error.
const separator = "----------"

// TestAdapt compares every Caddyfile in testdata/adapt with the JSON that it must
// become, or with the error that it must cause.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, _ := strings.Cut(string(content), separator+"\n")
			got := adapt(t, input)
			if *updateGolden {
				if err := os.WriteFile(file, []byte(input+separator+"\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if formatted := caddyfile.Format([]byte(input)); string(formatted) != input {
				t.Errorf("not formatted; `caddy fmt` gives:\n%s", formatted)
			}
		})
	}
}

// adapt returns a Caddyfile's JSON, indented, or its error.
func adapt(t *testing.T, input string) string {
	t.Helper()
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), nil)
	if err != nil {
		return err.Error() + "\n"
	}
	var out bytes.Buffer
	if err := json.Indent(&out, config, "", "\t"); err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}

// The example works as it is, with nothing but the two variables that it needs.
func TestExampleIsValid(t *testing.T) {
	t.Setenv("DATABASE_URL", "postgres://codehub@db.example/codehub")
	t.Setenv("REDIS_URL", "redis://redis.example:6379/0")
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	config := new(caddy.Config)
	if err := json.Unmarshal([]byte(adapt(t, string(example))), config); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(config); err != nil {
		t.Error(err)
	}
}

func TestExampleIsFormattedAndKnowsEverySetting(t *testing.T) {
	example, err := os.ReadFile("../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	if formatted := caddyfile.Format(example); !bytes.Equal(formatted, example) {
		t.Errorf("not formatted; `caddy fmt` gives:\n%s", formatted)
	}
	config := adapt(t, string(example))
	var parsed struct {
		Apps struct {
			CodeHub App `json:"codehub"`
		} `json:"apps"`
	}
	if err := json.Unmarshal([]byte(config), &parsed); err != nil {
		t.Fatalf("%v: %s", err, config)
	}
	app := &parsed.Apps.CodeHub
	for _, s := range app.table(new(resolved)) {
		if *s.text == "" {
			t.Errorf("the example does not show %q", s.name)
		}
	}
	for name, text := range map[string]Value{
		"database": app.Database, "redis": app.Redis, "admin_password": app.AdminPassword,
		"s3 access_key": app.S3.AccessKey, "s3 secret_key": app.S3.SecretKey,
	} {
		if !strings.HasPrefix(string(text), "{env.") {
			t.Errorf("%s is stored with the configuration: %s", name, text)
		}
	}
	// The names that the source documents give (SPEC 10).
	for _, name := range []string{
		"COORDINATOR_NODE_ID", "COORDINATOR_LOCK_ID", "COORDINATOR_RETRY_INTERVAL", "COORDINATOR_IDLE_INTERVAL",
		"COORDINATOR_ACTIVE_INTERVAL", "COORDINATOR_TTL_INTERVAL", "COORDINATOR_GC_INTERVAL", "TTL_STANDBY_SECONDS",
		"TTL_ARCHIVE_SECONDS", "ACTIVITY_FLUSH_INTERVAL", "LIMITS_MAX_RUNNING_PER_USER", "LIMITS_MAX_RUNNING_GLOBAL",
		"REDIS_CHANNEL_SSE_PREFIX", "REDIS_CHANNEL_WAKE_PREFIX", "SSE_HEARTBEAT_INTERVAL",
	} {
		if !bytes.Contains(example, []byte("{env."+name+"}")) {
			t.Errorf("the example does not read %s", name)
		}
	}
}
