package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
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
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// installation is one deployment of the product with servers of its own. The caddy
// program can be killed and started again over the same servers.
type installation struct {
	id          string
	port        int
	config      string // the Caddyfile
	adminSocket string // of Caddy's administration endpoint
	env         []string
	docker      *client.Client
	s3          *s3.Client
	bucket      string
	password    string // of the user admin
	cmd         *exec.Cmd
	exited      chan struct{}
	log         *logBuffer
}

// install starts servers and the program, which works with short intervals. Settings
// are environment variables that Caddyfile.example reads, such as "NAME=value".
func install(t testing.TB, settings ...string) *installation {
	t.Helper()
	store := devenv.S3(t)
	host := devenv.Docker(t)
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	in := &installation{
		id: "e2e-" + uuid.NewString()[:8], port: freePort(t),
		config: "../../Caddyfile.example", adminSocket: filepath.Join(home, "admin.sock"),
		docker: api, s3: store.Client(t), bucket: store.Bucket,
		password: uuid.NewString(), log: &logBuffer{},
	}
	in.env = append(os.Environ(),
		"HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "GODEBUG=http2xconnect=1",
		"DATABASE_URL="+devenv.PostgreSQL(t), "REDIS_URL="+devenv.Redis(t),
		"S3_ENDPOINT="+store.Endpoint, "S3_REGION="+store.Region, "S3_BUCKET="+store.Bucket,
		"S3_ACCESS_KEY="+store.AccessKey, "S3_SECRET_KEY="+store.SecretKey, "S3_PATH_STYLE=true",
		"DOCKER_HOST="+host, "CODEHUB_INSTALLATION="+in.id,
		"CODEHUB_WORKSPACE_IMAGE="+devenv.TerminalImage(t), "CODEHUB_JOB_IMAGE="+devenv.StorageJobImage(t),
		fmt.Sprintf("CODEHUB_HTTP_PORT=%d", in.port), "CODEHUB_ADMIN_PASSWORD="+in.password,
		"CODEHUB_ADMIN_ADDRESS=unix/"+in.adminSocket,
		"COORDINATOR_IDLE_INTERVAL=2s", "COORDINATOR_RETRY_INTERVAL=1s", "COORDINATOR_TTL_INTERVAL=1s",
		"ACTIVITY_FLUSH_INTERVAL=1s", "TTL_STANDBY_SECONDS=3600", "TTL_ARCHIVE_SECONDS=3600")
	in.env = append(in.env, settings...)
	t.Cleanup(func() { in.uninstall(t) }) // runs before the servers stop
	in.start(t)
	return in
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

// start runs the program and waits until it serves.
func (in *installation) start(t testing.TB) {
	t.Helper()
	in.cmd = exec.Command(caddyProgram(t), "run", "--config", in.config, "--adapter", "caddyfile")
	in.cmd.Env = in.env
	in.cmd.Stdout, in.cmd.Stderr = in.log, in.log
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := in.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	in.exited = exited
	go func() { defer close(exited); _ = in.cmd.Wait() }() // how it ended does not matter
	wait.For(t, "the program serves", func() error {
		select {
		case <-exited:
			t.Fatalf("the program exited:\n%s", in.log)
		default:
		}
		res, err := http.Get(in.url("/health"))
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
		t.Errorf("the program did not stop in %s:\n%s", wait.Timeout, in.log)
	}
}

// uninstall stops the program and removes what a failed test may have left.
func (in *installation) uninstall(t testing.TB) {
	if in.cmd != nil && in.cmd.Process != nil {
		in.stop(t)
	}
	if t.Failed() {
		t.Logf("the program's log:\n%s", in.log)
	}
	defer in.docker.Close()
	devenv.RemoveInstallation(t, in.docker, in.id)
}

func (in *installation) url(path string) string {
	return fmt.Sprintf("http://localhost:%d%s", in.port, path)
}

// signIn returns the user with that name, signed in.
func (in *installation) signIn(t testing.TB, username, password string) *user {
	t.Helper()
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

// addUser adds a user with the command line, and signs in as that user.
func (in *installation) addUser(t testing.TB, username string) *user {
	t.Helper()
	const password = "correct horse battery staple"
	cmd := exec.Command(caddyProgram(t), "codehub", "user", "add", username)
	cmd.Env = in.env
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("adding the user %s: %v\n%s", username, err, out)
	}
	return in.signIn(t, username, password)
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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}
