package codehub

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/coordinator/workspace"
)

// required are the settings that have no default, with values that name no real
// server.
func required() App {
	return App{Database: "postgres://codehub@db.example/codehub", Redis: "redis://redis.example:6379/0"}
}

func resolveOrFail(t *testing.T, a App) resolved {
	t.Helper()
	r, err := a.resolve(caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDefaultsAreThoseOfTheSpecification(t *testing.T) {
	r := resolveOrFail(t, required())
	live, o := r.live, r.options
	for name, c := range map[string]struct{ got, want any }{
		"retry":        {live.Leader.RetryInterval, 5 * time.Second},
		"idle":         {live.Reconcile.IdleInterval, 15 * time.Second},
		"active":       {live.Reconcile.ActiveInterval, time.Second},
		"ttl interval": {live.TTL.Interval, time.Minute},
		"gc interval":  {live.GC.Interval, 4 * time.Hour},
		"gc delay":     {live.GC.Delay, 2 * time.Hour},
		"concurrent":   {live.Reconcile.MaxConcurrent, 10},
		"standby":      {live.TTL.Standby, 600 * time.Second},
		"archive":      {live.TTL.Archive, 1800 * time.Second},
		"flush":        {live.Activity.FlushInterval, 30 * time.Second},
		"per user":     {live.Limits.PerUser, 2},
		"global":       {live.Limits.Global, 100},
		"lock":         {o.LockID, int64(12345)},
		"sse":          {o.SSEPrefix, "codehub:sse"},
		"wake":         {o.WakePrefix, "codehub:wake"},
		"session":      {o.SessionTTL, 336 * time.Hour},
		"gc share":     {live.GC.MaxShare, 0.5},
		"held":         {live.MaxHeld, int64(1000)},
		"heartbeat":    {r.heartbeat, 30 * time.Second},
		"prefix":       {o.Archive.Prefix, "archives/"},
		"path style":   {o.Archive.PathStyle, false},
		"port":         {o.Docker.Port, 8080},
		"publish":      {o.Docker.Publish, "none"},
		"memory":       {o.Docker.MemoryBytes, int64(2 << 30)},
		"cpus":         {o.Docker.NanoCPUs, int64(2e9)},
		"shards":       {o.Shards, 1},
		"retries":      {live.Reconcile.MaxRetry, 3},
		"sweep":        {live.Reconcile.SweepInterval, 5 * time.Minute},
		"stable":       {live.Reconcile.StableAfter, time.Minute},
		"operation":    {live.Reconcile.OperationLimit, 24 * time.Hour},
		"wait":         {live.Reconcile.WaitLimit, 10 * time.Minute},
		"loss share":   {live.Reconcile.MaxLossShare, 0.5},
		"pulls":        {live.Reconcile.MaxPulls, 2},
		"history":      {live.HistoryRetention, 720 * time.Hour},
		"uploads":      {live.GC.UploadExpiry, 24 * time.Hour},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	for op, want := range workspace.DefaultTimeouts() {
		if got := live.Reconcile.Timeouts[op]; got != want {
			t.Errorf("timeout of %s: got %s, want %s", op, got, want)
		}
	}
	if o.NodeID != "" {
		t.Errorf("node id: got %q, want the coordinator's own default", o.NodeID)
	}
	if err := live.Validate(); err != nil {
		t.Error(err)
	}
}

// A bare number is seconds wherever it comes from (SPEC 10).
func TestSecondsFromEverySource(t *testing.T) {
	t.Setenv("CODEHUB_TEST_TTL", "90")
	for name, config := range map[string]string{
		"number":      `{"ttl": {"standby": 90}}`,
		"text":        `{"ttl": {"standby": "90"}}`,
		"duration":    `{"ttl": {"standby": "1m30s"}}`,
		"placeholder": `{"ttl": {"standby": "{env.CODEHUB_TEST_TTL}"}}`,
	} {
		a := required()
		if err := json.Unmarshal([]byte(config), &a); err != nil {
			t.Fatal(err)
		}
		if got := resolveOrFail(t, a).live.TTL.Standby; got != 90*time.Second {
			t.Errorf("%s: got %s, want 1m30s", name, got)
		}
	}
}

func TestUnsetVariableMeansDefault(t *testing.T) {
	a := required()
	a.TTL.Standby = "{env.CODEHUB_TEST_NOT_SET}"
	a.Limits.MaxRunningPerUser = "{env.CODEHUB_TEST_NOT_SET}"
	r := resolveOrFail(t, a)
	if r.live.TTL.Standby != 600*time.Second || r.live.Limits.PerUser != 2 {
		t.Errorf("got %s and %d", r.live.TTL.Standby, r.live.Limits.PerUser)
	}
}

func TestSecretsStayOutOfTheStoredConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("from-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CODEHUB_TEST_SECRET", "from-a-variable")
	a := required()
	a.AdminPassword = "{env.CODEHUB_TEST_SECRET}"
	a.S3.AccessKey = "id"
	a.S3.SecretKey = Value("{file." + file + "}")
	r := resolveOrFail(t, a)
	if r.live.AdminPassword != "from-a-variable" || r.options.Archive.SecretKey != "from-a-file" {
		t.Errorf("got %q and %q", r.live.AdminPassword, r.options.Archive.SecretKey)
	}
	stored, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(stored), "from-a-") {
		t.Errorf("the configuration holds a secret: %s", stored)
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	t.Setenv("CODEHUB_TEST_TTL", "soon")
	a := App{
		Redis:  "redis://:topsecret@host:port",
		TTL:    TTLSettings{Standby: "{env.CODEHUB_TEST_TTL}"},
		Limits: LimitSettings{MaxRunningGlobal: "-1"},
		S3:     S3Settings{Region: "{evn.REGION}"},
	}
	_, err := a.resolve(caddy.NewReplacer())
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		`setting "database": is required: write ` + "`database {env.DATABASE_URL}`",
		`setting "redis": invalid port`,
		`setting "ttl standby": "soon" is not a duration`,
		`setting "limits max_running_global": must be at least 1, not -1`,
		`setting "s3 region": unrecognized placeholder {evn.REGION}`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "topsecret") {
		t.Errorf("the message holds a password: %v", err)
	}
}

func TestActivityIsFlushedWithinTheStandbyTTL(t *testing.T) {
	a := required()
	a.TTL.Standby = "8s"
	if got := resolveOrFail(t, a).live.Activity.FlushInterval; got != 2*time.Second {
		t.Errorf("got %s, want a quarter of the TTL", got)
	}
	a.ActivityFlushInterval = "10s"
	if _, err := a.resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `setting "activity_flush_interval"`) {
		t.Errorf("got %v", err)
	}
}

