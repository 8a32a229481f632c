package e2e

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
)

// finding is a line of `doctor --json`.
type finding struct{ Check, Level, Text, Remedy string }

// examine runs doctor on an installation with other settings.
func (in *installation) examine(t *testing.T, settings ...string) (found []finding, code int) {
	t.Helper()
	cmd := exec.Command(caddyProgram(t), "codehub", "doctor", "--json", "--config", in.config, "--adapter", "caddyfile")
	cmd.Env = slices.Concat(in.env, settings)
	out, _ := cmd.Output() // the exit code says whether there is a problem
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return found, cmd.ProcessState.ExitCode()
}

// want fails the test unless the doctor has reported a finding with this check, level, text and remedy.
func want(t *testing.T, found []finding, check, level, says, remedy string) {
	t.Helper()
	for _, f := range found {
		if f.Check == check && f.Level == level && strings.Contains(f.Text, says) && strings.Contains(f.Remedy, remedy) {
			return
		}
	}
	t.Errorf("no %s of %s that says %q and %q in %+v", level, check, says, remedy, found)
}

// withoutEngine are settings with which the doctor skips the engine, whose checks take long, and checks only the
// address.
const withoutEngine = "DOCKER_HOST=unix:///nowhere.sock"

// TestABrokenAddress: a proxy in front of the gateway has one fault at a time, and the doctor names it.
func TestABrokenAddress(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	in := prepareWithoutEngine(t, home)
	text, err := os.ReadFile(in.config)
	if err != nil {
		t.Fatal(err)
	}
	trusting := strings.Replace(string(text), "# trusted_proxies static 10.0.0.5", "trusted_proxies static 127.0.0.1/32", 1)
	in.config = filepath.Join(home, "Caddyfile")
	if err := os.WriteFile(in.config, []byte(trusting), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.stop(t) })
	in.start(t)
	wait.For(t, "the gateway answers its doctor", func() error {
		found, _ := in.examine(t, withoutEngine, "CODEHUB_PUBLIC_URL="+in.url(""))
		if !slices.ContainsFunc(found, func(f finding) bool { return f.Check == "address" && strings.Contains(f.Text, "leads here") }) {
			return fmt.Errorf("%+v", found)
		}
		return nil
	})
	other := httptest.NewServer(nil)
	t.Cleanup(other.Close)
	certificate := selfSigned(t, filepath.Join(home, "trusted.pem"))
	trusted := "SSL_CERT_FILE=" + filepath.Join(home, "trusted.pem")
	proxy := func(scheme string, fault faulty.Fault, with *tls.Certificate) []string {
		return []string{"CODEHUB_PUBLIC_URL=" + scheme + "://" + faulty.Proxy(t, in.url(""), fault, with), "CODEHUB_WORKSPACE_URL=path"}
	}
	for name, row := range map[string]struct {
		settings                   []string
		level, says, remedy, never string
	}{
		"nothing":                      {[]string{"CODEHUB_PUBLIC_URL=" + in.url("")}, "ok", "leads here", "", "problem"},
		"nothing, at workspaces":       {[]string{"CODEHUB_PUBLIC_URL=" + in.url("")}, "ok", "the addresses of workspaces", "", "problem"},
		"nothing, through a proxy":     {proxy("http", faulty.Healthy, nil), "ok", "leads here", "", "warning"},
		"nothing, through TLS":         {append(proxy("https", faulty.Healthy, certificate), trusted), "ok", "leads here", "", "warning"},
		"nothing listens":              {[]string{"CODEHUB_PUBLIC_URL=http://127.0.0.1:1"}, "warning", "does not answer", "start Caddy", ""},
		"no such name":                 {[]string{"CODEHUB_PUBLIC_URL=http://nowhere.invalid"}, "warning", "does not answer", "DNS", ""},
		"another program":              {[]string{"CODEHUB_PUBLIC_URL=" + other.URL}, "problem", "something else", "public_url", ""},
		"a wrong scheme":               {append(proxy("http", faulty.Healthy, certificate), trusted), "problem", "something else", "public_url", ""},
		"http where browsers use TLS":  {[]string{"CODEHUB_PUBLIC_URL=" + strings.Replace(in.url(""), "http:", "https:", 1)}, "warning", "does not answer", "", ""},
		"a certificate of nobody":      {proxy("https", faulty.Healthy, certificate), "problem", "browsers refuse the certificate", "certificate that browsers trust", ""},
		"a redirect":                   {proxy("http", faulty.Redirects, nil), "problem", "leads on to http://elsewhere.example", "write that address", ""},
		"Upgrade is dropped":           {proxy("http", faulty.DropsUpgrade, nil), "problem", "WebSockets do not get through", "Upgrade", ""},
		"streams are kept back":        {proxy("http", faulty.KeepsBack, nil), "problem", "event streams", "proxy_buffering off", ""},
		"another host arrives":         {proxy("http", faulty.ChangesHost, nil), "problem", "arrive as requests to", "proxy_set_header Host", ""},
		"cookies are changed":          {proxy("http", faulty.ChangesCookies, nil), "problem", "cookies arrive changed", "proxy_cookie", ""},
		"headers are too large":        {proxy("http", faulty.SmallHeaders, nil), "warning", "32 kB of cookies are refused with 400", "large_client_header_buffers", ""},
		"the proxy is not trusted":     {proxy("http", faulty.Stranger, nil), "problem", "not trusted", "trusted_proxies", ""},
		"the proxy tells of no client": {append(proxy("https", faulty.SaysNothing, certificate), trusted), "problem", "does not say for whom", "X-Forwarded-For", ""},
		"workspaces lead elsewhere": {[]string{"CODEHUB_PUBLIC_URL=" + in.url(""), "CODEHUB_DOMAIN=elsewhere.localhost"},
			"problem", "the address of a workspace", "every name below domain", ""},
	} {
		t.Run(name, func(t *testing.T) {
			found, code := in.examine(t, append([]string{withoutEngine}, row.settings...)...)
			want(t, found, "address", row.level, row.says, row.remedy)
			for _, f := range found {
				if f.Check == "address" && f.Level == row.never {
					t.Errorf("%+v", f)
				}
			}
			if code != 1 { // there is no engine
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// selfSigned returns a certificate for a test server. It also writes the certificate to a file, for clients that should
// trust it.
func selfSigned(t *testing.T, file string) *tls.Certificate {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return &s.TLS.Certificates[0]
}

// TestABrokenEngine: the engine or its images have one fault at a time, and the doctor names it.
func TestABrokenEngine(t *testing.T) {
	if devenv.OnKubernetes() {
		t.Skip("no engine is asked there")
	}
	t.Parallel()
	in := prepare(t)
	t.Cleanup(func() { in.uninstall(t) })

	// The installation is new and correct, and has not been started yet.
	found, code := in.examine(t)
	for _, f := range found {
		if f.Level == "problem" {
			t.Errorf("on a new installation: %+v", f)
		}
	}
	if code != 0 {
		t.Errorf("on a new installation the exit code is %d", code)
	}
	left, err := in.docker.Client.NetworkList(t.Context(), network.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", spec.LabelInstallation+"="+in.id)),
	})
	if err != nil || len(left) > 0 {
		t.Errorf("doctor has left networks behind: %v, %v", left, err)
	}

	in.start(t)
	user := in.admin(t)
	user.awaitPhase(t, user.create(t, "examined").ID, "RUNNING")
	for name, row := range map[string]struct {
		settings                   []string
		check, level, says, remedy string
	}{
		"no socket":                    {[]string{withoutEngine}, "engine", "problem", "nowhere.sock", "usermod -aG docker"},
		"no job image":                 {[]string{"CODEHUB_JOB_IMAGE=nowhere/job:1"}, "images", "warning", "nowhere/job:1", "docker pull"},
		"another program as job image": {[]string{"CODEHUB_JOB_IMAGE=" + devenv.TerminalImage(t)}, "images", "problem", "nothing is archived or restored", ""},
		"a misspelt image":             {[]string{"CODEHUB_WORKSPACE_IMAGE=nowhere/editor:1"}, "images", "warning", "nowhere/editor:1", "docker pull"},
		"open egress":                  {[]string{"CODEHUB_EGRESS=open"}, "egress", "warning", "may reach private networks", "egress enforce"},
		"more workspaces than addresses": {[]string{"LIMITS_MAX_RUNNING_GLOBAL=100000"}, "network", "problem", "may run",
			"limits max_running_global"},
		"a full disk": {[]string{"CODEHUB_DISK_ARCHIVE_AT=1%", "CODEHUB_DISK_STOP_AT=2%"}, "space", "problem", "wait", "free space"},
	} {
		t.Run(name, func(t *testing.T) {
			found, _ := in.examine(t, row.settings...)
			want(t, found, row.check, row.level, row.says, row.remedy)
		})
	}
	in.sql(t, "UPDATE system_identity SET identity = 'another engine' WHERE resource = 'backend'")
	found, _ = in.examine(t)
	want(t, found, "identity", "problem", "another engine", "accept")
}

// TestTheStartTellsWhatUsersNotice: within seconds, the log of a start names a problem that users would notice, and the
// remedy.
func TestTheStartTellsWhatUsersNotice(t *testing.T) {
	if devenv.OnKubernetes() {
		t.Skip("a cluster pulls images when it needs them")
	}
	t.Parallel()
	in := prepare(t, "CODEHUB_JOB_IMAGE=nowhere/job:1", "CODEHUB_WORKSPACE_IMAGE=nowhere/editor:1",
		fmt.Sprintf("CODEHUB_PUBLIC_URL=http://%s", faulty.Proxy(t, "http://127.0.0.1:1", faulty.Healthy, nil)))
	t.Cleanup(func() { in.uninstall(t) })
	in.start(t)
	for _, part := range []string{
		`"check":"redis"`, "appendonly yes", `"check":"images"`, "nowhere/job:1", "nowhere/editor:1", `"check":"address"`, "something else than this installation",
	} {
		wait.Until(t, "the log has "+part, func() bool { return strings.Contains(in.log.String(), part) })
	}
}
