package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// LabelSubnet holds the subnet of a network that was created with one. In such a network, this program chooses the
// addresses of containers; in others, the engine does.
const LabelSubnet = "codehub.subnet"

// Network is the network of an installation. It remembers the network's id, so that a start need not look for it. It is
// safe for concurrent use. Several processes may use the same name at once.
type Network struct {
	api    *engine.Client
	name   string
	chosen bool         // the operator chose the name: a network without the label is fine
	subnet netip.Prefix // the operator's choice; invalid if there is none
	owner  string       // the installation

	lock chan struct{} // guards found; a channel, so that waiting ends with the context
	found
}

// found is a network that exists. Its subnet is invalid if the engine chooses addresses.
type found struct {
	id     string
	subnet netip.Prefix
}

// workspaces returns the network of an installation's workspaces. It uses a network without the installation's label
// only if the operator has chosen its name. The options are valid.
func workspaces(api *engine.Client, o spec.Options) *Network {
	name, chosen := o.WorkspaceNetwork()
	subnet, _ := spec.ParseSubnet(o.Subnet) // valid or empty
	return newNetwork(api, name, chosen, subnet, o.Installation)
}

// jobs returns the network that only storage jobs use, or nil if the options name a network for them.
func jobs(api *engine.Client, o spec.Options) *Network {
	name := o.OwnJobNetwork()
	if name == "" {
		return nil
	}
	return newNetwork(api, name, false, netip.Prefix{}, o.Installation)
}

func newNetwork(api *engine.Client, name string, chosen bool, subnet netip.Prefix, owner string) *Network {
	return &Network{api: api, name: name, chosen: chosen, subnet: subnet, owner: owner, lock: make(chan struct{}, 1)}
}

// Ensure returns the id of the network, and creates the network if necessary. Containers refer to it by id, because an
// engine allows several networks with one name. The subnet is invalid if the engine chooses the addresses.
func (n *Network) Ensure(ctx context.Context) (id string, subnet netip.Prefix, err error) {
	select {
	case n.lock <- struct{}{}:
		defer func() { <-n.lock }()
	case <-ctx.Done():
		return "", netip.Prefix{}, ctx.Err()
	}
	if n.id == "" {
		it, taken, err := n.find(ctx)
		if err == nil && it.id == "" {
			it, err = n.create(ctx, taken)
		}
		if err != nil {
			return "", netip.Prefix{}, err
		}
		n.found = it
	}
	return n.id, n.found.subnet, nil
}

// Forget makes the next Ensure look for the network again, because the one with this id no longer exists. If another
// goroutine has already found the new network, Forget keeps it.
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

// Serves reports whether the installation still uses that network.
func (n *Network) Serves(one network.Summary) bool {
	return one.Name == n.name || !n.chosen && strings.HasPrefix(one.Name, n.name+"-") && n.subnetOf(one).IsValid()
}

// subnetOf returns the subnet in which this program chooses that network's addresses. In the operator's network, it is
// the part that the setting names.
func (n *Network) subnetOf(one network.Summary) netip.Prefix {
	subnet := n.subnet
	if one.Labels[spec.LabelInstallation] == n.owner {
		subnet, _ = netip.ParsePrefix(one.Labels[LabelSubnet])
	}
	if n.subnet.IsValid() && subnet != n.subnet {
		return netip.Prefix{}
	}
	for _, p := range prefixes(one) {
		if subnet.IsValid() && p.Bits() <= subnet.Bits() && p.Overlaps(subnet) {
			return subnet
		}
	}
	return netip.Prefix{}
}

// prefixes returns the subnets of a network.
func prefixes(one network.Summary) []netip.Prefix {
	var all []netip.Prefix
	for _, c := range one.IPAM.Config {
		if p, err := netip.ParsePrefix(c.Subnet); err == nil && p.Addr().Is4() {
			all = append(all, p.Masked())
		}
	}
	return all
}

