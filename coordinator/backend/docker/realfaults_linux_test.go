package docker_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// privateEngine starts an engine that the test may stop and break. It returns a backend for that engine, and the
// suite's image. The engine has its own network.
func privateEngine(t *testing.T, s server.Storage) (*server.Engine, backend.Backend) {
	t.Helper()
	needRoot(t)
	e, err := server.StartEngine(s, true)
	must(t, err)
	t.Cleanup(func() { _ = e.Stop() })
	api, err := client.NewClientWithOpts(client.WithHost(e.Host), client.WithAPIVersionNegotiation())
	must(t, err)
	defer api.Close()
	image := suiteImage(t, api)
	b, err := docker.New(docker.Options{Host: e.Host, Installation: backendtest.Installation(), Image: image, JobImage: image})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return e, b
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can stop an engine and limit its disk")
	}
}

// signalEngine sends a signal to the engine with that data folder, not to its containers.
func signalEngine(t *testing.T, s server.Storage, signal syscall.Signal) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, name := range all {
		line, err := os.ReadFile(name)
		args := bytes.Split(line, []byte{0})
		if err != nil || filepath.Base(string(args[0])) != "dockerd" || !bytes.Contains(line, []byte("\x00"+s.Dir+"\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		must(t, err)
		must(t, syscall.Kill(pid, signal))
		// The kernel stops the threads one after the other.
		wait.Until(t, "the signal has arrived", func() bool { return signal != syscall.SIGSTOP || stopped(t, pid) })
		return
	}
	t.Fatal("the engine's process was not found")
}

// stopped reports whether all threads of a process are stopped.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	must(t, err)
	for _, name := range threads {
		stat, err := os.ReadFile(name)
		if _, after, ok := bytes.Cut(stat, []byte(") ")); err != nil || !ok || after[0] != 'T' {
			return false
		}
	}
	return len(threads) > 0
}

// TestEngineStoppedAndRestarted: the process of a real engine is suspended with SIGSTOP, and later continued. Then the
// engine is restarted without live-restore. Its containers end, which does not count as a crash of the containers.
func TestEngineStoppedAndRestarted(t *testing.T) {
	t.Parallel()
	s := server.Durable(t.TempDir(), "docker")
	e, b := privateEngine(t, s)
	id, ctx := newID(), t.Context()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Env: []string{"TEST_ENDS_WELL=1"}}))
	identity, err := b.Identity(ctx)
	must(t, err)
	events, err := b.Events(ctx)
	must(t, err)

	signalEngine(t, s, syscall.SIGSTOP)
	began := time.Now()
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	_, err = b.Containers(short)
	unreachable(t, err, "did not answer in time")
	for range events { // until it ends
	}
	t.Logf("the event stream noticed the stopped engine after %s", time.Since(began).Round(100*time.Millisecond))
	signalEngine(t, s, syscall.SIGCONT)
	if all, err := b.Containers(ctx); err != nil || !all[id].Ready {
		t.Errorf("after SIGCONT: %+v, %v", all, err)
	}

	must(t, e.Stop())
	_, err = b.Containers(ctx)
	unreachable(t, err, "listing containers")
	if got, err := b.Identity(ctx); err != nil || got != identity {
		t.Errorf("the identity of what has answered: %s, %v, want %s", got, err, identity)
	}
	e, err = server.StartEngine(s, true)
	must(t, err)
	t.Cleanup(func() { _ = e.Stop() })
	all, err := b.Containers(ctx)
	must(t, err)
	volumes, err := b.Volumes(ctx)
	must(t, err)
	if c, ok := all[id]; !ok || c.Running || c.Unknown != "" || c.ExitCode != 0 || !c.Disrupted || volumes[id].OpID != "op" {
		t.Errorf("after the restart: container %+v (%t), volume %+v; want it ended by others, on its volume", c, ok, volumes[id])
	}
	if got, err := b.Identity(ctx); err != nil || got != identity {
		t.Errorf("identity after the restart: %s, %v, want %s", got, err, identity)
	}
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	if all, err := b.Containers(ctx, id); err != nil || !all[id].Running {
		t.Errorf("started again: %+v, %v", all, err)
	}
}