// What a package below refuses is reported as the setting's, whatever the setting's
// own name is there; and what it would take for "not set" is refused, too.
func TestOwnersRulesAreReportedAsTheSettings(t *testing.T) {
	for want, change := range map[string]func(*App){
		`setting "session_ttl": 30s is too short`:                         func(a *App) { a.SessionTTL = "30s" },
		`setting "session_ttl": 0 is out of range`:                        func(a *App) { a.SessionTTL = "0" },
		`setting "docker workspace_port": 0 is out of range`:              func(a *App) { a.Docker.WorkspacePort = "0" },
		`setting "docker workspace_port": 70000 must be from`:             func(a *App) { a.Docker.WorkspacePort = "70000" },
		`setting "docker job_network": "none" must be`:                    func(a *App) { a.Docker.JobNetwork = "none" },
		`setting "docker memory": 5 bytes must be`:                        func(a *App) { a.Docker.Memory = "5" },
		`setting "docker pids": must be 0`:                                func(a *App) { a.Docker.Pids = "-1" },
		`setting "docker cpus": must be 0`:                                func(a *App) { a.Docker.CPUs = "-1" },
		`setting "coordinator lock_id": 0 is out of range`:                func(a *App) { a.Coordinator.LockID = "0" },
		`setting "coordinator gc_max_share": 1.5; give a fraction`:        func(a *App) { a.Coordinator.GCMaxShare = "1.5" },
		`setting "coordinator gc_max_share": NaN; give a fraction`:        func(a *App) { a.Coordinator.GCMaxShare = "NaN" },
		`setting "coordinator gc_max_share": "half" is not a fraction`:    func(a *App) { a.Coordinator.GCMaxShare = "half" },
		`setting "coordinator max_concurrent": must be at least 1, not 0`: func(a *App) { a.Coordinator.MaxConcurrent = "0" },
		`setting "coordinator max_concurrent": 5000000000 is out of`:      func(a *App) { a.Coordinator.MaxConcurrent = "5000000000" },
		`setting "coordinator shards": -1; give a number from 1 to 64`:    func(a *App) { a.Coordinator.Shards = "-1" },
		`setting "coordinator shards": 0 is out of range`:                 func(a *App) { a.Coordinator.Shards = "0" },
		`setting "coordinator max_loss_share": must be above 0 and at`:    func(a *App) { a.Coordinator.MaxLossShare = "0" },
		`setting "coordinator max_pulls": must be at least 1, not 0`:      func(a *App) { a.Coordinator.MaxPulls = "0" },
		`setting "limits max_held": must be at least 0, not -1`:           func(a *App) { a.Limits.MaxHeld = "-1" },
		`setting "s3 bucket": "a" is not a bucket's name`:                 func(a *App) { a.S3.Bucket = "a" },
		`s3 access key and s3 secret key: set both`:                       func(a *App) { a.S3.AccessKey = "id" },
		`setting "s3 job_endpoint": must hold neither credentials`:        func(a *App) { a.S3.JobEndpoint = "http://a:b@c" },
		`setting "timeouts deleting": 1ms is too short: the least is 10`:  func(a *App) { a.Timeouts.Deleting = "1ms" },
	} {
		a := required()
		change(&a)
		_, err := a.resolve(caddy.NewReplacer())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	a := required()
	a.S3.AccessKey, a.S3.SecretKey, a.Limits.MaxHeld, a.Docker.Memory = "id", "secret", "0", "0"
	resolveOrFail(t, a)
}

func TestUnknownFieldsOfTheJSONAreRefused(t *testing.T) {
	err := caddy.Validate(&caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{
			"codehub": json.RawMessage(`{"database": "{env.X}", "timeouts": {"resting": "5m"}}`),
		},
	})
	if err == nil || !strings.Contains(err.Error(), `"resting"`) {
		t.Errorf("got %v", err)
	}
}

func TestHandlersNeedTheApp(t *testing.T) {
	err := caddy.Validate(&caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{
			"http": json.RawMessage(`{"servers": {"s": {"listen": ["127.0.0.1:0"], "routes": [{"handle": [{"handler": "codehub_api"}]}]}}}`),
		},
	})
	if err == nil || !strings.Contains(err.Error(), "add a `codehub { … }` block to the global options") {
		t.Errorf("got %v", err)
	}
}

// A configuration can be checked where its servers cannot be reached.
func TestValidatingNeedsNoServers(t *testing.T) {
	a := required()
	raw, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	err = caddy.Validate(&caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{"codehub": raw},
	})
	if err != nil {
		t.Error(err)
	}
	if n := heldCoordinators(); n != 0 {
		t.Errorf("%d coordinators are still held", n)
	}
}
