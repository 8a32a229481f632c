// Package network creates the networks of an installation's containers, and the firewall rules that let workspaces
// reach the internet but none of the operator's own services (SPEC 8). A short-lived container applies the rules in the
// network of the engine's host, with the program of the storage job's image.
//
// It owns networks with its installation's label, and the nftables table of its installation. It also owns the
// containers that create the table, and the volume that records that the engine supports it. It decides whether
// anything may start without the rules, by [egress.Options.Enforce]. It must not touch any other network or rule, nor a
// workspace's container.
package network

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/storagejob/contract"
)

// workspaceRules returns an installation's rules for the containers on a bridge.
func workspaceRules(o egress.Options, installation, bridge string) (contract.EgressRules, error) {
	l, err := o.Lists()
	return contract.EgressRules{
		Table: tableName(installation), Bridge: bridge,
		Allow: l.Allow, Deny: l.Deny, Gateways: l.Gateways,
	}, err
}

// tableName returns the name of the installation's table. It is hashed, because nft does not accept every
// installation's name.
func tableName(installation string) string {
	sum := sha256.Sum256([]byte(installation))
	return "codehub_" + hex.EncodeToString(sum[:6])
}
