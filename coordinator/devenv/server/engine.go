package server

import (
	"cmp"
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
	"time"

	"github.com/docker/docker/client"
)

// engineGrace is how long an engine may take to stop its containers and itself.
const engineGrace = 30 * time.Second

// Engine is a running private Docker engine.
type Engine struct {
	*Process
	// Host is the engine's address, in the form of DOCKER_HOST.
	Host string
}

// StartEngine starts a Docker engine. It needs root, or sudo that asks for no password.
//
// Its processes and mounts end with it, however it ends. The engine has its own bridge, for two reasons: two engines on
// one bridge would give their containers the same addresses, and Docker's default bridge would stay behind when the
// engine ends. Two engines in one network namespace also share firewall chains, and disturb each other while one of
// them starts. With isolated set, the engine has its own namespace, and nothing of this machine reaches its containers.
func StartEngine(s Storage, isolated bool) (*Engine, error) {
	bin, err := find("dockerd")
	if err != nil {
		return nil, err
	}
	p, err := s.Program("Docker engine")
	if err != nil {
		return nil, err
	}
	// An empty configuration: the machine's own may contradict these flags.
	config := s.Dir + ".json"
	if err := os.WriteFile(config, []byte("{}\n"), 0o600); err != nil {
		return nil, fmt.Errorf("writing the Docker engine's configuration: %w", err)
	}
	sum := sha256.Sum256([]byte(s.Dir))
	// At most 15 characters, the limit for an interface's name.
	name := "codehub" + hex.EncodeToString(sum[:4])
	socket, exec, pid := filepath.Join(s.Sockets, "docker.sock"), filepath.Join(s.Sockets, "exec"),
		filepath.Join(s.Sockets, "docker.pid")
	p.Argv = []string{
		bin, "--config-file", config, "--host", "unix://" + socket, "--group", strconv.Itoa(os.Getgid()),
		"--data-root", s.Dir, "--exec-root", exec, "--pidfile", pid,
		"--bridge", name, "--containerd-namespace", name, "--containerd-plugins-namespace", name + "-plugins",
		// systemd would confuse the process ids of the engine's namespace with its own.
		"--exec-opt", "native.cgroupdriver=cgroupfs",
		"--shutdown-timeout", "5", "--log-level", "warn",
	}
	p.Stale = []string{socket, exec, pid}
	p.Root, p.Contain, p.Network, p.Grace = true, true, isolated, engineGrace
	// A killed supervisor leaves the bridge. The engine gives it an address.
	p.Before = fmt.Sprintf("ip link delete %s 2>/dev/null; ip link set lo up; ip link add %[1]s type bridge", name)
	// The engine leaves network namespaces mounted and, if it is killed, its containers' files, too.
	p.After = fmt.Sprintf("grep -oE ' (%s|%s)/[^ ]*' /proc/self/mounts | xargs -r umount -l; ip link delete %s", s.Dir,
		s.Sockets, name)
	p.Ready = func() error { return pingEngine(context.Background(), "unix://"+socket) }
	process, err := Start(p)
	if err != nil {
		return nil, err
	}
	return &Engine{Process: process, Host: "unix://" + socket}, nil
}

// CanStartEngine returns why this process cannot start an engine, or nil.
func CanStartEngine() error {
	if runtime.GOOS != "linux" {
		return errors.New("only Linux can start a private Docker engine")
	}
	if os.Getuid() != 0 && exec.Command("sudo", "-n", "true").Run() != nil {
		return errors.New("starting a private Docker engine needs root, or sudo without a password")
	}
	return nil
}

// AnsweringEngine returns the address of the engine at DOCKER_HOST or, if that is not
// set, at the default socket.
func AnsweringEngine(ctx context.Context) (string, error) {
	host := cmp.Or(os.Getenv("DOCKER_HOST"), client.DefaultDockerHost)
	if err := pingEngine(ctx, host); err != nil {
		return "", fmt.Errorf("no Docker engine answers at %s: %w", host, err)
	}
	return host, nil
}

// EngineClient returns a client of the engine at host. The caller must close it.
func EngineClient(host string) (*client.Client, error) {
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithTLSClientConfigFromEnv(),
		client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("reading a Docker address: %w", err)
	}
	return api, nil
}

func pingEngine(ctx context.Context, host string) error {
	api, err := EngineClient(host)
	if err != nil {
		return err
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err = api.Ping(ctx)
	return err
}
