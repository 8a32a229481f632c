package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// installation is one deployment of the product on its own servers. A test can kill the caddy program, and start it
// again on the same servers.
type installation struct {
	id          string
	port        int
	domain      string
	config      string // the Caddyfile
	adminSocket string // of Caddy's administration endpoint
	env         []string
	engine      inspect.Engine
	docker      *inspect.Docker     // the same, nil on Kubernetes
	cluster     *inspect.Kubernetes // the same, nil on Docker
	s3          *s3.Client
	bucket      string
	password    string // of the user admin
	cmd         *exec.Cmd
	exited      chan struct{}
	log         *logBuffer
}

// install starts the servers and the program. The settings give the program short intervals. Settings are environment
// variables that Caddyfile.example reads, such as "NAME=value".
func install(t testing.TB, settings ...string) *installation {
	t.Helper()
	in := prepare(t, settings...)
	t.Cleanup(func() { in.uninstall(t) }) // runs before the servers stop
	in.start(t)
	return in
}

// prepare starts the servers as install does, but does not start the program.
func prepare(t testing.TB, settings ...string) *installation {
	t.Helper()
	home := t.TempDir()
	in := prepareWithoutEngine(t, home, settings...)
	in.env = append(in.env, "CODEHUB_WORKSPACE_IMAGE="+devenv.TerminalImage(t), "CODEHUB_JOB_IMAGE="+devenv.StorageJobImage(t))
	in.env = append(in.env, in.onBackend(t, home)...)
	in.env = append(in.env, settings...)
	return in
}

// prepareWithoutEngine is prepare for tests in which no workspace runs. It sets up no engine.
func prepareWithoutEngine(t testing.TB, home string, settings ...string) *installation {
	t.Helper()
	store := devenv.S3(t)
	in := &installation{
		id: devenv.Installation("e2e"), port: freePort(t), domain: "localhost",
		config: "../../Caddyfile.example", adminSocket: filepath.Join(home, "admin.sock"),
		s3: store.Client(t), bucket: store.Bucket,
		password: uuid.NewString(), log: &logBuffer{},
	}
	for _, s := range settings {
		if domain, ok := strings.CutPrefix(s, "CODEHUB_DOMAIN="); ok {
			in.domain = domain
		}
	}
	in.env = append(os.Environ(),
		"HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "GODEBUG=http2xconnect=1",
		"DATABASE_URL="+devenv.PostgreSQL(t), "REDIS_URL="+devenv.Redis(t),
		"S3_ENDPOINT="+store.Endpoint, "S3_REGION="+store.Region, "S3_BUCKET="+store.Bucket,
		"S3_ACCESS_KEY="+store.AccessKey, "S3_SECRET_KEY="+store.SecretKey, "S3_PATH_STYLE=true",
		"CODEHUB_INSTALLATION="+in.id,
		"CODEHUB_WORKSPACE_IMAGE=none", "DOCKER_HOST=unix:///nowhere.sock",
		fmt.Sprintf("CODEHUB_HTTP_PORT=%d", in.port), "CODEHUB_ADMIN_PASSWORD="+in.password,
		"CODEHUB_ADMIN_ADDRESS=unix/"+in.adminSocket,
		"COORDINATOR_IDLE_INTERVAL=2s", "COORDINATOR_RETRY_INTERVAL=1s", "COORDINATOR_TTL_INTERVAL=1s",
		"ACTIVITY_FLUSH_INTERVAL=1s", "TTL_STANDBY_SECONDS=3600", "TTL_ARCHIVE_SECONDS=3600")
	in.env = append(in.env, settings...)
	return in
}

// onBackend chooses the container backend: the cluster of a run on Kubernetes, or Docker. It returns the settings for
// that backend.
func (in *installation) onBackend(t testing.TB, home string) []string {
	t.Helper()
	if !devenv.OnKubernetes() {
		host := devenv.Docker(t)
		in.docker = devenv.Inspect(t, host, in.id)
		in.engine = in.docker
		return []string{"DOCKER_HOST=" + host}
	}
	c := devenv.Kubernetes(t)
	in.cluster = c.Inspect(t, in.id)
	in.engine = in.cluster
	in.config = withKubernetes(t, in.config, filepath.Join(home, "Caddyfile"))
	return []string{"KUBECONFIG=" + c.Kubeconfig, "CODEHUB_TEST_NAMESPACE=" + c.Namespace}
}

