//go:build linux

package server_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// A private engine runs containers that reach one another, and all its processes end with it, even if it is killed.
// Neither its bridge nor its mounts are visible outside.
func TestEngineEndsWithoutATrace(t *testing.T) {
	s := server.Durable(t.TempDir(), "docker")
	engine, err := server.StartEngine(s, true)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Stop()
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	ref, err := image.Terminal.Build(t.Context(), engine.Host, root)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := image.Terminal.Build(t.Context(), engine.Host, root); err != nil || again != ref {
		t.Errorf("the same source is built as %s and %s, %v", ref, again, err)
	}
	api, err := client.NewClientWithOpts(client.WithHost(engine.Host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	start := func(c container.Config, mode container.NetworkMode) string {
		t.Helper()
		c.Image = ref
		made, err := api.ContainerCreate(t.Context(), &c, &container.HostConfig{NetworkMode: mode}, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := api.ContainerStart(t.Context(), made.ID, container.StartOptions{}); err != nil {
			t.Fatal(err)
		}
		return made.ID
	}
	info, err := api.ContainerInspect(t.Context(), start(container.Config{}, ""))
	if err != nil {
		t.Fatal(err)
	}
	address := info.NetworkSettings.Networks["bridge"].IPAddress
	// From the engine's own network namespace, where a gateway would be.
	pinging := start(container.Config{User: "0", Entrypoint: []string{"ping", "-c", "1", "-w", "30", address}}, "host")
	ended, failed := api.ContainerWait(t.Context(), pinging, container.WaitConditionNotRunning)
	select {
	case err := <-failed:
		t.Fatal(err)
	case end := <-ended:
		if end.StatusCode != 0 {
			t.Errorf("pinging %s: exit code %d", address, end.StatusCode)
		}
	}
	bridge, err := api.NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := bridge.Options["com.docker.network.bridge.name"]
	if _, err := net.InterfaceByName(name); name == "" || err == nil {
		t.Errorf("the isolated engine's bridge %q is seen outside", name)
	}

	processes := programs(t, s.Sockets)
	if len(processes["dockerd"]) != 1 || len(processes["containerd-shim-runc-v2"]) == 0 {
		t.Fatalf("the engine's processes: %v", processes)
	}
	if err := syscall.Kill(processes["dockerd"][0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "all processes of the killed engine have ended", func() error {
		if left := programs(t, s.Sockets); len(left) > 0 {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	if engine, err = server.StartEngine(s, true); err != nil {
		t.Fatalf("starting it again: %v", err)
	}
	if err := engine.Stop(); err != nil {
		t.Errorf("stopping the engine: %v", err)
	}
}

// programs returns the ids of the processes that have text in their command lines.
func programs(t *testing.T, text string) map[string][]int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string][]int{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(b), text) {
			continue // an error: it has ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			t.Fatal(err)
		}
		program, _, _ := strings.Cut(string(b), "\x00")
		name := filepath.Base(program)
		found[name] = append(found[name], pid)
	}
	return found
}
