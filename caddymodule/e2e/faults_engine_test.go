package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/wait"
)

// engineAway is what users see without the container engine: running workspaces continue.
var engineAway = seen{
	dashboard: dashboardShown, api: workspaceListed, open: terminalShown,
	wake: answer{http.StatusBadGateway, "It waits for the container engine or cluster, which does not answer"},
}

// TestEngineHangs: the container engine accepts requests and does not answer.
func TestEngineHangs(t *testing.T) {
	t.Parallel()
	proxy := faulty.NewEngine(t, devenv.Docker(t))
	s := play(t, "DOCKER_HOST="+proxy.Host)
	mark := s.mark()
	proxy.Hang(true)
	s.shows(t, "with an engine that hangs", engineAway)
	proxy.Hang(false)
	s.recovers(t, "the engine hung")
	s.judges(t, "after the engine hung")
	s.logged(t, mark, "cannot observe containers", "observing containers works again")
}

// TestEngineRestarted: the container engine restarts. Its containers restart with it or, with live-restore, keep
// running.
func TestEngineRestarted(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can run an engine")
	}
	for _, tt := range []struct {
		name string
		live bool
	}{{"its containers run on", true}, {"its containers end", false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newOwnEngine(t, tt.live)
			e.start(t)
			s := play(t, e.settings(t)...)
			mark := s.mark()
			e.stop()
			want := engineAway
			if !tt.live {
				e.endContainers(t)
				s.stopWork()
				// The last observation may or may not have seen the container end. So the page says that it waits for
				// the engine, or that it waits for the application.
				want.open = wakePageShown
			}
			s.shows(t, "without an engine", want)
			e.start(t)
			if !tt.live {
				wait.For(t, "the open workspace is started again", func() error { return s.me.showsTerminal(t, byHost.base(s.installation, s.open)) })
				s.startWork(t)
			}
			s.recovers(t, "the engine was restarted")
			s.judges(t, "after the engine was restarted")
			s.logged(t, mark, "cannot observe containers", "observing containers works again")
		})
	}
}

// ownEngine is a container engine for one test. It changes no firewall rules, so that it does not disturb the engine
// of the other tests.
type ownEngine struct {
	dir  string
	data string // below dir, or the folder of a disk of its own
	// bridge is the device of its default network, or none. Only with a bridge does the engine report since when it has
	// been running.
	bridge string
	live   bool
	cmd    *exec.Cmd // that runs now
	stop   func()
}

// newOwnEngine returns an engine that has not been started yet.
func newOwnEngine(t *testing.T, live bool) *ownEngine {
	t.Helper()
	dir, err := os.MkdirTemp("", "codehub-own") // its path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	e := &ownEngine{dir: dir, data: filepath.Join(dir, "data"), bridge: "none", live: live, stop: func() {}}
	t.Cleanup(func() {
		e.unmount(t)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { e.stop() }) // the present one, after the installation has ended
	return e
}

// unmount undoes the mounts that the engine leaves behind because it might need them again.
func (e *ownEngine) unmount(t *testing.T) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Error(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if at := strings.Fields(line)[1]; strings.HasPrefix(at, e.dir+"/") || strings.HasPrefix(at, e.data+"/") {
			_ = syscall.Unmount(at, syscall.MNT_DETACH)
		}
	}
}

func (e *ownEngine) host() string { return "unix://" + filepath.Join(e.dir, "d.sock") }

// start starts the engine and waits until it answers.
func (e *ownEngine) start(t *testing.T) {
	t.Helper()
	program, err := exec.LookPath("dockerd")
	if err != nil {
		program = "/usr/sbin/dockerd"
	}
	config, log := filepath.Join(e.dir, "config.json"), filepath.Join(e.dir, "log")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	args := []string{"--config-file", config, "--host", e.host(), "--data-root", e.data,
		"--exec-root", filepath.Join(e.dir, "exec"), "--pidfile", filepath.Join(e.dir, "pid"), "--bridge", e.bridge,
		"--iptables=false", "--ip6tables=false", "--containerd-namespace", filepath.Base(e.dir),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--log-level", "error", "--shutdown-timeout", "1"}
	if e.live {
		args = append(args, "--live-restore")
	}
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	e.cmd = cmd
	e.stop = sync.OnceFunc(func() { e.end(syscall.SIGTERM) })
	api, err := client.NewClientWithOpts(client.WithHost(e.host()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	wait.For(t, "the engine answers", func() error { _, err := api.Ping(t.Context()); return err })
}

// end ends the engine with a signal.
func (e *ownEngine) end(how syscall.Signal) {
	_ = e.cmd.Process.Signal(how) // fails if it has exited
	_ = e.cmd.Wait()
}

// endContainers ends the containers that the engine has left running. The test does this itself, because while the
// engine waits for its containers to end, it still accepts calls, and a workspace that is started then outlives the
// engine.
func (e *ownEngine) endContainers(t *testing.T) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), "containerd-shim") || !strings.Contains(string(line), filepath.Base(e.dir)) {
			continue // it has ended, or is no parent of the engine's containers
		}
		shim, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		for _, pid := range descendants(shim) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // fails if it has ended
		}
	}
}

// settings loads the images into this engine, and returns the settings of an installation that uses it.
func (e *ownEngine) settings(t *testing.T) []string {
	t.Helper()
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	settings := []string{"DOCKER_HOST=" + e.host()}
	for name, i := range map[string]image.Image{"CODEHUB_WORKSPACE_IMAGE": image.Terminal, "CODEHUB_JOB_IMAGE": image.StorageJob} {
		ref, err := i.Build(t.Context(), e.host(), root)
		if err != nil {
			t.Fatal(err)
		}
		settings = append(settings, name+"="+ref)
	}
	return settings
}
