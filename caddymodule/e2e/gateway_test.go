package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/devenv"
)

// patience is how long a test waits for something that must happen. It is long
// because the machine may be busy; nothing waits for it to pass.
const patience = 90 * time.Second

// installation is one deployment with servers of its own: the caddy program may be
// killed and started again over them.
type installation struct {
	id          string
	port        int
	config      string // the Caddyfile
	adminSocket string // the socket of Caddy's administration endpoint
	env         []string
	docker      *client.Client
	s3          *s3.Client
	bucket      string
	password    string
	cmd         *exec.Cmd
	ended       chan struct{}
	log         *logBuffer
}

// install starts servers and the program, with short intervals. Settings are
// environment variables that Caddyfile.example reads.
func install(t testing.TB, settings ...string) *installation {
	t.Helper()
	store := devenv.S3(t)
	host := devenv.Docker(t)
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	in := &installation{
		id: "e2e-" + uuid.NewString()[:8], port: freePort(t), config: "../../Caddyfile.example", docker: api,
		s3: store.Client(t), bucket: store.Bucket, password: uuid.NewString(), log: &logBuffer{},
	}
	home := t.TempDir()
	in.adminSocket = filepath.Join(home, "admin.sock")
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
	t.Cleanup(func() { in.uninstall(t) }) // before the servers end
	in.start(t)
	return in
}

// program is the caddy program under test.
func program(t testing.TB) string {
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
	in.cmd = exec.Command(program(t), "run", "--config", in.config, "--adapter", "caddyfile")
	in.cmd.Env = in.env
	in.cmd.Stdout, in.cmd.Stderr = in.log, in.log
	in.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := in.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.ended = make(chan struct{})
	go func() { defer close(in.ended); _ = in.cmd.Wait() }() // its end is what is waited for, not how
	eventually(t, "the program serves", func() error {
		select {
		case <-in.ended:
			t.Fatalf("the program ended:\n%s", in.log)
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

// kill ends the program the hard way, at once.
func (in *installation) kill() {
	_ = in.cmd.Process.Kill()
	<-in.ended
}

// stop ends the program as an operator would.
func (in *installation) stop(t testing.TB) {
	t.Helper()
	_ = in.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-in.ended:
	case <-time.After(patience):
		in.kill()
		t.Errorf("the program did not stop in %s:\n%s", patience, in.log)
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
	// Again while the engine is at it: what a program that ended has begun to remove
	// cannot be removed by another, and holds its volume for a moment.
	eventually(t, "nothing of it is left", in.sweep)
}

// sweep removes containers, volumes and networks of the installation.
func (in *installation) sweep() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ours := filters.NewArgs(filters.Arg("label", "codehub.installation="+in.id))
	list, err := in.docker.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range list {
		errs = append(errs, in.docker.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
	}
	volumes, err := in.docker.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return err
	}
	for _, v := range volumes.Volumes {
		errs = append(errs, in.docker.VolumeRemove(ctx, v.Name, true))
	}
	_, err = in.docker.NetworksPrune(ctx, ours)
	return errors.Join(append(errs, err)...)
}

func (in *installation) url(path string) string {
	return fmt.Sprintf("http://localhost:%d%s", in.port, path)
}

// container returns the state of the workspace's container, or "" without one.
func (in *installation) container(t testing.TB, id string) string {
	t.Helper()
	c, err := in.docker.ContainerInspect(t.Context(), "ws-"+id)
	if errdefs.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.State.Status
}

func (in *installation) hasVolume(t testing.TB, id string) bool {
	t.Helper()
	_, err := in.docker.VolumeInspect(t.Context(), "ws-"+id+"-home")
	if err != nil && !errdefs.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// objects are the keys in the bucket that belong to the workspace.
func (in *installation) objects(t testing.TB, id string) []string {
	t.Helper()
	prefix := "archives/" + id + "/"
	out, err := in.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &in.bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// awaitJob returns at the moment a storage job of that kind starts for the
// workspace. Call it before what makes the job start.
func (in *installation) awaitJob(t testing.TB, id, kind string) (wait func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	messages, errs := in.docker.Events(ctx, eventsOptions(id))
	return func() {
		t.Helper()
		defer cancel()
		for {
			select {
			case m := <-messages:
				if strings.HasPrefix(m.Actor.Attributes["name"], "ws-"+id+"-"+kind) {
					return
				}
			case err := <-errs:
				t.Fatalf("waiting for a %s job of %s: %v", kind, id, err)
			}
		}
	}
}

// logBuffer takes the program's log.
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

func freePort(t testing.TB) int {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port
}

// eventually tries until there is no error. Between two tries it waits for a tick,
// because what it asks about gives no signal of its own.
func eventually(t testing.TB, what string, try func() error) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("waited %s until %s: %v", patience, what, err)
		}
	}
}

// text reads a response's body to its end.
func text(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
