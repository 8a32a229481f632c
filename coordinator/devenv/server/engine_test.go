//go:build linux

package server_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// A private engine works beside another one, its containers can be reached, its
// volumes survive, and it leaves no network interface behind.
func TestEngineRunsContainersAndEndsWithoutATrace(t *testing.T) {
	if err := server.CanStartEngine(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	socketDir, err := server.SocketDir(dir + "/" + strings.Repeat("long", 20))
	if err != nil {
		t.Fatal(err)
	}
	engine, err := server.StartEngine(t.Context(), dir, socketDir)
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Stop()
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	builder, err := image.NewBuilder(t.Context(), engine.Host, root)
	if err != nil {
		t.Fatal(err)
	}
	defer builder.Close()
	built, err := builder.Terminal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !built.New {
		t.Error("an engine with nothing in it had the image already")
	}
	api, err := client.NewClientWithOpts(client.WithHost(engine.Host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	c, err := api.ContainerCreate(t.Context(), &container.Config{Image: built.Ref}, nil, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := api.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := api.ContainerInspect(t.Context(), c.ID)
	if err != nil {
		t.Fatal(err)
	}
	awaitOK(t, "http://"+net.JoinHostPort(info.NetworkSettings.Networks["bridge"].IPAddress, "8080")+"/healthz")

	bridge, err := api.NetworkInspect(t.Context(), "bridge", network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	name := bridge.Options["com.docker.network.bridge.name"]
	if _, err := net.InterfaceByName(name); err != nil {
		t.Errorf("the engine's own bridge %q: %v", name, err)
	}
	if err := engine.Stop(); err != nil {
		t.Errorf("stopping the engine: %v", err)
	}
	if _, err := net.InterfaceByName(name); err == nil {
		t.Errorf("the bridge %s is left", name)
	}
}

// awaitOK asks until the answer is 200.
func awaitOK(t *testing.T, url string) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(30 * time.Second)
	for {
		resp, err := http.Get(url)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s does not answer: %v", url, err)
		}
	}
}
