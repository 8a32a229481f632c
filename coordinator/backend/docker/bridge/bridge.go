// Package bridge finds or makes the network of the workspaces' containers.
//
// It owns networks with its installation's label, and must not touch any other. It knows
// nothing of containers.
package bridge

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
)

// Network is the network with one name. It remembers its id, so that a start does not
// look for it each time. It is safe for concurrent use, and several processes may use the
// same name at once.
type Network struct {
	api    *engine.Client
	name   string
	chosen bool   // the operator chose the name: a network without the label will do
	label  string // marks what belongs to the installation
	owner  string // the label's value: the installation

	lock chan struct{} // guards id; a channel, so that waiting for it honours the context
	id   string
}

// New returns the network of that name, which belongs to the owner that its label names.
// A network without the label is used only if the operator has chosen the name.
func New(api *engine.Client, name string, chosen bool, label, owner string) *Network {
	return &Network{api: api, name: name, chosen: chosen, label: label, owner: owner, lock: make(chan struct{}, 1)}
}

// Ensure returns the id of the network, and creates it if it does not exist. Containers
// refer to it by id, because an engine allows several networks with one name.
func (n *Network) Ensure(ctx context.Context) (string, error) {
	select {
	case n.lock <- struct{}{}:
		defer func() { <-n.lock }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if n.id != "" {
		return n.id, nil
	}
	id, err := n.find(ctx)
	if err == nil && id == "" {
		id, err = n.create(ctx)
	}
	if err != nil {
		return "", err
	}
	n.id = id
	return id, nil
}

// Forget makes the next Ensure look for the network again, because the one with this id
// no longer exists. Another goroutine may have found the new one already; that one is
// kept.
func (n *Network) Forget(ctx context.Context, id string) {
	select {
	case n.lock <- struct{}{}:
		if n.id == id {
			n.id = ""
		}
		<-n.lock
	case <-ctx.Done():
	}
}

// find returns the id of the network, or "" if it does not exist. If several
// processes created it at once, it keeps the oldest one and removes the others. A
// network without labels is used only if the operator named it.
func (n *Network) find(ctx context.Context) (string, error) {
	list, err := n.api.NetworkList(ctx, network.ListOptions{Filters: filters.NewArgs(filters.Arg("name", n.name))})
	if err != nil {
		return "", engine.Wrap("listing networks", err)
	}
	list = slices.DeleteFunc(list, func(one network.Summary) bool { return one.Name != n.name }) // the filter matches parts of names
	if len(list) == 0 {
		return "", nil
	}
	// The same order in every process, so that all of them keep the same network.
	slices.SortFunc(list, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	list = slices.DeleteFunc(list, func(one network.Summary) bool {
		owner := one.Labels[n.label]
		return owner != n.owner && (!n.chosen || owner != "")
	})
	if len(list) == 0 {
		return "", engine.NotOurs("network", n.name)
	}
	keep := list[0]
	for _, one := range list[1:] {
		// The engine refuses to start a container on a network whose name is ambiguous.
		if one.Labels[n.label] == "" || n.remove(ctx, one.ID) {
			continue
		}
		// It has containers and must stay. Remove the one kept so far, unless that has
		// containers, too.
		if keep.Labels[n.label] != "" && n.remove(ctx, keep.ID) {
			keep = one
		}
	}
	return keep.ID, nil
}

// remove removes a network, which the engine refuses while it has containers. It
// reports whether the network is gone.
func (n *Network) remove(ctx context.Context, id string) bool {
	err := n.api.NetworkRemove(ctx, id)
	return err == nil || errdefs.IsNotFound(err)
}

// create creates the network and returns the id of the one that stays. Containers
// on it cannot reach one another (SPEC 8). If several processes create it at once,
// find decides which one stays.
func (n *Network) create(ctx context.Context) (string, error) {
	_, err := n.api.NetworkCreate(ctx, n.name, network.CreateOptions{
		Driver:  "bridge",
		Labels:  map[string]string{n.label: n.owner},
		Options: map[string]string{"com.docker.network.bridge.enable_icc": "false"},
	})
	if err != nil && !errdefs.IsConflict(err) {
		return "", engine.Wrap("creating network "+n.name, err)
	}
	id, err := n.find(ctx)
	switch {
	case err != nil:
		return "", err
	case id == "":
		return "", errors.New("creating network " + n.name + ": another process removed it immediately")
	}
	return id, nil
}
