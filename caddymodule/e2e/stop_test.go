package e2e

import (
	"errors"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
)

// stopGrace is the grace_period of Caddyfile.example.
const stopGrace = 10 * time.Second

// TestStop: a process that is told to stop answers the requests that it holds. It ends open WebSockets, event streams
// and downloads, and exits soon after the grace period.
func TestStop(t *testing.T) {
	t.Parallel()
	engine := faulty.NewEngine(t, devenv.Docker(t))
	in := install(t, "DOCKER_HOST="+engine.Host)
	me := in.admin(t)
	awake, asleep := me.create(t, "awake"), me.create(t, "asleep")
	base, asleepBase := me.enter(t, awake.ID), me.enter(t, asleep.ID)
	me.setDesiredState(t, asleep.ID, "STANDBY")
	me.awaitPhase(t, asleep.ID, "STANDBY")

	socket := me.dial(t, base+"echo")
	if err := socket.Write(t.Context(), websocket.MessageText, []byte("open")); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.url("/api/v1/events"), nil)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := me.http.Do(r)
	if err != nil || stream.StatusCode != http.StatusOK {
		t.Fatalf("the event stream: %v %v", stream, err)
	}
	defer stream.Body.Close()
	// The engine does not answer, so that the workspace is still starting when the process is told to stop.
	engine.Hang(true)
	held := make(chan int, 1)
	go func() {
		res, err := me.http.Get(asleepBase)
		if err != nil {
			held <- 0
			return
		}
		defer res.Body.Close()
		held <- res.StatusCode
	}()
	wait.Until(t, "the request is held", func() bool { return me.workspace(t, asleep.ID).DesiredState == "RUNNING" })

	began := time.Now()
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status := <-held; status != http.StatusServiceUnavailable {
		t.Errorf("the held request got %d, want 503", status)
	}
	select {
	case <-in.exited:
	case <-time.After(wait.Timeout):
		t.Fatalf("the program still runs %s after it was told to stop", wait.Timeout)
	}
	// The margin is for a busy machine: a real failure would take forever.
	if took := time.Since(began); took > 3*stopGrace {
		t.Errorf("the stop took %s with a grace period of %s", took, stopGrace)
	}
	engine.Hang(false)
}

// TestTwoProcessesShareThePort: a new process takes over from an old one without a gap. Meanwhile, requests over new
// connections are answered, except those that the kernel resets with the old socket.
func TestTwoProcessesShareThePort(t *testing.T) {
	t.Parallel()
	in := install(t, "CODEHUB_SHARE_PORTS=true")
	me := in.admin(t)
	w := me.create(t, "upgraded")
	base := byPath.base(in, w.ID)
	wait.For(t, "the application answers", func() error { return me.reaches(t, base) })
	next := *in
	next.adminSocket, next.log = filepath.Join(t.TempDir(), "admin.sock"), &logBuffer{}
	next.env = append(slices.Clone(in.env), "CODEHUB_ADMIN_ADDRESS=unix/"+next.adminSocket)
	next.start(t)
	t.Cleanup(func() { next.stop(t) })
	wait.Until(t, "the new process serves", func() bool { return strings.Contains(next.log.String(), "serving initial configuration") })

	stop, answers := make(chan struct{}), make(chan error, 1)
	client := *me.http
	client.Transport = client.Transport.(*http.Transport).Clone()
	client.Transport.(*http.Transport).DisableKeepAlives = true
	go func() {
		for {
			select {
			case <-stop:
				answers <- nil
				return
			default:
			}
			res, err := client.Get(base)
			// A reset connection causes one of these two errors, depending on whether reading or writing notices it
			// first.
			if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
				continue
			}
			if err == nil {
				_ = res.Body.Close()
				if res.StatusCode != http.StatusOK {
					err = errors.New(res.Status)
				}
			}
			if err != nil {
				answers <- err
				return
			}
		}
	}()
	in.stop(t)
	close(stop)
	if err := <-answers; err != nil {
		t.Errorf("a request during the change: %v", err)
	}
	in.cmd = nil // the installation is the new process's now
	if err := me.reaches(t, base); err != nil {
		t.Errorf("at the new process: %v", err)
	}
}

// reaches returns nil when the workspace's application answers a program.
func (u *user) reaches(t testing.TB, url string) error {
	t.Helper()
	if res, _ := u.get(t, url, program); res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	return nil
}