// onKubernetes is the block that replaces the block docker in the settings. It requests few resources for a workspace,
// so that many workspaces fit on a small node.
const onKubernetes = `
		backend kubernetes {
			kubeconfig {env.KUBECONFIG}
			namespace {env.CODEHUB_TEST_NAMESPACE}
			workspace_image {env.CODEHUB_WORKSPACE_IMAGE}
			job_image {env.CODEHUB_JOB_IMAGE}
			memory_request 16MiB
			cpus_request 0.001
			home 1GiB
		}
`

// withKubernetes writes the settings at path, with the block that chooses the cluster, into
// a new file, and returns its name.
func withKubernetes(t testing.TB, path, to string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), "\n\t\tdocker {")
	_, after, closed := strings.Cut(rest, "\n\t\t}\n")
	if !found || !closed {
		t.Fatalf("%s has no block docker", path)
	}
	if err := os.WriteFile(to, []byte(before+onKubernetes+after), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}

// caddyProgram returns the path of the caddy program under test.
func caddyProgram(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../caddy")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("%v: run `make build` first, as `make test` does", err)
	}
	return path
}

// launch runs the program. Its output goes to output.
func (in *installation) launch(t testing.TB, output io.Writer) {
	t.Helper()
	in.cmd = exec.Command(caddyProgram(t), "run", "--config", in.config, "--adapter", "caddyfile")
	in.cmd.Env = in.env
	in.cmd.Stdout, in.cmd.Stderr = output, output
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := in.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	cmd, exited := in.cmd, make(chan struct{})
	in.exited = exited
	go func() { defer close(exited); _ = cmd.Wait() }() // how it ended does not matter
}

// start runs the program and waits until it serves.
func (in *installation) start(t testing.TB) {
	t.Helper()
	in.launch(t, in.log)
	in.awaitOK(t, "/health")
}

// awaitOK waits until the program answers 200 at a path.
func (in *installation) awaitOK(t testing.TB, path string) {
	t.Helper()
	wait.For(t, "200 at "+path, func() error {
		select {
		case <-in.exited:
			t.Fatal("the program exited")
		default:
		}
		res, err := newHTTPClient(nil).Get(in.url(path))
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
}

// kill kills the program, which cannot clean up.
func (in *installation) kill() {
	_ = in.cmd.Process.Kill() // fails if it has exited
	<-in.exited
}

// stop ends the program as an operator does.
func (in *installation) stop(t testing.TB) {
	t.Helper()
	_ = in.cmd.Process.Signal(syscall.SIGTERM) // fails if it has exited
	select {
	case <-in.exited:
	case <-time.After(wait.Timeout):
		in.kill()
		t.Errorf("the program did not stop in %s", wait.Timeout)
	}
}

// uninstall stops the program and removes what a failed test may have left behind.
func (in *installation) uninstall(t testing.TB) {
	if in.cmd != nil && in.cmd.Process != nil {
		in.stop(t)
	}
	in.keepLog(t)
	devenv.Clear(t, in.engine)
}

// keepLog keeps the program's log if the test has failed.
func (in *installation) keepLog(t testing.TB) {
	if t.Failed() {
		fmt.Fprintf(testlog.Writer(t), "the program's log:\n%s", in.log)
	}
}

func (in *installation) url(path string) string {
	return fmt.Sprintf("http://%s:%d%s", in.domain, in.port, path)
}

// signIn returns the user with that name, signed in. If the program is still migrating its database, signIn waits until
// it is ready.
func (in *installation) signIn(t testing.TB, username, password string) *user {
	t.Helper()
	in.awaitOK(t, "/health/ready")
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	u := &user{in: in, http: newHTTPClient(jar)}
	u.call(t, http.MethodPost, "/api/v1/auth/login", map[string]string{"username": username, "password": password}, http.StatusOK, nil)
	return u
}

// admin returns the user admin, signed in.
func (in *installation) admin(t testing.TB) *user {
	t.Helper()
	return in.signIn(t, "admin", in.password)
}

// userPassword is the password of every user but admin.
const userPassword = "correct horse battery staple"

// addUser adds a user with the command line, and signs in as that user.
func (in *installation) addUser(t testing.TB, username string) *user {
	t.Helper()
	cmd := exec.Command(caddyProgram(t), "codehub", "user", "add", username)
	cmd.Env = in.env
	cmd.Stdin = strings.NewReader(userPassword + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("adding the user %s: %v\n%s", username, err, out)
	}
	return in.signIn(t, username, userPassword)
}

// anonymous returns a client that is not signed in and keeps no cookies.
func (in *installation) anonymous() *user {
	return &user{in: in, http: newHTTPClient(nil)}
}

// logBuffer collects the program's log.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// freePort returns a port on which nothing listens at the moment.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := server.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return port
}
