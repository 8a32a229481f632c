package server

import (
	"context"
	"errors"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
)

// RemoveNetworks removes the networks that the filters select. It does not prune: of two
// prunes at once an engine refuses one.
func RemoveNetworks(ctx context.Context, api client.NetworkAPIClient, selected filters.Args) error {
	networks, err := api.NetworkList(ctx, network.ListOptions{Filters: selected})
	if err != nil {
		return err
	}
	var errs []error
	for _, n := range networks {
		err := api.NetworkRemove(ctx, n.ID)
		if err != nil && strings.Contains(err.Error(), "active endpoints") {
			err = errors.Join(err, disconnectGone(ctx, api, n.ID))
		}
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// disconnectGone removes from a network what is left there of containers that do not exist
// any more: of one that was killed while it was being started, an engine may keep the
// endpoint. It has such a name instead of the container's id.
func disconnectGone(ctx context.Context, api client.NetworkAPIClient, id string) error {
	n, err := api.NetworkInspect(ctx, id, network.InspectOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for of, endpoint := range n.Containers {
		if strings.HasPrefix(of, "ep-") {
			errs = append(errs, api.NetworkDisconnect(ctx, id, endpoint.Name, true))
		}
	}
	return errors.Join(errs...)
}
