package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

const (
	// editorImage is the workspace image when a registry can be reached.
	editorImage = "codercom/code-server:4.139.1"
	// registryLimit is how long the registry may take to answer at all, and pullLimit how
	// long the download may take.
	registryLimit, pullLimit = 8 * time.Second, 15 * time.Minute
)

// withEngine calls ask with a client of the Docker engine at host.
func withEngine(host string, ask func(*client.Client) error) error {
	api, err := server.EngineClient(host)
	if err != nil {
		return err
	}
	defer api.Close()
	if err := ask(api); err != nil {
		return fmt.Errorf("asking the Docker engine: %w", err)
	}
	return nil
}

// checkReach returns an error if this machine and the engine's containers cannot reach each other: they must share this
// machine's network.
func checkReach(info system.Info) error {
	if info.OperatingSystem == "Docker Desktop" || slices.Contains(info.SecurityOptions, "name=rootless") {
		return errors.New("the Docker engine is Docker Desktop or a rootless one, which has a network of its own: " +
			"set CODEHUB_PUBLISH=loopback, and S3_ENDPOINT to a store that its containers can reach, " +
			"or use another engine")
	}
	return nil
}

// pullEditor makes the editor's image present. It does not wait for a registry that does
// not answer.
func pullEditor(ctx context.Context, host string) error {
	return withEngine(host, func(api *client.Client) error {
		if _, err := api.ImageInspect(ctx, editorImage); !errdefs.IsNotFound(err) {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, registryLimit)
		defer cancel()
		if _, err := api.DistributionInspect(asking, editorImage, ""); err != nil {
			return err
		}
		pulling, cancel := context.WithTimeout(ctx, pullLimit)
		defer cancel()
		body, err := api.ImagePull(pulling, editorImage, image.PullOptions{})
		if err != nil {
			return err
		}
		defer body.Close()
		if _, err := io.Copy(io.Discard, body); err != nil {
			return err
		}
		// The stream may end with an error in its text, so check whether the image is there.
		_, err = api.ImageInspect(pulling, editorImage)
		return err
	})
}

// removeContainers removes the containers of an installation and the network that they
// were on. Their named volumes stay, so that the next run starts the workspaces again.
func removeContainers(ctx context.Context, host, installation string) error {
	return withEngine(host, func(api *client.Client) error {
		return server.RemoveInstallation(ctx, api, installation, false)
	})
}

// removeRules removes the firewall rules of an installation from the engine's host.
func removeRules(ctx context.Context, host, installation, jobImage string) error {
	return docker.RemoveEgressRules(ctx,
		docker.Options{Host: host, Installation: installation, JobImage: jobImage, Image: jobImage})
}
