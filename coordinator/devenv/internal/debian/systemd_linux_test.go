//go:build systemd

package debian

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quic-go/quic-go/http3"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/internal/revision"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// machine is a container with systemd as its first process. It sees this machine's files and network; changes to the
// files are thrown away.
type machine struct {
	t      *testing.T
	root   string
	leader string // the process id of its systemd
}

// boot starts a machine.
func boot(t *testing.T) machine {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("systemd in a container needs root")
	}
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.Mkdir(path(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	layers := "lowerdir=/,upperdir=" + path("upper") + ",workdir=" + path("work")
	if err := unix.Mount("overlay", path("root"), "overlay", 0, layers); err != nil {
		t.Fatalf("laying a folder over this machine's files: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path("root"), unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	m := machine{t: t, root: path("root")}
	// None of this machine's services starts.
	const target = "[Unit]\nRequires=basic.target dbus.socket\nAfter=basic.target\nAllowIsolate=yes\n"
	m.write("/etc/systemd/system/trial.target", target)
	for _, unit := range []string{"docker.service", "docker.socket", "caddy.service"} {
		if err := os.Symlink("/dev/null", filepath.Join(m.root, "etc/systemd/system", unit)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := server.Start(server.Program{
		Name: "systemd", Dir: dir, Root: true, Contain: true, Stop: unix.SIGKILL, Log: path("log"),
		Argv: []string{"systemd-nspawn", "--quiet", "--directory=" + m.root, "--boot", "--register=no", "--keep-unit",
			"--console=pipe", "--link-journal=no", "--machine=codehub-trial", "systemd.unit=trial.target"},
		Env: os.Environ(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = m.try("systemctl", "poweroff") // its answer may be lost
		wait.Until(t, "the machine is off", p.Exited)
	})
	wait.For(t, "systemd is up", func() error {
		// The machine's first process is the only child of the only systemd-nspawn with that folder.
		out, err := exec.Command("pgrep", "-f", "^systemd-nspawn .*"+regexp.QuoteMeta(m.root)).Output()
		if err != nil {
			return err
		}
		out, err = exec.Command("pgrep", "-P", strings.Fields(string(out))[0]).Output()
		if err != nil {
			return err
		}
		m.leader = strings.Fields(string(out))[0]
		state, err := m.try("systemctl", "is-system-running")
		if state == "running" || state == "degraded" {
			return nil
		}
		return errors.Join(err, errors.New(state))
	})
	return m
}

// try runs a command in the machine.
func (m machine) try(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nsenter", append([]string{"-t", m.leader, "-a"}, argv...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is try, which must succeed.
func (m machine) run(argv ...string) string {
	m.t.Helper()
	out, err := m.try(argv...)
	if err != nil {
		journal, _ := m.try("journalctl", "--no-pager", "-n", "40", "-u", "codehub.service")
		m.t.Fatalf("%s: %v\n%s\n%s", strings.Join(argv, " "), err, out, journal)
	}
	return out
}

// write writes a file in the machine.
func (m machine) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(filepath.Join(m.root, path), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(m.root, path))
	return err == nil
}

// request makes a request on a new connection, and returns the protocol.
func request(transport http.RoundTripper, url string) (protocol string, err error) {
	client := http.Client{
		Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK && answer.StatusCode != http.StatusPermanentRedirect {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	return answer.Proto, err
}

// anyCertificate trusts the machine's own authority, because this test is about sockets.
var anyCertificate = &tls.Config{InsecureSkipVerify: true} //nolint:gosec

func overTCP() *http.Transport {
	return &http.Transport{TLSClientConfig: anyCertificate.Clone(), ForceAttemptHTTP2: true, DisableKeepAlives: true}
}

// during makes requests one after the other, each on a new connection, until action has ended. It returns the number
// of requests, the number of failures, and the longest duration.
func during(url string, action func()) (count int, failed []error, longest time.Duration) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for {
			start := time.Now()
			if _, err := request(overTCP(), url); err != nil {
				failed = append(failed, err)
			}
			count, longest = count+1, max(longest, time.Since(start))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	action()
	close(stop)
	all.Wait()
	return count, failed, longest
}

// TestUnderSystemd installs the package in a machine with systemd and runs it there with real servers. It restarts,
// reloads, kills and updates the gateway while requests arrive. At the end it purges the package.
func TestUnderSystemd(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	deb, err := Build(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := boot(t)
	text, err := os.ReadFile(deb)
	if err != nil {
		t.Fatal(err)
	}
	m.write("/root/codehub.deb", string(text))
	if said := m.run("dpkg", "-i", "/root/codehub.deb"); !strings.Contains(said, "Write the settings into") {
		t.Errorf("the installation does not say how to go on:\n%s", said)
	}
	const environment, secrets = "/etc/codehub/codehub.env", "/etc/codehub/secrets/"
	if info, err := os.Stat(filepath.Join(m.root, environment)); err != nil || info.Mode() != 0o600 {
		t.Errorf("the file for addresses: %v, %v", info, err)
	}
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o750, "DATABASE_URL": 0o640, "CODEHUB_ADMIN_PASSWORD": 0o640} {
		if info, err := os.Stat(filepath.Join(m.root, secrets+name)); err != nil || info.Mode() != mode {
			t.Errorf("%s%s: %v, %v", secrets, name, info, err)
		}
	}
	if said, _ := m.try("systemctl", "is-active", "codehub.service", "codehub.socket"); strings.Contains(said, "\nactive") {
		t.Errorf("something starts without settings: %s", said)
	}
	if said := m.run("systemd-analyze", "verify", "codehub.socket", "codehub.service"); said != "" {
		t.Errorf("systemd-analyze verify: %s", said)
	}
	if said := m.run("caddy", "codehub", "version"); !strings.HasSuffix(said, revision.Of(t.Context(), root)) {
		t.Errorf("the program is %s", said)
	}

	database, redis := devenv.ForPods(t, devenv.PostgreSQL(t), devenv.Redis(t))
	dsn, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	late := faulty.Listen(t, "tcp", server.Loopback+":0", "unix://"+t.TempDir()+"/absent")
	ready := "tcp://" + dsn.Host
	dsn.Host = late.Address()
	store := devenv.S3(t)
	for name, secret := range map[string]string{
		"DATABASE_URL": dsn.String(), "REDIS_URL": redis, "CODEHUB_ADMIN_PASSWORD": "correct horse battery",
		"S3_ACCESS_KEY": store.AccessKey, "S3_SECRET_KEY": store.SecretKey,
	} {
		m.write(secrets+name, secret+"\n")
	}
	made, err := os.ReadFile(filepath.Join(m.root, environment))
	if err != nil {
		t.Fatal(err)
	}
	m.write(environment, string(made)+strings.Join([]string{
		"S3_ENDPOINT=" + store.Endpoint, "S3_BUCKET=" + store.Bucket, "S3_REGION=" + store.Region,
	}, "\n"))
	m.run("systemctl", "enable", "codehub.socket", "codehub.service")
	m.run("systemctl", "start", "--no-block", "codehub.socket", "codehub.service")
	wait.Until(t, "the service waits for its database", func() bool {
		said, _ := m.try("journalctl", "--no-pager", "-u", "codehub.service")
		return strings.Contains(said, "waits with its start until PostgreSQL can be reached")
	})
	if said, _ := m.try("systemctl", "show", "--property=NRestarts,ActiveState,StartLimitIntervalUSec", "codehub.service"); !strings.Contains(said, "NRestarts=0") ||
		!strings.Contains(said, "ActiveState=activating") || !strings.Contains(said, "StartLimitIntervalUSec=0") {
		t.Errorf("without its database the service is %s", said)
	}
	late.Lead(ready)
	wait.For(t, "the service is ready", func() error {
		_, err := request(overTCP(), "https://localhost/health/ready")
		return err
	})

	t.Run("a command with the service's environment", func(t *testing.T) {
		said := m.run("systemd-run", "--pipe", "--wait", "--quiet", "--property=EnvironmentFile="+environment,
			"caddy", "codehub", "user", "list")
		if !strings.Contains(said, "admin") {
			t.Errorf("the users are %s", said)
		}
	})

	t.Run("protocols", func(t *testing.T) {
		h3 := &http3.Transport{TLSClientConfig: anyCertificate.Clone()}
		defer h3.Close()
		for _, c := range []struct {
			transport http.RoundTripper
			url, want string
		}{
			{overTCP(), "http://localhost/health", "HTTP/1.1"},
			{&http.Transport{TLSClientConfig: anyCertificate.Clone(), DisableKeepAlives: true}, "https://localhost/health", "HTTP/1.1"},
			{overTCP(), "https://localhost/health", "HTTP/2.0"},
			{h3, "https://localhost/health", "HTTP/3.0"},
		} {
			if protocol, err := request(c.transport, c.url); err != nil || protocol != c.want {
				t.Errorf("%s answers in %q, %v; want %s", c.url, protocol, err, c.want)
			}
		}
	})

	t.Run("https alone", func(t *testing.T) {
		answer, err := (&http.Client{Transport: overTCP()}).Get("https://localhost/login")
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := answer.Header.Values("Strict-Transport-Security"); len(got) != 1 || got[0] != "max-age=31536000" {
			t.Errorf("Strict-Transport-Security is %q", got)
		}
	})

	t.Run("hardened", func(t *testing.T) {
		said := m.run("systemd-analyze", "security", "--no-pager", "codehub.service")
		found := regexp.MustCompile(`exposure level for codehub.service: ([0-9.]+)`).FindStringSubmatch(said)
		if found == nil || found[1] > "2.0" {
			t.Fatalf("systemd-analyze security: %s", said)
		}
		fmt.Printf("figure systemd_exposure %s points\n", found[1])
		user := m.run("ps", "-o", "user=", "-C", "caddy")
		if user != "codehub" {
			t.Errorf("it runs as %q", user)
		}
	})

	pid := func() string { return m.run("systemctl", "show", "-P", "MainPID", "codehub.service") }
	for _, c := range []struct {
		name   string
		others bool // another process serves afterwards
		argv   []string
	}{
		{"restart", true, []string{"systemctl", "restart", "codehub.service"}},
		{"reload", false, []string{"systemctl", "reload", "codehub.service"}},
		{"update", true, []string{"dpkg", "-i", "/root/codehub.deb"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := pid()
			if c.name == "update" { // of a package that had the secrets in its environment
				m.run("rm", secrets+"S3_ACCESS_KEY")
				m.write(environment, string(made)+strings.Join([]string{"S3_ENDPOINT=" + store.Endpoint, "S3_BUCKET=" + store.Bucket,
					"S3_REGION=" + store.Region, `S3_ACCESS_KEY="` + store.AccessKey + `"`}, "\n")+"\n")
			}
			count, failed, longest := during("https://localhost/health", func() { m.run(c.argv...) })
			if count < 2 || len(failed) > 0 {
				t.Errorf("%d of %d requests failed: %v", len(failed), count, errors.Join(failed...))
			}
			fmt.Printf("figure systemd_%s_requests %d requests\nfigure systemd_%s_longest %d ms\n", c.name, count,
				c.name, longest.Milliseconds())
			if after := pid(); (after != before) != c.others {
				t.Errorf("process %s serves, before it was %s", after, before)
			}
		})
	}

	if taken, err := os.ReadFile(filepath.Join(m.root, secrets+"S3_ACCESS_KEY")); err != nil || string(taken) != store.AccessKey+"\n" {
		t.Errorf("an update takes %q from the environment, %v", taken, err)
	}

	t.Run("a secret changes with a reload", func(t *testing.T) {
		before := pid()
		m.write(secrets+"CODEHUB_ADMIN_PASSWORD", "another password\n")
		m.run("systemctl", "reload", "codehub.service")
		signIn := func(password string) int {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost/api/v1/auth/login",
				strings.NewReader(`{"username": "admin", "password": "`+password+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Origin", "https://localhost")
			answer, err := overTCP().RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
			return answer.StatusCode
		}
		if was, is := signIn("correct horse battery"), signIn("another password"); was != http.StatusUnauthorized || is >= 300 || pid() != before {
			t.Errorf("the former password: %d, the new one: %d, process %s instead of %s", was, is, pid(), before)
		}
	})

	t.Run("a wrong configuration is refused", func(t *testing.T) {
		before := pid()
		good, err := os.ReadFile(filepath.Join(m.root, "etc/codehub/Caddyfile"))
		if err != nil {
			t.Fatal(err)
		}
		m.write("/etc/codehub/Caddyfile", strings.Replace(string(good), "standby 3h", "standby never", 1))
		if said, err := m.try("systemctl", "reload", "codehub.service"); err == nil {
			t.Errorf("it is taken: %s", said)
		}
		m.write("/etc/codehub/Caddyfile", string(good))
		if _, err := request(overTCP(), "https://localhost/health"); err != nil || pid() != before {
			t.Errorf("afterwards: %v, process %s instead of %s", err, pid(), before)
		}
	})

	t.Run("killed", func(t *testing.T) {
		before := pid()
		m.run("kill", "-KILL", before)
		// New connections wait until the next process is up.
		if _, err := request(overTCP(), "https://localhost/health"); err != nil && !errors.Is(err, io.EOF) &&
			!errors.Is(err, unix.ECONNRESET) {
			t.Error(err)
		}
		wait.Until(t, "another process serves", func() bool { return pid() != before && pid() != "0" })
	})

	t.Run("purge", func(t *testing.T) {
		m.run("dpkg", "--purge", Name)
		for _, path := range []string{"/etc/codehub", "/var/lib/codehub", "/usr/bin/caddy",
			"/etc/systemd/system/multi-user.target.wants/codehub.service",
			"/etc/systemd/system/sockets.target.wants/codehub.socket"} {
			if m.exists(path) {
				t.Errorf("%s is left", path)
			}
		}
		if said, err := m.try("id", "codehub"); err == nil {
			t.Errorf("the user is left: %s", said)
		}
		if _, err := request(overTCP(), "https://localhost/health"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("something still listens: %v", err)
		}
	})
}
