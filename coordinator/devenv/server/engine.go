package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
)

// Engine is a running private Docker engine.
type Engine struct {
	*Guard
	// Host is the engine's address, in the form of DOCKER_HOST.
	Host string
}

// StartEngine starts a Docker engine that keeps images, containers and volumes in
// dir. socketDir takes its sockets, must be short, and goes with the engine. It needs
// root, or sudo without a question.
func StartEngine(ctx context.Context, dir, socketDir string) (*Engine, error) {
	return startEngine(ctx, dir, socketDir, "")
}

// startEngine starts an engine that lasts as long as this process or, if users is
// set, as long as somebody shares that lock.
func startEngine(ctx context.Context, dir, socketDir, users string) (*Engine, error) {
	bin, ok := engineBin()
	if !ok {
		return nil, &MissingError{Program: "Docker's engine", Package: "docker.io"}
	}
	for _, d := range []string{dir, socketDir} {
		if err := makePrivate(d); err != nil {
			return nil, err
		}
	}
	pidFile := filepath.Join(socketDir, "docker.pid")
	if err := removeStalePID(pidFile, dir); err != nil {
		return nil, err
	}
	// The engine's own containerd is killed with it. An engine that finds the number
	// in use, be it by a process that nobody has waited for, would not start another.
	if err := removeStalePID(filepath.Join(socketDir, "exec", "containerd", "containerd.pid"), socketDir); err != nil {
		return nil, err
	}
	// An empty configuration: the machine's own may contradict these flags.
	config := filepath.Join(socketDir, "daemon.json")
	if err := os.WriteFile(config, []byte("{}\n"), 0o600); err != nil {
		return nil, fmt.Errorf("writing the Docker engine's configuration: %w", err)
	}
	sum := sha256.Sum256([]byte(dir))
	// At most 15 characters, the limit for an interface's name.
	name := "codehub" + hex.EncodeToString(sum[:4])
	socket := filepath.Join(socketDir, "docker.sock")
	spec := guardSpec{
		Argv: []string{
			bin, "--config-file", config, "--host", "unix://" + socket, "--group", strconv.Itoa(os.Getgid()),
			"--data-root", dir, "--exec-root", filepath.Join(socketDir, "exec"), "--pidfile", pidFile,
			"--bridge", name, "--containerd-namespace", name, "--containerd-plugins-namespace", name + "-plugins",
			"--shutdown-timeout", "5", "--log-level", "warn",
		},
		Env:    []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + dir},
		Stop:   syscall.SIGTERM,
		Grace:  30 * time.Second,
		Users:  users,
		Remove: []string{socketDir},
		Detach: []string{dir},
		Bridge: name,
		Sudo:   os.Getuid() != 0,
		Log:    filepath.Join(dir, "dockerd.log"),
	}
	guard, err := startGuard(spec)
	if err != nil {
		return nil, err
	}
	e := &Engine{Guard: guard, Host: "unix://" + socket}
	// Not with ctx: its end would let every question fail, and so wait for nothing.
	if err := guard.await("the Docker engine", startLimit, func() error { return pingEngine(context.WithoutCancel(ctx), e.Host) }); err != nil {
		return nil, err
	}
	return e, nil
}

// EngineInstalled tells whether there is a program to start an engine from.
func EngineInstalled() bool {
	_, ok := engineBin()
	return ok
}

func engineBin() (string, bool) { return firstExecutable("dockerd") }

// Docker returns the address of a Docker engine: the one that answers at DOCKER_HOST
// or at a usual place, else a private one, for tests, which all processes share that
// call this and which ends with the last of them. Its images are kept in the cache.
func Docker(ctx context.Context) (string, error) {
	host, err := AnsweringEngine(ctx)
	if err == nil || os.Getenv("DOCKER_HOST") != "" {
		return host, err
	}
	if problem := CanStartEngine(); problem != nil {
		return "", fmt.Errorf("%w, and none can be started: %w", err, problem)
	}
	engine, err := sharedEngine()
	return engine.host, err
}

// share is this process's share in the private engine, which it has until it ends.
type share struct {
	host string
	// use is a lock. What nothing refers to would be closed, and with it the lock freed.
	use *os.File
}

// holding is the share, once this process has one.
var holding atomic.Pointer[share]

