package contract

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

// The program's other task: the rules about what workspaces reach. It is the first
// argument; the second says what to do with the rules.
const (
	Egress       = "egress"
	EgressApply  = "apply"  // replace the installation's rules
	EgressStatus = "status" // say whether they stand, and change nothing
	EgressRemove = "remove" // remove them
	// EgressProbe tries to connect to the addresses that follow; with a duration before them,
	// again and again for so long, and the last try counts.
	EgressProbe = "probe"
)

// EnvEgressRules holds an [EgressRules] as JSON. It holds no secret.
const EnvEgressRules = "CODEHUB_EGRESS_RULES"

// ResolvedPath is where systemd-resolved tells of the name servers that it asks.
const ResolvedPath = "/run/systemd/resolve"

// EgressRules say what the containers on one bridge may reach: replies, what Allow lists,
// name servers, and the internet. Everything private is closed, the engine's host included.
type EgressRules struct {
	// Table is the name of the table in nftables, which is the installation's own.
	Table string `json:"table"`
	// Bridge is the name of the network interface that the containers are behind.
	Bridge string `json:"bridge"`
	// Allow opens destinations. It goes before everything that closes.
	Allow []Destination `json:"allow,omitempty"`
	// Deny closes public addresses, too.
	Deny []netip.Prefix `json:"deny,omitempty"`
	// Gateways are sources on the bridge that no rule concerns.
	Gateways []netip.Prefix `json:"gateways,omitempty"`
	// Jobs, if set, are the rules of the storage jobs.
	Jobs *JobRules `json:"jobs,omitempty"`
}

// JobRules say what the storage jobs reach, on a bridge of their own: the object store, name
// servers, and nothing else.
type JobRules struct {
	Bridge string        `json:"bridge"`
	Store  []Destination `json:"store,omitempty"`
	// PublicPort, unless 0, opens a port of TCP everywhere on the internet. It is for a store
	// whose addresses change from one minute to the next.
	PublicPort uint16 `json:"public_port,omitempty"`
}

// Destination is an address or a network, and a port of TCP and UDP; 0 means all ports and
// protocols.
type Destination struct {
	Prefix netip.Prefix `json:"prefix"`
	Port   uint16       `json:"port,omitempty"`
}

// EgressResult is the last line that the program prints.
type EgressResult struct {
	// Error says what failed; empty means that nothing did.
	Error string `json:"error,omitempty"`
	// Unable says that the engine's host cannot have such rules, or does not let a container make
	// them: trying again does not help.
	Unable bool `json:"unable,omitempty"`
	// Stood says that exactly these rules were there before.
	Stood bool `json:"stood"`
	// Nameservers are the ones of the engine's host that the rules leave open.
	Nameservers []netip.Addr `json:"nameservers,omitempty"`
	// Reached are those of the addresses to [EgressProbe] that a connection was made to.
	Reached []string `json:"reached,omitempty"`
}

// ErrUnable marks what the engine's host cannot do, or does not let a container do.
var ErrUnable = errors.New("the engine's host cannot have these rules")

// ParseEgressResult reads the last line of the program's output.
func ParseEgressResult(output []byte) (EgressResult, error) {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	var r EgressResult
	if err := json.Unmarshal(lines[len(lines)-1], &r); err != nil {
		return r, fmt.Errorf("the program printed no result, but %.300q; is the image the storage job's of this "+
			"release?", output)
	}
	switch {
	case r.Error != "" && r.Unable:
		return r, fmt.Errorf("%w: %s", ErrUnable, r.Error)
	case r.Error != "":
		return r, errors.New(r.Error)
	}
	return r, nil
}

// private are the addresses that do not exist on the internet, or are a machine's or a
// network's own. Those of documentation are not among them: nothing answers there.
var private = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
	"::/127", "::ffff:0:0/96", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
	// The private addresses of IPv4 behind a translation to IPv4 (RFC 6052, RFC 8215).
	"64:ff9b::a00:0/104", "64:ff9b::6440:0/106", "64:ff9b::7f00:0/104", "64:ff9b::a9fe:0/112",
	"64:ff9b::ac10:0/108", "64:ff9b::c0a8:0/112", "64:ff9b:1::/48",
}

// Private returns the addresses and networks that do not exist on the internet, or are a
// machine's or a network's own.
func Private() []netip.Prefix {
	all := make([]netip.Prefix, len(private))
	for i, text := range private {
		all[i] = netip.MustParsePrefix(text)
	}
	return all
}
