package settings

import (
	"encoding/json"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// required are the settings that have no default, with values that name no real
// server.
func required() App {
	return App{Database: "postgres://codehub@db.example/codehub", Redis: "redis://redis.example:6379/0"}
}

func resolveOrFail(t *testing.T, a App) Resolved {
	t.Helper()
	r, err := a.Resolve(caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDefaultsAreThoseOfTheSpecification(t *testing.T) {
	r := resolveOrFail(t, required())
	live, o := r.Live, r.Options
	for name, c := range map[string]struct{ got, want any }{
		"retry":        {live.Leader.RetryInterval, 5 * time.Second},
		"idle":         {live.Reconcile.IdleInterval, 15 * time.Second},
		"active":       {live.Reconcile.ActiveInterval, time.Second},
		"ttl interval": {live.TTL.Interval, time.Minute},
		"gc interval":  {live.GC.Interval, 4 * time.Hour},
		"gc delay":     {live.GC.Delay, 2 * time.Hour},
		"undelete":     {live.GC.UndeleteFor, 7 * 24 * time.Hour},
		"concurrent":   {live.Reconcile.MaxConcurrent, 10},
		"jobs":         {live.Reconcile.MaxJobs, 4},
		"standby":      {live.TTL.Standby, 600 * time.Second},
		"doze":         {live.TTL.Doze, 300 * time.Second},
		"dozing":       {live.Limits.Dozing, service.DozingLimits{PerUser: 2, Global: 100}},
		"archive":      {live.TTL.Archive, 1800 * time.Second},
		"flush":        {live.Activity.FlushInterval, 30 * time.Second},
		"per user":     {live.Limits.PerUser, 2},
		"global":       {live.Limits.Global, 100},
		"lock":         {o.LockID, int64(12345)},
		"sse":          {o.SSEPrefix, "codehub:sse"},
		"wake":         {o.WakePrefix, "codehub:wake"},
		"session":      {o.SessionTTL, 336 * time.Hour},
		"held":         {live.MaxHeld, int64(1000)},
		"workspaces":   {live.Limits.Workspaces, 100},
		"heartbeat":    {r.Heartbeat, 30 * time.Second},
		"prefix":       {o.Archive.Prefix, "archives/"},
		"verify":       {live.Archive.Verify, "full"},
		"encryption":   {len(live.Archive.Keys.Recipients) + len(live.Archive.Keys.Identities), 0},
		"path style":   {o.Archive.PathStyle, false},
		"port":         {o.Docker.Port, 8080},
		"publish":      {o.Docker.Publish, "none"},
		"memory":       {o.Docker.MemoryBytes, int64(2 << 30)},
		"disk":         {o.Docker.DiskBytes + o.Docker.HomeBytes, int64(0)},
		"egress":       {o.Docker.Egress.Enforce, "auto"},
		"cpus":         {o.Docker.NanoCPUs, int64(2e9)},
		"shards":       {o.Shards, 1},
		"retries":      {live.Reconcile.MaxRetry, 3},
		"loss share":   {live.Reconcile.MaxLossShare, 0.5},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", name, c.got, c.want)
		}
	}
	for op, want := range planner.DefaultTimeouts() {
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
		if got := resolveOrFail(t, a).Live.TTL.Standby; got != 90*time.Second {
			t.Errorf("%s: got %s, want 1m30s", name, got)
		}
	}
}

func TestHowManyDozeAndWhen(t *testing.T) {
	a := required()
	a.TTL.Doze, a.Limits.MaxDozingPerUser, a.Limits.MaxDozingGlobal = "90", "3", "7"
	if r := resolveOrFail(t, a); r.Live.TTL.Doze != 90*time.Second || r.Live.Limits.Dozing != (service.DozingLimits{PerUser: 3, Global: 7}) {
		t.Errorf("got %s, %+v", r.Live.TTL.Doze, r.Live.Limits.Dozing)
	}
	a.TTL.Doze = "0"
	if r := resolveOrFail(t, a); r.Live.TTL.Doze != 0 {
		t.Errorf("got %s, want none", r.Live.TTL.Doze)
	}
	a.TTL.Doze = "-1s"
	if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `"ttl doze"`) {
		t.Errorf("got %v", err)
	}
}

func TestUnsetVariableMeansDefault(t *testing.T) {
	a := required()
	a.TTL.Standby = "{env.CODEHUB_TEST_NOT_SET}"
	a.Limits.MaxRunningPerUser = "{env.CODEHUB_TEST_NOT_SET}"
	r := resolveOrFail(t, a)
	if r.Live.TTL.Standby != 600*time.Second || r.Live.Limits.PerUser != 2 {
		t.Errorf("got %s and %d", r.Live.TTL.Standby, r.Live.Limits.PerUser)
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
	if r.Live.AdminPassword != "from-a-variable" || r.Options.Archive.SecretKey != "from-a-file" {
		t.Errorf("got %q and %q", r.Live.AdminPassword, r.Options.Archive.SecretKey)
	}
	stored, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(stored), "from-a-") {
		t.Errorf("the configuration holds a secret: %s", stored)
	}
}

// A file that a setting or its variable names is read whenever the setting is resolved, as each reload does.
func TestAFileIsReadAtEachReload(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	named := "{file." + file + "}"
	t.Setenv("CODEHUB_TEST_SECRET", named)
	for _, value := range []Value{Value(named), "{env.CODEHUB_TEST_SECRET}"} {
		a := required()
		a.S3.AccessKey, a.S3.SecretKey = "id", value
		for _, secret := range []string{"one", "{two}", "{file./nowhere}", "{env.CODEHUB_TEST_SECRET}"} {
			if err := os.WriteFile(file, []byte(secret+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := resolveOrFail(t, a).Options.Archive.SecretKey; got != secret {
				t.Errorf("%s: got %q, want %q", value, got, secret)
			}
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		_, err := a.Resolve(caddy.NewReplacer())
		if err == nil || !strings.Contains(err.Error(), `setting "s3 secret_key": open `+file) {
			t.Errorf("%s: without the file: %v", value, err)
		}
	}
}

func TestEverythingWrongIsReportedAtOnce(t *testing.T) {
	t.Setenv("CODEHUB_TEST_TTL", "soon")
	a := App{
		Redis:  "redis://:topsecret@host:port",
		TTL:    TTL{Standby: "{env.CODEHUB_TEST_TTL}"},
		Limits: Limits{MaxRunningGlobal: "-1"},
		S3:     S3{Region: "{evn.REGION}"},
	}
	_, err := a.Resolve(caddy.NewReplacer())
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
	if got := resolveOrFail(t, a).Live.Activity.FlushInterval; got != 2*time.Second {
		t.Errorf("got %s, want a quarter of the TTL", got)
	}
	a.ActivityFlushInterval = "10s"
	if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `setting "activity_flush_interval"`) {
		t.Errorf("got %v", err)
	}
}

// An error of the package that uses a value names the setting, even if the package has another name
// for it. Values that the package would take for "not set" are refused, too.
func TestOwnersRulesAreReportedAsTheSettings(t *testing.T) {
	for want, change := range map[string]func(*App){
		`setting "session_ttl": 30s is too short`:                         func(a *App) { a.SessionTTL = "30s" },
		`setting "session_ttl": 0 is out of range`:                        func(a *App) { a.SessionTTL = "0" },
		`setting "docker workspace_port": 0 is out of range`:              func(a *App) { a.Docker.WorkspacePort = "0" },
		`setting "docker workspace_port": 70000 must be from`:             func(a *App) { a.Docker.WorkspacePort = "70000" },
		`setting "docker job_network": "none" must be`:                    func(a *App) { a.Docker.JobNetwork = "none" },
		`setting "docker memory": 5 bytes must be`:                        func(a *App) { a.Docker.Memory = "5" },
		`setting "docker publish": "80-90" must be a range of ports from`: func(a *App) { a.Docker.Publish = "80-90" },
		`setting "docker publish": "all" must be none, loopback or a`:     func(a *App) { a.Docker.Publish = "all" },
		`setting "docker warm": -1 must be from 0 for none to 500`:        func(a *App) { a.Docker.Warm = "-1" },
		`setting "docker pids": must be 0`:                                func(a *App) { a.Docker.Pids = "-1" },
		`setting "docker disk": 5 bytes must be`:                          func(a *App) { a.Docker.Disk = "5" },
		`setting "docker home": 5 bytes must be`:                          func(a *App) { a.Docker.Home = "5" },
		`setting "egress enforce": "closed" must be`:                      func(a *App) { a.Egress.Enforce = "closed" },
		`setting "egress allow": "git.corp:443" is not a destination`:     func(a *App) { a.Egress.Allow = "10.0.0.0/8 git.corp:443" },
		`setting "egress deny": "10.1.0.0/8" has bits behind`:             func(a *App) { a.Egress.Deny = "10.1.0.0/8" },
		`setting "egress gateway": "x" is neither`:                        func(a *App) { a.Egress.Gateway = "x" },
		`setting "docker cpus": must be 0`:                                func(a *App) { a.Docker.CPUs = "-1" },
		`setting "coordinator lock_id": 0 is out of range`:                func(a *App) { a.Coordinator.LockID = "0" },
		`above 0 and at most 1, such as 0.5, not 1.5`:                     func(a *App) { a.Coordinator.MaxLossShare = "1.5" },
		`above 0 and at most 1, such as 0.5, not NaN`:                     func(a *App) { a.Coordinator.MaxLossShare = "NaN" },
		`setting "coordinator max_loss_share": "half" is not a fraction`:  func(a *App) { a.Coordinator.MaxLossShare = "half" },
		`setting "coordinator max_concurrent": must be at least 1, not 0`: func(a *App) { a.Coordinator.MaxConcurrent = "0" },
		`setting "coordinator max_concurrent": 5000000000 is out of`:      func(a *App) { a.Coordinator.MaxConcurrent = "5000000000" },
		`setting "coordinator shards": -1; give a number from 1 to 64`:    func(a *App) { a.Coordinator.Shards = "-1" },
		`setting "coordinator shards": 0 is out of range`:                 func(a *App) { a.Coordinator.Shards = "0" },
		`setting "coordinator max_loss_share": must be above 0 and at`:    func(a *App) { a.Coordinator.MaxLossShare = "0" },
		`setting "coordinator max_jobs": must be at least 1, not 0`:       func(a *App) { a.Coordinator.MaxJobs = "0" },
		`setting "limits max_held": must be at least 0, not -1`:           func(a *App) { a.Limits.MaxHeld = "-1" },
		`setting "s3 bucket": "a" is not a bucket's name`:                 func(a *App) { a.S3.Bucket = "a" },
		`s3 access_key and s3 secret_key: set both`:                       func(a *App) { a.S3.AccessKey = "id" },
		`setting "s3 job_endpoint": must hold neither credentials`:        func(a *App) { a.S3.JobEndpoint = "http://a:b@c" },
		`setting "s3 sse": "aes" is unknown: write s3, kms, or kms and`:   func(a *App) { a.S3.SSE = "aes" },
		`setting "s3 sse": s3 takes no key, because the store has its`:    func(a *App) { a.S3.SSE = "s3 key" },
		`setting "timeouts starting": 1ms is too short: the least is 10`:  func(a *App) { a.Timeouts.Starting = "1ms" },
		`setting "s3 sse": kms takes one key, not 2`:                      func(a *App) { a.S3.SSE = "kms one two" },
	} {
		a := required()
		change(&a)
		_, err := a.Resolve(caddy.NewReplacer())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	for want, change := range map[string]func(*App){
		`setting "kubernetes namespace": "A" must be`:             func(a *App) { a.Kubernetes.Namespace = "A" },
		`setting "kubernetes workspace_port": 0 is out of range`:  func(a *App) { a.Kubernetes.WorkspacePort = "0" },
		`setting "kubernetes workspace_image": "a b" is not`:      func(a *App) { a.Kubernetes.WorkspaceImage = "a b" },
		`setting "kubernetes user": 0 is out of range`:            func(a *App) { a.Kubernetes.User = "0" },
		`setting "kubernetes home": 0 is out of range`:            func(a *App) { a.Kubernetes.Home = "0" },
		`setting "kubernetes memory_request": 0 is out of range`:  func(a *App) { a.Kubernetes.MemoryRequest = "0" },
		`setting "kubernetes cpus_request": 9 are more than cpus`: func(a *App) { a.Kubernetes.CPUsRequest = "9" },
		`setting "kubernetes access_mode": "RWO" must be`:         func(a *App) { a.Kubernetes.AccessMode = "RWO" },
		`setting "kubernetes tolerations": "a:b" is not a taint`:  func(a *App) { a.Kubernetes.Tolerations = "a:b" },
		`setting "kubernetes pod_template": open /nowhere`:        func(a *App) { a.Kubernetes.PodTemplate = "/nowhere" },
		`setting "egress allow": "git.corp:443" is not a dest`:    func(a *App) { a.Egress.Allow = "git.corp:443" },
		`setting "backend": an installation has one backend`:      func(a *App) { a.Docker.Memory = "1GiB" },
		`setting "backend": "podman" is not known: write docker`:  func(a *App) { a.Backend = "podman" },
		`s3 job_endpoint: http://127.0.0.1:9 is the storage`:      func(a *App) { a.S3.Endpoint = "http://127.0.0.1:9" },
	} {
		a := required()
		a.Backend = "kubernetes"
		change(&a)
		_, err := a.Resolve(caddy.NewReplacer())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	a := required()
	a.S3.AccessKey, a.S3.SecretKey, a.Limits.MaxHeld, a.Docker.Memory, a.Docker.Publish = "id", "secret", "0", "0", "20000-29999"
	if d := resolveOrFail(t, a).Options.Docker; d.Publish != "loopback" || d.PublishPorts != "20000-29999" {
		t.Errorf("published %s at %s", d.Publish, d.PublishPorts)
	}
}

// An installation has the options of one backend, including the settings that all backends share.
func TestBackends(t *testing.T) {
	a := required()
	if o := resolveOrFail(t, a).Options; o.Kubernetes != nil || o.BackendName() != "docker" || o.Installation() != "codehub" {
		t.Errorf("without a backend: %s %s, %+v", o.BackendName(), o.Installation(), o.Kubernetes)
	}
	template := filepath.Join(t.TempDir(), "pod.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(template, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("metadata: {labels: {a: b}}")
	a.Backend, a.Installation, a.Egress.Deny, a.S3.JobEndpoint, a.Kubernetes.PodTemplate = "kubernetes", "other", "198.51.100.0/24", "http://store:9000", Value(template)
	o := resolveOrFail(t, a).Options
	if o.BackendName() != "kubernetes" || o.Installation() != "other" || o.Docker.Image != "" {
		t.Fatalf("%s %s with Docker's %+v", o.BackendName(), o.Installation(), o.Docker)
	}
	s := o.Cluster().Spec
	if s.Installation != "other" || s.Egress.Enforce != "auto" || s.Egress.Deny != "198.51.100.0/24" || s.Store != "http://store:9000" ||
		s.Image != defaultWorkspaceImage || s.Port != 8080 || s.MemoryBytes != 2<<30 || s.NanoCPUs != 2e9 || s.HomeBytes != 10<<30 ||
		s.PodTemplate != "metadata: {labels: {a: b}}" {
		t.Errorf("%+v", s)
	}
	if !reflect.DeepEqual(resolveOrFail(t, a).Options, o) {
		t.Error("the same settings are other options")
	}
	write("metadata: {labels: {a: c}}")
	if reflect.DeepEqual(resolveOrFail(t, a).Options, o) {
		t.Error("a reload does not see that the Pod template has changed")
	}
	write("metadata: {name: x}")
	if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `setting "kubernetes pod_template": `+template+": must not set or change metadata.name") {
		t.Errorf("a wrong template: %v", err)
	}
	b := required()
	b.Kubernetes.Memory = "1GiB"
	if _, err := b.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), "an installation has one backend") {
		t.Errorf("settings of a backend that is not used: %v", err)
	}
}

// A file of certificates is read whenever the settings are, so a reload picks up a new one.
func TestTheStoresCertificates(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	certificate := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")}))
	for name, c := range map[string]struct{ path, says string }{
		"missing":       {filepath.Join(dir, "missing.pem"), "missing.pem: no such file or directory: write the path"},
		"a folder":      {dir, "is a directory"},
		"empty":         {file("empty.pem", ""), "empty.pem: holds no certificate in PEM"},
		"something":     {file("some.pem", "hello"), "some.pem: holds no certificate in PEM"},
		"a private key": {file("key.pem", certificate+key), "key.pem: holds a block \"PRIVATE KEY\""},
		"a broken one":  {file("broken.pem", certificate+strings.Replace(certificate, "\nM", "\nA", 1)), "broken.pem: certificate 2 cannot be read"},
	} {
		a := required()
		a.S3.Endpoint, a.S3.CA = "https://s3.example.com", Value(c.path)
		_, err := a.Resolve(caddy.NewReplacer())
		if err == nil || !strings.Contains(err.Error(), `setting "s3 ca": `) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := file("good.pem", certificate)
	a := required()
	a.S3.Endpoint, a.S3.CA = "https://s3.example.com", Value(path)
	first := resolveOrFail(t, a)
	if first.Options.Archive.CA != certificate {
		t.Errorf("read %q", first.Options.Archive.CA)
	}
	file("good.pem", certificate+certificate)
	if second := resolveOrFail(t, a); second.Options.Archive.CA != certificate+certificate {
		t.Error("a reload with another file keeps the certificates of the old one")
	}
	a.S3.Endpoint = "http://s3.example.com"
	if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `setting "s3 ca": `+path+": the endpoint begins with http://") {
		t.Errorf("without TLS: %v", err)
	}
}
