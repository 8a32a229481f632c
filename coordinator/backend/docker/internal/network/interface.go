package network

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/storagejob/contract"
)

// optionName is a network's option for the name of its interface on the engine's host.
const optionName = "com.docker.network.bridge.name"

// interfaceName returns the name of a new network's interface, at most 15 characters long. It is the same each time the
// network is created, so that firewall rules outlive the network.
func interfaceName(network, owner string) string {
	sum := sha256.Sum256([]byte(owner + "/" + network))
	return "ch-" + hex.EncodeToString(sum[:6])
}

// Interface returns the id of the network, and the name of its interface on the engine's host. It creates the network
// if necessary.
func (n *Network) Interface(ctx context.Context) (id, name string, err error) {
	var found network.Inspect
	for range 2 {
		if id, _, err = n.Ensure(ctx); err != nil {
			return "", "", err
		}
		if found, err = n.api.NetworkInspect(ctx, id, network.InspectOptions{}); !errdefs.IsNotFound(err) {
			break
		}
		n.Forget(ctx, id) // it was removed in the meantime
	}
	switch {
	case err != nil:
		return "", "", engine.Wrap("inspecting network "+n.name, err)
	case found.Driver != "bridge":
		return "", "", fmt.Errorf("%w: network %s has the driver %s: only a network of the driver bridge has an "+
			"interface that rules can be made for", contract.ErrUnable, n.name, found.Driver)
	case found.Options[optionName] != "":
		return id, found.Options[optionName], nil
	}
	return id, "br-" + found.ID[:min(len(found.ID), 12)], nil
}
