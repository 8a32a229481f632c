package codehub

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/coordinator"
)

func TestReloadKeepsTheCoordinatorAndAppliesSettings(t *testing.T) {
	in := install(t)
	ann := in.signedIn("ann")
	before := in.coordinator()
	in.app["limits"] = map[string]any{"max_running_per_user": 1}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	if in.coordinator() != before {
		t.Error("a reload has made another coordinator")
	}
	ann.Create("one")
	ann.Do("POST", "/api/v1/workspaces", map[string]any{"name": "two"}).Problem(t, 429, "limit-reached")
}

// If a new configuration is invalid or cannot start, nothing may change for the configuration that is running.
func TestRejectedConfigurationDisturbsNothing(t *testing.T) {
	in := install(t)
	ann := in.signedIn("ann")
	before := in.coordinator()
	good := in.routes

	in.app["limits"] = map[string]any{"max_running_per_user": 1}
	in.routes = append([]map[string]any{{"handle": []map[string]any{{"handler": "no_such_handler"}}}}, good...)
	if err := in.load(); err == nil {
		t.Fatal("a wrong configuration was accepted")
	}
	in.routes = good
	in.app["admin_password"] = "another password"
	dir := in.dir
	in.dir = "/nowhere" // provisioned, but does not start
	if err := in.load(); err == nil {
		t.Fatal("a configuration that cannot listen was accepted")
	}
	in.dir = dir

	if in.coordinator() != before {
		t.Error("the coordinator is another one")
	}
	ann.Create("one")
	ann.Create("two") // the limit is still 2
	in.signedIn("admin")
}

func TestAnotherDatabaseIsAnotherCoordinator(t *testing.T) {
	in := install(t)
	before := in.coordinator()
	in.app["coordinator"] = map[string]any{"node_id": "another"}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	if in.coordinator() == before {
		t.Error("the coordinator has kept options that it was not made from")
	}
	in.signedIn("ann").Create("works")
}

func TestReloadThatChangesTheShardsIsRefused(t *testing.T) {
	in := install(t)
	before := in.coordinator()
	in.app["coordinator"] = map[string]any{"shards": 8}
	err := in.load()
	if err == nil || !strings.Contains(err.Error(), `setting "coordinator shards": a reload cannot change it from 1 to 8`) ||
		!strings.Contains(err.Error(), "restart this process") {
		t.Errorf("got %v", err)
	}
	delete(in.app, "coordinator")
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	if in.coordinator() != before {
		t.Error("the running coordinator was disturbed")
	}
	in.signedIn("ann").Create("works")
}

func TestReloadChangesTheAdministratorsPassword(t *testing.T) {
	in := install(t)
	before := in.coordinator()
	in.app["admin_password"] = "the second password"
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	if in.coordinator() != before {
		t.Error("a reload has made another coordinator")
	}
	c := in.anyone()
	c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword}).Problem(t, 401, "bad-credentials")
	if a := c.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": "the second password"}); a.StatusCode != 200 {
		t.Errorf("status %d: %s", a.StatusCode, a.Text)
	}
}

func TestStartWithoutDatabaseFailsClearly(t *testing.T) {
	in := install(t)
	before := in.coordinator()
	good := in.app["database"]
	in.app["database"] = "postgres://u:topsecret@127.0.0.1:1/x?connect_timeout=2"
	err := in.load()
	if err == nil || !strings.Contains(err.Error(), "database: cannot be reached") || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("got %v", err)
	}
	in.app["database"] = good
	if in.coordinator() != before {
		t.Error("the running coordinator was disturbed")
	}
	in.signedIn("ann").Create("works")
}

func TestPoolKeyHoldsNoSecretAndIsStable(t *testing.T) {
	o := coordinator.Options{Database: "postgres://u:topsecret@h/d"}
	key := poolKey(o)
	if strings.Contains(key, "topsecret") || len(key) != 64 {
		t.Errorf("got %q", key)
	}
	if poolKey(o) != key {
		t.Error("the same options have another key")
	}
	o.Database += "2"
	if poolKey(o) == key {
		t.Error("the database does not change the key")
	}
}

// A reload after one of these files has changed needs another coordinator.
func TestPoolKeyFollowsTheFilesOfTheSettings(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	for name, c := range map[string]struct {
		before, after string
		use           func(*App, settings.Value)
	}{
		"certificates": {certificate, certificate + certificate, func(a *App, file settings.Value) {
			a.S3.Endpoint, a.S3.CA = "https://s3.example.com", file
		}},
		"a Pod template": {"metadata: {labels: {a: b}}", "metadata: {labels: {a: c}}", func(a *App, file settings.Value) {
			a.Backend, a.S3.JobEndpoint, a.Kubernetes.PodTemplate = "kubernetes", "http://store:9000", file
		}},
	} {
		file := filepath.Join(t.TempDir(), "file")
		resolve := func(text string) string {
			t.Helper()
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			a := required()
			c.use(&a, settings.Value(file))
			return poolKey(resolveOrFail(t, a).Options)
		}
		before := resolve(c.before)
		if resolve(c.before) != before {
			t.Errorf("%s: the same file has another key", name)
		}
		if resolve(c.after) == before {
			t.Errorf("%s: a reload with another file keeps the coordinator with the old one", name)
		}
	}
}

// Keys are given to the coordinator that runs.
func TestPoolKeyIsTheSameWithEncryption(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	a := required()
	plain := poolKey(resolveOrFail(t, a).Options)
	for text, dst := range map[string]*settings.Value{key.Recipient().String(): &a.Encryption.Recipients, key.String(): &a.Encryption.Identities} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		*dst = settings.Value(file)
	}
	if poolKey(resolveOrFail(t, a).Options) != plain {
		t.Error("a reload with other keys would need another coordinator")
	}
}

func TestReferenceIsReleasedOnce(t *testing.T) {
	a := required()
	r := resolveOrFail(t, a)
	first, err := acquire(r.Options, r.Live, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	second, err := acquire(r.Options, r.Live, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := first.release(); err != nil {
			t.Error(err)
		}
	}
	if n := heldCoordinators(); n != 1 {
		t.Errorf("%d coordinators are held, want 1", n)
	}
	if err := second.release(); err != nil {
		t.Error(err)
	}
	if n := heldCoordinators(); n != 0 {
		t.Errorf("%d coordinators are held, want none", n)
	}
	if err := new(App).Cleanup(); err != nil { // partly provisioned
		t.Error(err)
	}
}

func TestLogsGoToTheNewestConfiguration(t *testing.T) {
	old, oldLogs := observer.New(zapcore.InfoLevel)
	newer, newLogs := observer.New(zapcore.WarnLevel)
	h := newReloadableCore(old)
	log := zap.New(h).Named("coordinator").With(zap.String("node", "a"))
	log.Info("one")
	h.use(newer)
	log.Info("too quiet for the new one")
	log.Warn("two", zap.Int("n", 2))
	if got := oldLogs.All(); len(got) != 1 || got[0].Message != "one" || got[0].ContextMap()["node"] != "a" {
		t.Errorf("the old configuration's log has %v", got)
	}
	got := newLogs.All()
	if len(got) != 1 || got[0].Message != "two" || got[0].ContextMap()["node"] != "a" || got[0].ContextMap()["n"] != int64(2) {
		t.Errorf("the new configuration's log has %v", got)
	}
}
