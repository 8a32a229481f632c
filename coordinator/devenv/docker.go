package devenv

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
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

// TerminalImage returns the reference of a small workspace image. The image is on the engine of [Docker] and, in a run
// on Kubernetes, also on the cluster's nodes. It listens on port 8080 and serves a terminal page at /, its WebSocket at
// /ws, /echo and /healthz: see package webterm.
func TerminalImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.Terminal)
}

// StorageJobImage is like [TerminalImage] for the storage job's image, built from this source.
func StorageJobImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.StorageJob)
}

// These environment variables are for the program of [StorageJobTestImage]. The first makes it run as the storage job.
// The second makes it kill itself before the step with that number, counted from 1.
const (
	StorageJobTestEnv   = "STORAGEJOB_TEST_AS_JOB"
	StorageJobKillAtEnv = "STORAGEJOB_TEST_KILL_AT"
)

// StorageJobTestImage is like [TerminalImage], for a variant of the storage job's image. Its program is the job's test
// binary.
func StorageJobTestImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.StorageJobTest)
}

// GatewayImage is like [TerminalImage] for the gateway's image, built from this source.
func GatewayImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.Gateway)
}

// TestWorkspaceImage is like [TerminalImage] for the image of the conformance suite of container backends.
func TestWorkspaceImage(t testing.TB) string {
	t.Helper()
	return builtImage(t, image.TestWorkspace)
}

// built are the references of the images that this test binary has built. Their sources do not change while it runs.
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
	if OnKubernetes() {
		load(t, host, built.refs[i.Name])
	}
	return built.refs[i.Name]
}

// RemoveInstallation removes the containers, volumes and networks that carry the label of an
// installation, and its firewall rules. It runs at the end of a test that may have failed.
func RemoveInstallation(t testing.TB, engine *client.Client, installation string) {
	t.Helper()
	wait.For(t, "everything is removed", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
		defer cancel()
		return removeInstallation(ctx, engine, installation)
	})
}

func removeInstallation(ctx context.Context, engine *client.Client, installation string) error {
	err := server.RemoveInstallation(ctx, engine, installation, true)
	// Only a container of the product's image can make or remove firewall rules. Without that image there are none.
	if _, missing := engine.ImageInspect(ctx, spec.DefaultJobImage); missing != nil {
		return err
	}
	return errors.Join(err, docker.RemoveEgressRules(ctx, docker.Options{
		Host: engine.DaemonHost(), Installation: installation, Image: spec.DefaultJobImage,
	}))
}
