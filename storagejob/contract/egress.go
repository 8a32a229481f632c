package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// The program's egress task: the rules about what workspaces can reach. It is the first argument; the second one
// selects what to do with the rules.
const (
	Egress       = "egress"
	EgressApply  = "apply"  // replace the installation's rules
	EgressStatus = "status" // report whether they are in place, and change nothing
	EgressRemove = "remove" // remove them
	// EgressProbe tries to connect to the addresses that follow. If a duration precedes them, it repeats the attempt
	// for that long, and the last attempt counts.
	EgressProbe = "probe"
)

// EnvEgressRules holds an [EgressRules] as JSON. It holds no secret.
const EnvEgressRules = "CODEHUB_EGRESS_RULES"

// ResolvedPath is the folder in which systemd-resolved lists the name servers that it asks.
const ResolvedPath = "/run/systemd/resolve"

// EgressRules say what the containers on one bridge can reach: replies, the destinations in Allow, name servers and the
// internet. All private addresses are closed, including the engine's host.
type EgressRules struct {
	// Table is the name of the table in nftables. The table belongs to the installation alone.
	Table string `json:"table"`
	// Bridge is the name of the containers' network interface.
	Bridge string `json:"bridge"`
	// Allow opens destinations, and takes precedence over all rules that close something.
	Allow []Destination `json:"allow,omitempty"`
	// Deny also closes public addresses.
	Deny []netip.Prefix `json:"deny,omitempty"`
	// Gateways are sources on the bridge to which no rule applies.
	Gateways []netip.Prefix `json:"gateways,omitempty"`
	// Jobs, if set, are the rules of the storage jobs.
	Jobs *JobRules `json:"jobs,omitempty"`
}

// JobRules say what the storage jobs can reach on their own bridge: the object store and name servers only.
type JobRules struct {
	Bridge string        `json:"bridge"`
	Store  []Destination `json:"store,omitempty"`
	// PublicPort, unless 0, opens a TCP port everywhere on the internet. It is for a store whose addresses change from
	// one minute to the next.
	PublicPort uint16 `json:"public_port,omitempty"`
}

// Destination is an address or a network, and a port for TCP and UDP; 0 means all ports and protocols.
type Destination struct {
	Prefix netip.Prefix `json:"prefix"`
	Port   uint16       `json:"port,omitempty"`
}

// EgressResult is the last line that the program prints.
type EgressResult struct {
	// Error says what failed; it is empty on success.
	Error string `json:"error,omitempty"`
	// Unable reports that the engine's host cannot have such rules, or does not let a container create them: a retry
	// does not help.
	Unable bool `json:"unable,omitempty"`
	// Stood reports that exactly these rules were already in place.
	Stood bool `json:"stood"`
	// Nameservers are the name servers of the engine's host that the rules leave open.
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	// Reached lists the addresses given to [EgressProbe] to which a connection succeeded.
	Reached []string `json:"reached,omitempty"`
}

// ErrUnable marks rules that the engine's host does not support, or does not let a container create.
var ErrUnable = errors.New("the engine's host cannot have these rules")

// ParseEgressResult reads the last line of the program's output.
func ParseEgressResult(output []byte) (EgressResult, error) {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	var r EgressResult
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return r, fmt.Errorf("the program printed no result, but %.300q; is the image that of this release's "+
			"storage job?", output)
	}
	switch {
	case r.Error != "" && r.Unable:
		return r, fmt.Errorf("%w: %s", ErrUnable, r.Error)
	case r.Error != "":
		return r, errors.New(r.Error)
	}
	return r, nil
}

// private are the addresses that do not exist on the internet, or belong to a machine or a network. The documentation
// addresses are not among them: nothing answers there.
var private = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	"::/127", "::ffff:0:0/96", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	// The private IPv4 addresses behind a translation to IPv4 (RFC 6052, RFC 8215).
	"64:ff9b::a00:0/104", "64:ff9b::6440:0/106", "64:ff9b::7f00:0/104", "64:ff9b::a9fe:0/112",
	"64:ff9b::ac10:0/108", "64:ff9b::c0a8:0/112", "64:ff9b:1::/48",
}

// Private returns the addresses and networks that do not exist on the internet, or belong to a machine or a network.
func Private() []netip.Prefix {
	all := make([]netip.Prefix, len(private))
	for i, text := range private {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}
