// Package network makes the networks of an installation's containers, and the firewall rules by
// which workspaces reach the internet and nothing of ours (SPEC 8). A short-lived container makes
// the rules in the network of the engine's host, with the program of the storage job's image.
//
// It owns networks with its installation's label, and the nftables table of its installation. It
// also owns the containers that make it, and the volume that remembers that the engine can have it.
// It decides whether something may start without the rules, by [egress.Options.Enforce]. It must
// not touch any other network or rule, nor a workspace's container.
package network

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/storagejob/contract"
)

// workspaceRules are the rules of an installation, for the containers on a bridge.
func workspaceRules(o egress.Options, installation, bridge string) (contract.EgressRules, error) {
	l, err := o.Lists()
	return contract.EgressRules{
		Table: tableName(installation), Bridge: bridge,
		Allow: l.Allow, Deny: l.Deny, Gateways: l.Gateways,
	}, err
}

// tableName is the installation's table. Hashed, because an installation's name may hold
// what nft does not read back as a name.
func tableName(installation string) string {
	sum := sha256.Sum256([]byte(installation))
	return "codehub_" + hex.EncodeToString(sum[:6])
}
