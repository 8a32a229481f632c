package devenv

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// Docker returns the address of a Docker engine, in the form of DOCKER_HOST. It does not
// start one: `make test` runs the tests in a network namespace with an engine.
func Docker(t testing.TB) string {
	t.Helper()
	host, err := server.AnsweringEngine(t.Context())
	if err != nil {
		t.Fatalf("%v; `make test ARGS='-run NAME ./PACKAGE'` brings an engine", err)
	}
	return host
}

// TerminalImage returns the reference of a small workspace image on the engine of
// [Docker]. It listens on port 8080 and serves a terminal page at /, its WebSocket at
// /ws, /echo and /healthz: see package webterm.
func TerminalImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.Terminal)
}

// StorageJobImage returns the reference of the storage job's image on the engine of
// [Docker], built from this source.
func StorageJobImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.StorageJob)
}

// built are the references of the images that this test binary has built. Their sources do
// not change meanwhile.
var built = struct {
	sync.Mutex
	refs map[string]string
}{refs: map[string]string{}}

func builtImage(t testing.TB, i image.Image) string {
	t.Helper()
	host := Docker(t)
	built.Lock()
	defer built.Unlock()
	if built.refs[i.Name] == "" {
		root, err := image.Root()
		if err != nil {
			t.Fatal(err)
		}
		if built.refs[i.Name], err = i.Build(t.Context(), host, root); err != nil {
			t.Fatal(err)
		}
	}
	return built.refs[i.Name]
}

// RemoveInstallation removes the containers, volumes and networks that carry the label of
// an installation, at the end of a test that may have failed. It is repeated, because the
// engine refuses to remove what it is removing already, and a container in removal holds
// its volume.
func RemoveInstallation(t testing.TB, engine *client.Client, installation string) {
	t.Helper()
	wait.For(t, "everything is removed", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
		defer cancel()
		own := filters.NewArgs(filters.Arg("label", "codehub.installation="+installation))
		containers, err := engine.ContainerList(ctx, container.ListOptions{All: true, Filters: own})
		if err != nil {
			return err
		}
		var errs []error
		for _, c := range containers {
			errs = append(errs, engine.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}))
		}
		volumes, err := engine.VolumeList(ctx, volume.ListOptions{Filters: own})
		if err != nil {
			return err
		}
		for _, v := range volumes.Volumes {
			errs = append(errs, engine.VolumeRemove(ctx, v.Name, true))
		}
		_, err = engine.NetworksPrune(ctx, own)
		return errors.Join(append(errs, err)...)
	})
}
