package run

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend/docker"
)

const (
	// editorImage is the workspace image when a registry can be reached.
	editorImage = "codercom/code-server:4.139.1"
	// registryLimit is how long the registry may take to answer at all.
	registryLimit = 8 * time.Second
	// pullLimit is how long the download may take.
	pullLimit = 15 * time.Minute
	// pullAgain is when an unreachable registry is asked again.
	pullAgain = 24 * time.Hour
)

// reach is how the engine's containers and this machine reach each other.
type reach struct {
	// publish is CODEHUB_PUBLISH.
	publish string
	// jobNetwork and jobHost are how a storage job reaches a server on this machine's
	// loopback: in the host's network, or under another name. Without either it
	// cannot.
	jobNetwork, jobHost string
}

// reachOf tells how containers are reached, from what the engine says of itself.
func reachOf(goos string, info system.Info) reach {
	switch {
	case info.OperatingSystem == "Docker Desktop" || goos != "linux":
		// The engine runs in a virtual machine.
		return reach{publish: "loopback", jobHost: "host.docker.internal"}
	case slices.Contains(info.SecurityOptions, "name=rootless"):
		// The engine runs in a network namespace of its own.
		return reach{publish: "loopback"}
	}
	return reach{publish: "none", jobNetwork: "host"}
}

// engine talks to the Docker engine about what `make run` needs.
type engine struct{ api *client.Client }

func connectEngine(host string) (*engine, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("reading a Docker address: %w", err)
	}
	return &engine{api: api}, nil
}

func (e *engine) reach(ctx context.Context) (reach, error) {
	info, err := e.api.Info(ctx)
	if err != nil {
		return reach{}, fmt.Errorf("asking the Docker engine about itself: %w", err)
	}
	return reachOf(runtime.GOOS, info), nil
}

// editor makes the editor's image present and tells whether it is. A registry that
// cannot be reached is no error: there is another image then.
func (e *engine) editor(ctx context.Context, s *state, now time.Time) (bool, error) {
	_, err := e.api.ImageInspect(ctx, editorImage)
	if err == nil {
		return true, nil
	}
	if !errdefs.IsNotFound(err) {
		return false, fmt.Errorf("looking for the editor's image: %w", err)
	}
	if now.Sub(s.PullFailed) < pullAgain {
		return false, nil
	}
	if err := e.pull(ctx); err != nil {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		s.PullFailed = now
		return false, nil
	}
	s.PullFailed = time.Time{}
	return true, nil
}

func (e *engine) pull(ctx context.Context) error {
	// A question first, with a short limit; the download itself may be long.
	asking, cancel := context.WithTimeout(ctx, registryLimit)
	defer cancel()
	if _, err := e.api.DistributionInspect(asking, editorImage, ""); err != nil {
		return fmt.Errorf("asking the registry: %w", err)
	}
	pulling, cancel := context.WithTimeout(ctx, pullLimit)
	defer cancel()
	body, err := e.api.ImagePull(pulling, editorImage, image.PullOptions{})
	if err != nil {
		return fmt.Errorf("pulling the editor's image: %w", err)
	}
	defer body.Close()
	if _, err := io.Copy(io.Discard, body); err != nil {
		return fmt.Errorf("pulling the editor's image: %w", err)
	}
	// The stream may end with an error in its text: what counts is the image.
	if _, err := e.api.ImageInspect(pulling, editorImage); err != nil {
		return fmt.Errorf("pulling the editor's image: %w", err)
	}
	return nil
}

// removeContainers removes the containers of an installation and the network that
// they were on, but not their named volumes.
func (e *engine) removeContainers(ctx context.Context, installation string) error {
	ours := filters.NewArgs(filters.Arg("label", docker.LabelInstallation+"="+installation))
	found, err := e.api.ContainerList(ctx, container.ListOptions{
		All: true, Filters: ours,
	})
	if err != nil {
		return fmt.Errorf("listing the workspaces' containers: %w", err)
	}
	all, removing := errgroup.WithContext(ctx)
	for _, c := range found {
		all.Go(func() error {
			// RemoveVolumes is about nameless volumes only: a storage job's scratch.
			err := e.api.ContainerRemove(removing, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
			if err != nil && !errdefs.IsNotFound(err) {
				return fmt.Errorf("removing a workspace's container: %w", err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	// Their network is made anew when it is needed.
	if _, err := e.api.NetworksPrune(ctx, ours); err != nil {
		return fmt.Errorf("removing the workspaces' network: %w", err)
	}
	return nil
}
