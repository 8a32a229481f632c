package run

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for _, p := range pairs {
			if n, value, _ := strings.Cut(p, "="); n == name {
				return value
			}
		}
		return ""
	}
}

func TestSettingsThatWouldHaveNoEffectAreRefused(t *testing.T) {
	for _, c := range []struct {
		env  []string
		says string
	}{
		{[]string{"S3_ENDPOINT=http://s3:9000"}, "S3_ACCESS_KEY"},
		{[]string{"S3_ENDPOINT=http://s3:9000", "S3_ACCESS_KEY=a"}, "S3_SECRET_KEY"},
		{[]string{"S3_ENDPOINT=s3:9000", "S3_ACCESS_KEY=a", "S3_SECRET_KEY=b"}, "https://"},
		{[]string{"S3_SECRET_KEY=b"}, "S3_ENDPOINT"},
		{[]string{"S3_REGION=eu"}, "S3_ENDPOINT"},
		{[]string{"CODEHUB_HTTP_PORT=http"}, "CODEHUB_HTTP_PORT"},
		{[]string{"CODEHUB_HTTP_PORT=0"}, "65535"},
		{[]string{"DOCKER_HOST=tcp://build.example:2376"}, "build.example"},
	} {
		if _, err := readSettings(env(c.env...)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v; want an error about %s", c.env, err, c.says)
		}
	}
	for _, good := range [][]string{
		nil,
		{"CODEHUB_HTTP_PORT=9000"},
		{"S3_BUCKET=mine"},
		{"S3_ENDPOINT=http://s3:9000", "S3_ACCESS_KEY=a", "S3_SECRET_KEY=b", "S3_REGION=eu", "DOCKER_HOST=ssh://build.example"},
		{"DOCKER_HOST=unix:///run/docker.sock"},
		{"DOCKER_HOST=tcp://127.0.0.1:2375"},
	} {
		if _, err := readSettings(env(good...)); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestSettingsReportEverythingAtOnce(t *testing.T) {
	_, err := readSettings(env("CODEHUB_HTTP_PORT=x", "S3_ACCESS_KEY=a"))
	if err == nil || !strings.Contains(err.Error(), "CODEHUB_HTTP_PORT") ||
		!strings.Contains(err.Error(), "S3_ACCESS_KEY") {
		t.Errorf("got %v", err)
	}
}

// The password is generated once and is shown until an administrator exists. The run never changes an existing
// administrator's password unless the user has set one.
func TestPassword(t *testing.T) {
	dir := t.TempDir()
	choose := func(wanted string, exists bool) password {
		t.Helper()
		p, err := choosePassword(dir, wanted, exists)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := choose("", false)
	if len(first.told) < 16 || first.shown != first.told {
		t.Fatalf("first run: %+v", first)
	}
	if again := choose("", false); again != first {
		t.Errorf("a run that broke off: %+v, want %+v", again, first)
	}
	if later := choose("", true); later.told != "" || !strings.Contains(later.shown, passwordFile) {
		t.Errorf("second run: %+v", later)
	}
	info, err := os.Stat(filepath.Join(dir, passwordFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is not private: %v, %v", info.Mode(), err)
	}
	if own := choose("secret", true); own.told != "secret" || strings.Contains(own.shown, "secret") {
		t.Errorf("with CODEHUB_ADMIN_PASSWORD: %+v", own)
	}
	if after := choose("", true); after.told != "" || strings.Contains(after.shown, passwordFile) {
		t.Errorf("after that, the generated password is still shown as true: %+v", after)
	}
}

func TestAdminExists(t *testing.T) {
	dsn := devenv.PostgreSQL(t)
	check := func(want bool) {
		t.Helper()
		got, err := adminExists(t.Context(), dsn)
		if err != nil || got != want {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	check(false) // an empty database
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	for _, sql := range []string{"CREATE TABLE users (username text, password_hash text)",
		"INSERT INTO users VALUES ('Bob', 'x'), ('admin', NULL)"} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	check(false)
	if _, err := conn.Exec(t.Context(), "UPDATE users SET password_hash = 'x'"); err != nil {
		t.Fatal(err)
	}
	check(true)
}

func TestStateIsStable(t *testing.T) {
	dir := t.TempDir()
	first, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	if first != second || first.Installation == "" || first.S3SecretKey == "" {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if err := os.WriteFile(filepath.Join(dir, "state.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := loadState(dir); err == nil {
		t.Errorf("a broken state is replaced by a new one, which would lose the data: %+v", s)
	}
}

// An engine with a network of its own is refused, because its containers could not be reached.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		info system.Info
		ok   bool
	}{
		{system.Info{OperatingSystem: "Debian"}, true},
		{system.Info{OperatingSystem: "Docker Desktop"}, false},
		{system.Info{SecurityOptions: []string{"name=rootless"}}, false},
	} {
		if err := checkReach(c.info); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.info, err)
		}
	}
}

func TestEnvironment(t *testing.T) {
	r := &runner{
		dir: "/repo/.codehub", settings: settings{port: 8080}, state: state{Installation: "run-1"},
		databaseURL: "postgres:///x", s3: s3Settings{endpoint: "http://127.0.0.1:1"}, s3Port: 1,
	}
	effective := func(present ...string) map[string]string {
		env := map[string]string{}
		for _, pair := range with(present, r.decided(present, "unix//s")) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value // the last one counts
		}
		return env
	}
	check := func(env map[string]string, want ...string) {
		t.Helper()
		for _, pair := range want {
			if name, value, _ := strings.Cut(pair, "="); env[name] != value {
				t.Errorf("%s is %q, want %q", name, env[name], value)
			}
		}
	}
	check(effective("PATH=/bin", "TTL_STANDBY_SECONDS=5", "DATABASE_URL=", "CODEHUB_ADMIN_PASSWORD="),
		"PATH=/bin", "TTL_STANDBY_SECONDS=5", "DATABASE_URL=postgres:///x", "CODEHUB_INSTALLATION=run-1",
		"CODEHUB_ADMIN_PASSWORD=",
		"CODEHUB_JOB_NETWORK=host", "CODEHUB_ADMIN_ADDRESS=unix//s", "GODEBUG=http2xconnect=1",
		"CODEHUB_HTTP_PORT=8080")
	check(effective("CODEHUB_ADMIN_ADDRESS=:2019", "CODEHUB_JOB_NETWORK=mine"), "CODEHUB_ADMIN_ADDRESS=:2019",
		"CODEHUB_JOB_NETWORK=mine")
	check(effective("CODEHUB_JOB_S3_ENDPOINT=http://host:1"), "CODEHUB_JOB_NETWORK=")
	r.s3Port = 0 // another store
	check(effective(), "CODEHUB_JOB_NETWORK=")
}

// TestTheEnvironmentForCommands: a shell reads the file, with any characters in a value, and gets the variables that
// commands need.
func TestTheEnvironmentForCommands(t *testing.T) {
	r := &runner{
		dir: "/repo/.codehub", settings: settings{port: 8080}, databaseURL: "postgres:///x?host=%2Fa'b&user=c $HOME",
		s3: s3Settings{secretKey: "`id`\\"}, password: password{told: "for the start"},
	}
	path := filepath.Join(t.TempDir(), environmentFile)
	if err := writeFile(path, forShell(r.decided(nil, "unix//s"))); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("others may read it: %v, %v", info, err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-euc", `. "$1"; /usr/bin/env -0`, "sh", path)
	cmd.Env = []string{"XDG_CONFIG_HOME=/own"}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(string(out), "\x00")
	for _, want := range []string{"DATABASE_URL=" + r.databaseURL, "S3_SECRET_KEY=" + r.s3.secretKey, "CODEHUB_ADMIN_ADDRESS=unix//s", "XDG_CONFIG_HOME=/own"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	if strings.Contains(string(out), "for the start") {
		t.Error("the administrator's password is for the start alone")
	}
}

// withoutSettings hides from [Run] the variables for `make run` in the environment of the tests.
func withoutSettings(t *testing.T) {
	t.Helper()
	if _, err := readSettings(func(name string) string { t.Setenv(name, ""); return "" }); err != nil {
		t.Fatal(err)
	}
}

func TestRunRefusesASecondOne(t *testing.T) {
	withoutSettings(t)
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, dataDir), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := server.TryLock(filepath.Join(root, dataDir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	var out strings.Builder
	if err := Run(t.Context(), root, &out); err == nil || !strings.Contains(err.Error(), "another `make run`") {
		t.Errorf("got %v", err)
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := portFree(l.Addr().(*net.TCPAddr).Port); err == nil ||
		!strings.Contains(err.Error(), "CODEHUB_HTTP_PORT=") {
		t.Errorf("got %v", err)
	}
	l.Close()
}

func TestStepShowsItsTime(t *testing.T) {
	var out strings.Builder
	r := newRunner("", "", settings{}, state{}, &out)
	if err := r.step("Redis", func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "Redis") || !strings.HasSuffix(got, " s\n") {
		t.Errorf("printed %q", got)
	}
	failure := errors.New("no")
	if err := r.step("Redis", func() error { return failure }); !errors.Is(err, failure) ||
		!strings.Contains(err.Error(), "Redis") {
		t.Errorf("got %v", err)
	}
}

// Ending a run removes its own containers, keeps their volumes, and touches nothing
// of another installation.
func TestRemoveContainersKeepsVolumesAndOthers(t *testing.T) {
	ref, host := devenv.TerminalImage(t), devenv.Docker(t)
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	own, other := "test-"+t.Name(), "test-other-"+t.Name()
	ids := map[string]string{}
	for _, installation := range []string{own, other} {
		labels := map[string]string{spec.LabelInstallation: installation}
		v, err := api.VolumeCreate(t.Context(), volume.CreateOptions{Labels: labels})
		if err != nil {
			t.Fatal(err)
		}
		c, err := api.ContainerCreate(t.Context(), &container.Config{Image: ref, Labels: labels},
			&container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: v.Name,
				Target: "/home/coder"}}}, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		ids[installation] = c.ID
		if _, err := api.NetworkCreate(t.Context(), installation, network.CreateOptions{Labels: labels}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = api.NetworkRemove(context.Background(), installation)
			_ = api.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true})
			if err := api.VolumeRemove(context.Background(), v.Name, true); err != nil {
				t.Error(err)
			}
		})
	}
	if err := removeContainers(t.Context(), host, own); err != nil {
		t.Fatal(err)
	}
	for installation, want := range map[string]bool{own: false, other: true} {
		_, err := api.ContainerInspect(t.Context(), ids[installation])
		if (err == nil) != want {
			t.Errorf("the container of %s: %v; want there: %v", installation, err, want)
		}
		_, err = api.NetworkInspect(t.Context(), installation, network.InspectOptions{})
		if (err == nil) != want {
			t.Errorf("the network of %s: %v; want there: %v", installation, err, want)
		}
		volumes, err := api.VolumeList(t.Context(),
			volume.ListOptions{Filters: filters.NewArgs(filters.Arg("label", spec.LabelInstallation+"="+installation))})
		if err != nil || len(volumes.Volumes) != 1 {
			t.Errorf("%s has %d volumes, %v; want 1", installation, len(volumes.Volumes), err)
		}
	}
}