var sharedEngine = sync.OnceValues(func() (s share, err error) {
	cache, err := CacheDir()
	if err != nil {
		return s, err
	}
	dir := filepath.Join(cache, "docker")
	if err := makePrivate(dir); err != nil {
		return s, err
	}
	socketDir, err := SocketDir(filepath.Join(dir, "run"))
	if err != nil {
		return s, err
	}
	// Blocks while an engine whose last user has gone is ending.
	users := filepath.Join(dir, "users.lock")
	if s.use, err = LockShared(users); err != nil {
		return s, err
	}
	starting, err := Lock(filepath.Join(dir, "start.lock"))
	if err != nil {
		return s, err
	}
	defer starting.Close()
	defer func() {
		if err == nil {
			holding.Store(&s)
		}
	}()
	ctx := context.Background()
	s.host = "unix://" + filepath.Join(socketDir, "docker.sock")
	if pingEngine(ctx, s.host) == nil {
		return s, nil
	}
	engine, err := startEngine(ctx, filepath.Join(dir, "data"), socketDir, users)
	if err != nil {
		return s, err
	}
	// Nobody has used it yet: what is in it is left from processes that were killed.
	if err := emptyEngine(ctx, engine.Host); err != nil {
		return s, err
	}
	return s, nil
})

// ReleaseDocker gives this process's share in the private engine back and, if it was
// the last one, waits until the engine has ended; not longer than ctx. Without a share
// it does nothing. [Docker] must not be called afterwards.
func ReleaseDocker(ctx context.Context) {
	s := holding.Load()
	if s == nil {
		return
	}
	path := s.use.Name()
	s.use.Close()
	// The engine's guard holds the lock while the engine ends, nobody does afterwards.
	for {
		if pingEngine(ctx, s.host) != nil {
			if lock, err := TryLock(path); err == nil {
				lock.Close()
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// CanStartEngine tells why this process could not start an engine; nil if it can.
func CanStartEngine() error {
	if runtime.GOOS != "linux" {
		return errors.New("start Docker Desktop first")
	}
	if os.Getuid() != 0 && exec.Command("sudo", "-n", "true").Run() != nil {
		return errors.New("that needs root: start Docker first, or run this as root")
	}
	return nil
}

// AnsweringEngine looks for an engine where Docker's own tools do: DOCKER_HOST when
// it is set, and nowhere else then; else the usual sockets.
func AnsweringEngine(ctx context.Context) (string, error) {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		if err := pingEngine(ctx, host); err != nil {
			return "", fmt.Errorf("DOCKER_HOST is set to %s: %w", host, err)
		}
		return host, nil
	}
	hosts := []string{client.DefaultDockerHost}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" { // rootless Docker
		hosts = append(hosts, "unix://"+filepath.Join(dir, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil { // Docker Desktop, on macOS and on Linux
		hosts = append(hosts, "unix://"+filepath.Join(home, ".docker/run/docker.sock"),
			"unix://"+filepath.Join(home, ".docker/desktop/docker.sock"))
	}
	var errs []error
	for _, host := range hosts {
		err := pingEngine(ctx, host)
		if err == nil {
			return host, nil
		}
		errs = append(errs, err)
	}
	return "", fmt.Errorf("no Docker engine answers: %w", errs[0])
}

func pingEngine(ctx context.Context, host string) error {
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return fmt.Errorf("reading a Docker address: %w", err)
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		return fmt.Errorf("asking the Docker engine: %w", err)
	}
	return nil
}

// emptyEngine removes all containers and volumes.
func emptyEngine(ctx context.Context, host string) error {
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return fmt.Errorf("reading a Docker address: %w", err)
	}
	defer api.Close()
	containers, err := api.ContainerList(ctx, container.ListOptions{All: true})
	if err != nil {
		return fmt.Errorf("listing left containers: %w", err)
	}
	for _, c := range containers {
		if err := api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			return fmt.Errorf("removing a left container: %w", err)
		}
	}
	volumes, err := api.VolumeList(ctx, volume.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing left volumes: %w", err)
	}
	for _, v := range volumes.Volumes {
		if err := api.VolumeRemove(ctx, v.Name, true); err != nil {
			return fmt.Errorf("removing a left volume: %w", err)
		}
	}
	return nil
}

// SocketDir returns dir if a socket's whole path fits into it, else a short folder
// that belongs to dir alone. The folder is made, and only its owner can enter it.
func SocketDir(dir string) (string, error) {
	// The longest name below it is exec/containerd/containerd-debug.sock; the limit
	// is 104 bytes on macOS and 108 on Linux.
	if len(dir) > 60 {
		sum := sha256.Sum256([]byte(dir))
		dir = filepath.Join(strings.TrimSuffix(os.TempDir(), "/"), "codehub-"+hex.EncodeToString(sum[:6]))
	}
	if err := makePrivate(dir); err != nil {
		return "", err // also if somebody else has made it, in a shared folder
	}
	return dir, nil
}
