package docker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
)

// networkCache holds the id of the workspaces' network, so that a start does not look
// for it each time. Its lock is a channel, so that waiting for it honours the context.
type networkCache struct {
	lock chan struct{}
	id   string
}

// newNetworkCache returns an empty cache.
func newNetworkCache() networkCache { return networkCache{lock: make(chan struct{}, 1)} }

// ensureNetwork returns the id of the workspaces' network, and creates it if it does
// not exist. Containers refer to it by id, because an engine allows several networks
// with one name.
func (d *Docker) ensureNetwork(ctx context.Context) (string, error) {
	select {
	case d.net.lock <- struct{}{}:
		defer func() { <-d.net.lock }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if d.net.id != "" {
		return d.net.id, nil
	}
	id, err := d.findNetwork(ctx)
	if err == nil && id == "" {
		id, err = d.createNetwork(ctx)
	}
	if err != nil {
		return "", err
	}
	d.net.id = id
	return id, nil
}

// dropNetwork makes the next start look for the network again, because the one with
// this id no longer exists. Another goroutine may have found the new one already; that
// one is kept.
func (d *Docker) dropNetwork(ctx context.Context, id string) {
	select {
	case d.net.lock <- struct{}{}:
		if d.net.id == id {
			d.net.id = ""
		}
		<-d.net.lock
	case <-ctx.Done():
	}
}

// findNetwork returns the id of the network, or "" if it does not exist. If several
// processes created it at once, it keeps the oldest one and removes the others. A
// network without labels is used only if the operator named it.
func (d *Docker) findNetwork(ctx context.Context) (string, error) {
	name, chosen := d.opts.network()
	list, err := d.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", name))})
	if err != nil {
		return "", wrap("listing networks", err)
	}
	list = slices.DeleteFunc(list, func(n network.Summary) bool { return n.Name != name }) // the filter matches parts of names
	if len(list) == 0 {
		return "", nil
	}
	// The same order in every process, so that all of them keep the same network.
	slices.SortFunc(list, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	list = slices.DeleteFunc(list, func(n network.Summary) bool {
		owner := n.Labels[LabelInstallation]
		return owner != d.opts.Installation && (!chosen || owner != "")
	})
	if len(list) == 0 {
		return "", nameTaken("network", name)
	}
	keep := list[0]
	for _, n := range list[1:] {
		// The engine refuses to start a container on a network whose name is ambiguous.
		if n.Labels[LabelInstallation] == "" || d.removeNetwork(ctx, n.ID) {
			continue
		}
		// n has containers and must stay. Remove the one kept so far, unless that has
		// containers, too.
		if keep.Labels[LabelInstallation] != "" && d.removeNetwork(ctx, keep.ID) {
			keep = n
		}
	}
	return keep.ID, nil
}

// removeNetwork removes a network, which the engine refuses while it has containers. It
// reports whether the network is gone.
func (d *Docker) removeNetwork(ctx context.Context, id string) bool {
	err := d.api.NetworkRemove(ctx, id)
	return err == nil || errdefs.IsNotFound(err)
}

// createNetwork creates the network and returns the id of the one that stays. Containers
// on it cannot reach one another (SPEC 8). If several processes create it at once,
// findNetwork decides which one stays.
func (d *Docker) createNetwork(ctx context.Context) (string, error) {
	name, _ := d.opts.network()
	_, err := d.api.NetworkCreate(ctx, name, network.CreateOptions{
		Driver:  "bridge",
		Labels:  map[string]string{LabelInstallation: d.opts.Installation},
		Options: map[string]string{"com.docker.network.bridge.enable_icc": "false"},
	})
	if err != nil && !errdefs.IsConflict(err) {
		return "", wrap("creating network "+name, err)
	}
	id, err := d.findNetwork(ctx)
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", errors.New("creating network " + name + ": another process removed it immediately")
	}
	return id, nil
}