// find returns the network, without an id if it does not exist, and every subnet that the engine has given to a
// network. If several processes created it at once, find keeps the oldest one and removes the others. It also removes
// networks that no container uses any more, if they have another subnet or are from a release that did not choose
// addresses. It accepts a network without labels only if the operator named it.
func (n *Network) find(ctx context.Context) (it found, taken []netip.Prefix, err error) {
	list, err := n.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return it, nil, engine.Wrap("listing networks", err)
	}
	// All processes use the same order, so that they keep the same network.
	slices.SortFunc(list, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	occupied := false // another owner's network has the name
	for _, one := range list {
		owner, named := one.Labels[spec.LabelInstallation], one.Name == n.name
		switch {
		case n.chosen && named && (owner == n.owner || owner == ""),
			!n.chosen && owner == n.owner && (named || strings.HasPrefix(one.Name, n.name+"-")):
		default:
			occupied = occupied || named
			taken = append(taken, prefixes(one)...)
			continue
		}
		subnet := n.subnetOf(one)
		switch {
		case n.chosen && owner == "" && n.subnet.IsValid() && !subnet.IsValid():
			return it, nil, fmt.Errorf("network %s has no subnet that contains %s: set docker subnet to a "+
				"part of its own", n.name, n.subnet)
		case it.id == "" && (n.chosen || subnet.IsValid()):
			it = found{one.ID, subnet}
			continue
		}
		// The engine refuses to remove a network with containers, and to start a container on a network with an
		// ambiguous name.
		if owner == n.owner && !n.remove(ctx, one.ID) {
			taken = append(taken, prefixes(one)...)
		}
	}
	if it.id == "" && occupied {
		return it, nil, backend.NotOurs("network", n.name)
	}
	return it, taken, nil
}

// remove removes a network and reports whether it is gone. The engine refuses while the network has containers.
func (n *Network) remove(ctx context.Context, id string) bool {
	err := n.api.NetworkRemove(ctx, id)
	return err == nil || errdefs.IsNotFound(err)
}

// While another process creates the network, create tries again at this interval and for
// this long.
const (
	createEvery = 50 * time.Millisecond
	createFor   = 15 * time.Second
)

// create creates the network and returns the one that stays. Its containers cannot reach one another (SPEC 8). If
// several processes create it at once, find decides which one stays.
func (n *Network) create(ctx context.Context, taken []netip.Prefix) (found, error) {
	subnets := []netip.Prefix{n.subnet}
	if !n.subnet.IsValid() {
		subnets = candidates(n.owner, append(taken, hostPrefixes()...))
	}
	err := errors.New("every private subnet is in use")
	for _, subnet := range subnets {
		// Workspaces on a network of an earlier release keep it, and its name.
		for _, name := range []string{n.name, n.name + "-" +
			strings.NewReplacer(".", "-", "/", "-").Replace(subnet.String())} {
			if err = n.createOne(ctx, name, subnet); err == nil || !errdefs.IsConflict(err) {
				break
			}
			// Another process has created the network, or there is another network with that name, which must stay.
			if it, _, found := n.find(ctx); found != nil || it.id != "" {
				return it, found
			}
		}
		if !engine.SubnetTaken.Is(err) {
			break
		}
	}
	if err != nil {
		return found{}, engine.Wrap("creating network "+n.name+"; if no subnet is free, set docker subnet to one "+
			"that nothing else uses", err)
	}
	it, _, err := n.find(ctx)
	if err == nil && it.id == "" {
		err = errors.New("creating network " + n.name + ": another process removed it immediately")
	}
	return it, err
}

// createOne creates the network with that name and subnet, or finds the one that another process has created.
func (n *Network) createOne(ctx context.Context, name string, subnet netip.Prefix) error {
	limit := time.NewTimer(createFor)
	defer limit.Stop()
	for {
		_, err := n.api.NetworkCreate(ctx, name, network.CreateOptions{
			Driver: "bridge",
			Labels: map[string]string{spec.LabelInstallation: n.owner, LabelSubnet: subnet.String()},
			Options: map[string]string{
				"com.docker.network.bridge.enable_icc": "false", optionName: interfaceName(name, n.owner),
			},
			IPAM: &network.IPAM{Config: []network.IPAMConfig{{
				Subnet: subnet.String(), IPRange: spec.Dynamic(subnet).String(), Gateway: subnet.Addr().Next().String(),
			}}},
		})
		if !engine.InterfaceTaken.Is(err) {
			return err
		}
		if it, _, found := n.find(ctx); found != nil || it.id != "" {
			return found
		}
		select {
		case <-time.After(createEvery):
		case <-limit.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