// TestAnotherDataFolderIsAnotherEngine: two real engines run on one machine, like an engine before and after its data
// folder is mounted. Some versions of Docker report the same id for both.
func TestAnotherDataFolderIsAnotherEngine(t *testing.T) {
	t.Parallel()
	found := make(map[string]bool)
	for range 2 {
		_, b := privateEngine(t, server.Durable(t.TempDir(), "docker"))
		identity, err := b.Identity(t.Context())
		must(t, err)
		found[identity] = true
	}
	if len(found) != 2 {
		t.Errorf("two data folders have the identity %v", found)
	}
}

// TestEngineDiskFull: the disk of a real engine becomes full, and later has space again.
func TestEngineDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	needRoot(t)
	must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=96m"))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	s := server.Storage{Dir: filepath.Join(dir, "docker"), Sockets: server.SocketDir(filepath.Join(t.TempDir(), "run"))}
	_, b := privateEngine(t, s)
	id, late, ctx := newID(), newID(), t.Context()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))

	filler := filepath.Join(dir, "filler")
	f, err := os.Create(filler)
	must(t, err)
	for err = nil; err == nil; {
		_, err = f.Write(make([]byte, 64<<10))
	}
	for err = nil; err == nil; { // the rest of the last page
		_, err = f.Write([]byte{0})
	}
	must(t, f.Close())

	err = b.Provision(ctx, backend.VolumeSpec{ID: late, OpID: "op"})
	if err == nil {
		err = b.Start(ctx, backend.StartSpec{ID: late})
	}
	if err == nil || !strings.Contains(err.Error(), "disk is full") || workspace.ReasonOf(err) != workspace.ReasonActionFailed {
		t.Errorf("with a full disk: %v", err)
	}
	if all, err := b.Containers(ctx); err != nil || !all[id].Running {
		t.Errorf("the workspace that ran before: %+v, %v", all, err)
	}
	must(t, os.Remove(filler))
	wait.For(t, "room again", func() error {
		if err := b.Provision(ctx, backend.VolumeSpec{ID: late, OpID: "op"}); err != nil {
			return fmt.Errorf("provisioning: %w", err)
		}
		return b.Start(ctx, backend.StartSpec{ID: late})
	})
	if volumes, err := b.Volumes(ctx, late); err != nil || volumes[late].OpID != "op" {
		t.Errorf("the volume that had no room at first: %+v, %v", volumes, err)
	}
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}

