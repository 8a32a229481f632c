package server

import (
	"context"
	"errors"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// FindInstallation lists the containers and volumes that an installation has on an engine, or
// all installations for an empty id.
func FindInstallation(ctx context.Context, api *client.Client,
	id string) ([]container.Summary, []*volume.Volume, error) {
	containers, err := api.ContainerList(ctx, container.ListOptions{All: true, Filters: ofInstallation(id)})
	if err != nil {
		return nil, nil, err
	}
	volumes, err := api.VolumeList(ctx, volume.ListOptions{Filters: ofInstallation(id)})
	return containers, volumes.Volumes, err
}

func ofInstallation(id string) filters.Args {
	label := spec.LabelInstallation
	if id != "" {
		label += "=" + id
	}
	return filters.NewArgs(filters.Arg("label", label))
}

// RemoveInstallation removes the containers and networks of an installation, and, if all is set, its volumes, too.
// After an error it continues with the rest, and the caller may have to call it again: while the engine is already
// removing a container, it refuses a second removal, and the container still holds its volume.
func RemoveInstallation(ctx context.Context, api *client.Client, id string, all bool) error {
	containers, volumes, err := FindInstallation(ctx, api, id)
	if err != nil {
		return err
	}
	var errs []error
	for _, c := range containers {
		// RemoveVolumes concerns nameless volumes only: a storage job's scratch.
		err := api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	if all {
		for _, v := range volumes {
			errs = append(errs, api.VolumeRemove(ctx, v.Name, true))
		}
	}
	return errors.Join(append(errs, removeNetworks(ctx, api, ofInstallation(id)))...)
}

// removeNetworks removes the networks that the filters select. It does not prune, because an engine refuses one of two
// prunes at the same time.
func removeNetworks(ctx context.Context, api client.APIClient, selected filters.Args) error {
	networks, err := api.NetworkList(ctx, network.ListOptions{Filters: selected})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range networks {
		err := api.NetworkRemove(ctx, n.ID)
		if err != nil && strings.Contains(err.Error(), "active endpoints") {
			listed, failed := disconnectGone(ctx, api, n.ID)
			if err = errors.Join(err, failed); listed == 0 && failed == nil {
				err = nil // The engine counts an endpoint that it does not list, until it starts again: nobody can remove the network.
			}
		}
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// disconnectGone removes the endpoints of containers that no longer exist from a network. An engine may keep the
// endpoint of a container that was killed during its start: under the container's id, or under a name of its own. It
// returns how many endpoints the engine lists.
func disconnectGone(ctx context.Context, api client.APIClient, id string) (listed int, err error) {
	n, err := api.NetworkInspect(ctx, id, network.InspectOptions{})
	if err != nil {
		return 0, err
	}
	var errs []error
	for of, endpoint := range n.Containers {
		_, err := api.ContainerInspect(ctx, of)
		if errdefs.IsNotFound(err) {
			err = api.NetworkDisconnect(ctx, id, endpoint.Name, true)
		}
		errs = append(errs, err)
	}
	return len(n.Containers), errors.Join(errs...)
}
