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

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// LabelSubnet is the subnet of a network that was made with one of its own. Addresses in
// it can be chosen; in a network without it the engine chooses them.
const LabelSubnet = "codehub.subnet"

// Network is the network of an installation. It remembers its id, so that a start does not
// look for it each time. It is safe for concurrent use, and several processes may use the
// same name at once.
type Network struct {
	api    *engine.Client
	name   string
	chosen bool         // the operator chose the name: a network without the label will do
	subnet netip.Prefix // the operator's choice; none if it is not valid
	owner  string       // the installation

	lock chan struct{} // guards found; a channel, so that waiting for it honours the context
	found
}

// found is a network that exists. Its subnet is not valid if addresses cannot be chosen.
type found struct {
	id     string
	subnet netip.Prefix
}

// workspaces returns the network of an installation's workspaces. One without the
// installation's label is used only if the operator has chosen its name. The options are valid.
func workspaces(api *engine.Client, o spec.Options) *Network {
	name, chosen := o.WorkspaceNetwork()
	subnet, _ := spec.ParseSubnet(o.Subnet) // valid or empty
	return newNetwork(api, name, chosen, subnet, o.Installation)
}

// jobs returns the network that storage jobs have for themselves, or nil if they are on one that
// the options name.
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

// Ensure returns the id of the network, and creates it if it does not exist. Containers
// refer to it by id, because an engine allows several networks with one name. The subnet
// is not valid if the addresses in the network cannot be chosen.
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

// Serves reports whether containers may be on that network of the installation, so that
// it is not one that is left over.
func (n *Network) Serves(one network.Summary) bool {
	return one.Name == n.name || !n.chosen && strings.HasPrefix(one.Name, n.name+"-") && n.subnetOf(one).IsValid()
}

// subnetOf returns the subnet in which addresses of that network can be chosen. In one of
// the operator's, that is the part that the setting names.
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

// find returns the network, with no id if it does not exist, and every subnet that the
// engine has given to a network. If several processes created it at once, it keeps the
// oldest one and removes the others. So it does with one from before addresses were
// chosen, or with another subnet, once no container is left on it. A network without
// labels is used only if the operator named it.
func (n *Network) find(ctx context.Context) (it found, taken []netip.Prefix, err error) {
	list, err := n.api.NetworkList(ctx, network.ListOptions{})
	if err != nil {
		return it, nil, engine.Wrap("listing networks", err)
	}
	// The same order in every process, so that all of them keep the same network.
	slices.SortFunc(list, func(a, b network.Summary) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	occupied := false // another owner has the name
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
		// The engine refuses to remove one with containers, and to start a container on one
		// whose name is ambiguous.
		if owner == n.owner && !n.remove(ctx, one.ID) {
			taken = append(taken, prefixes(one)...)
		}
	}
	if it.id == "" && occupied {
		return it, nil, engine.NotOurs("network", n.name)
	}
	return it, taken, nil
}

// remove removes a network, which the engine refuses while it has containers. It
// reports whether the network is gone.
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

// create creates the network and returns the one that stays. Containers on it cannot
// reach one another (SPEC 8). If several processes create it at once, find decides which
// one stays.
func (n *Network) create(ctx context.Context, taken []netip.Prefix) (found, error) {
	subnets := []netip.Prefix{n.subnet}
	if !n.subnet.IsValid() {
		subnets = candidates(n.owner, append(taken, hostPrefixes()...))
	}
	err := errors.New("every private subnet is in use")
	for _, subnet := range subnets {
		// Workspaces that run on a network of an earlier release keep it, and its name.
		for _, name := range []string{n.name, n.name + "-" +
			strings.NewReplacer(".", "-", "/", "-").Replace(subnet.String())} {
			if err = n.createOne(ctx, name, subnet); err == nil || !errdefs.IsConflict(err) {
				break
			}
			// Another process has made it, or the one with the name must stay.
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

// createOne creates the network with that name and subnet, or finds that another process
// has created it.
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