// dockerd starts an engine in the namespaces of the tests, and returns a function that ends it with a signal. With live
// its containers outlive it.
func dockerd(t *testing.T, dir string, live bool) (end func(syscall.Signal)) {
	t.Helper()
	program, err := exec.LookPath("dockerd")
	if err != nil {
		program = "/usr/sbin/dockerd"
	}
	config := filepath.Join(dir, "config.json")
	must(t, os.WriteFile(config, []byte("{}"), 0o600))
	cmd := exec.Command(program, "--config-file", config, fmt.Sprintf("--live-restore=%t", live), "--host", "unix://"+filepath.Join(dir, "d.sock"),
		"--data-root", filepath.Join(dir, "data"), "--exec-root", filepath.Join(dir, "exec"), "--pidfile", filepath.Join(dir, "pid"),
		"--bridge", "none", "--iptables=false", "--ip6tables=false", "--containerd-namespace", filepath.Base(dir),
		"--exec-opt", "native.cgroupdriver=cgroupfs", "--log-level", "error")
	output, err := os.CreateTemp(t.TempDir(), "dockerd")
	must(t, err)
	cmd.Stdout, cmd.Stderr = output, output
	must(t, cmd.Start())
	output.Close()
	stopped := false
	end = func(signal syscall.Signal) {
		if !stopped {
			stopped = true
			_ = cmd.Process.Signal(signal)
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() { end(syscall.SIGTERM) })
	return end
}

// ownFolder is a folder for an engine that a test starts with dockerd. At the end of the test, everything is unmounted
// that the engine has left mounted there.
func ownFolder(t *testing.T) string {
	t.Helper()
	needRoot(t)
	dir, err := os.MkdirTemp("", "codehub-live") // its path is short enough for a socket
	must(t, err)
	t.Cleanup(func() {
		mounts, err := os.ReadFile("/proc/self/mounts")
		check(t, err)
		for line := range strings.Lines(string(mounts)) { // the engine keeps these for a restart
			if at := strings.Fields(line)[1]; strings.HasPrefix(at, dir+"/") {
				_ = syscall.Unmount(at, syscall.MNT_DETACH)
			}
		}
		check(t, os.RemoveAll(dir))
	})
	return dir
}

// backendAt waits until an engine in such a folder answers, and returns a backend for it.
func backendAt(t *testing.T, dir string) (b backend.Backend, answers func() error) {
	t.Helper()
	host := "unix://" + filepath.Join(dir, "d.sock")
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	must(t, err)
	t.Cleanup(func() { api.Close() })
	answers = func() error { _, err := api.Ping(t.Context()); return err }
	wait.For(t, "the engine answers", answers)
	image := suiteImage(t, api)
	b, err = docker.New(docker.Options{Host: host, Installation: backendtest.Installation(), Image: image, JobImage: image})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b, answers
}

// TestLiveRestore: a real engine is restarted under a running workspace.
func TestLiveRestore(t *testing.T) {
	t.Parallel()
	dir := ownFolder(t)
	end := dockerd(t, dir, true)
	b, answers := backendAt(t, dir)
	id, ctx := newID(), t.Context()
	endpoint := start(t, b, backend.StartSpec{ID: id})
	identity, err := b.Identity(ctx)
	must(t, err)

	end(syscall.SIGTERM)
	_, err = b.Containers(ctx)
	unreachable(t, err, "listing containers")
	if code, body := get(t, endpoint, "/"); code != 200 || body != "hello" {
		t.Errorf("while the engine is away: %d %s", code, body)
	}
	dockerd(t, dir, true)
	wait.For(t, "the engine answers again", answers)
	all, err := b.Containers(ctx)
	must(t, err)
	got, err := b.Identity(ctx)
	if err != nil || got != identity || !all[id].Ready || all[id].Endpoint != endpoint {
		t.Errorf("after the restart: %+v on %s (%v), want it at %s on %s", all[id], got, err, endpoint, identity)
	}
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	if code, body := get(t, endpoint, "/"); code != 200 || body != "hello" {
		t.Errorf("after the restart: %d %s", code, body)
	}
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}

// TestEngineRestartedUnderAFrozenContainer: with live-restore a container stays frozen, and resumes where it was.
// Without live-restore, it ends with the engine, or when the engine starts again.
func TestEngineRestartedUnderAFrozenContainer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		live bool
		how  syscall.Signal
	}{
		"live, stopped": {true, syscall.SIGTERM}, "live, killed": {true, syscall.SIGKILL},
		"stopped": {false, syscall.SIGTERM}, "killed": {false, syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ownFolder(t)
			end := dockerd(t, dir, c.live)
			b, answers := backendAt(t, dir)
			id, ctx := newID(), t.Context()
			endpoint := start(t, b, backend.StartSpec{ID: id})
			seen := func() workspace.Container {
				all, err := b.Containers(ctx)
				must(t, err)
				return all[id]
			}
			was := seen()
			must(t, b.Freezer.Freeze(ctx, id, was.StartedAt))
			was = seen()
			waits := make(chan error, 1) // a request that arrives before the engine ends
			conn, err := net.Dial("tcp", endpoint)
			must(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "GET / HTTP/1.0\r\nHost: x\r\n\r\n")
			must(t, err)
			go func() {
				answer, err := io.ReadAll(conn)
				if err == nil && !strings.HasSuffix(string(answer), "hello") {
					err = fmt.Errorf("the answer is %q", answer)
				}
				waits <- err
			}()

			end(c.how)
			dockerd(t, dir, c.live)
			wait.For(t, "the engine answers again", answers)
			now := seen()
			if c.live {
				if now != was || now.Health != workspace.HealthPaused {
					t.Errorf("after the restart: %+v, before %+v", now, was)
				}
				must(t, b.Freezer.Thaw(ctx, id))
				must(t, <-waits)
			} else {
				if now.Running || now.Unknown != "" || !now.Disrupted || !now.Volume {
					t.Errorf("after the restart: %+v, want that others have ended it", now)
				}
				must(t, b.Freezer.Thaw(ctx, id))
				must(t, b.Start(ctx, backend.StartSpec{ID: id}))
			}
			backendtest.Ready(t, b, id)
			must(t, b.Delete(ctx, id))
			must(t, b.DeleteVolume(ctx, id, "op"))
		})
	}
}
