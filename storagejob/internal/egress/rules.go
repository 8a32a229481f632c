package egress

import (
	"net/netip"

	"github.com/codehub/gateway/storagejob/contract"
)

// verdict is the fate of a packet that a rule matches.
type verdict int

const (
	accept verdict = iota // this table accepts it; other tables follow
	reject                // with an answer, so that programs fail immediately
	drop                  // without an answer
)

// The ports and protocols that rules name.
const (
	portDNS        = 53
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMPv6 = 58
)

// The messages of neighbour discovery, from router solicitation to neighbour advertisement. Without them a container
// does not find its IPv6 router.
const firstDiscovery, lastDiscovery = 133, 136

// rule is a condition on a packet from the bridge. An empty field matches everything.
type rule struct {
	replies   bool         // the packet belongs to an accepted connection
	source    netip.Prefix // the packet's source
	to        netip.Prefix // the packet's destination
	protocol  byte
	port      uint16 // of the destination
	discovery bool   // the packet belongs to IPv6's neighbour discovery
	sameLink  bool   // the packet goes back to the bridge
	then      verdict
}

// forwarded returns the rules for packets that the host forwards. The first match decides. A packet that matches no
// rule continues to the internet.
func forwarded(r contract.EgressRules, nameservers []netip.Addr) []rule {
	rules := append(opened(r, nameservers), rule{sameLink: true, then: drop})
	for _, closed := range [][]netip.Prefix{r.Deny, contract.Private()} {
		for _, p := range closed {
			rules = append(rules, rule{to: p, then: reject})
		}
	}
	return rules
}

// toHost returns the rules for packets to any of the host's own addresses.
func toHost(r contract.EgressRules, nameservers []netip.Addr) []rule {
	return append(opened(r, nameservers),
		rule{protocol: protocolICMPv6, discovery: true, then: accept}, rule{then: reject})
}

// jobsForwarded and jobsToHost do the same for storage jobs, and refuse everything that no rule opens.
func jobsForwarded(j contract.JobRules, nameservers []netip.Addr) []rule {
	rules := opened(contract.EgressRules{Allow: j.Store}, nameservers)
	if j.PublicPort != 0 {
		for _, p := range contract.Private() {
			rules = append(rules, rule{to: p, then: reject})
		}
		rules = append(rules, rule{protocol: protocolTCP, port: j.PublicPort, then: accept})
	}
	return append(rules, rule{then: reject})
}

func jobsToHost(j contract.JobRules, nameservers []netip.Addr) []rule {
	return toHost(contract.EgressRules{Allow: j.Store}, nameservers)
}

// opened returns the rules that accept packets. The gateway's connections to containers do not come from the bridge, so
// these rules see only the replies on them.
func opened(r contract.EgressRules, nameservers []netip.Addr) []rule {
	rules := []rule{{replies: true, then: accept}}
	for _, p := range r.Gateways {
		rules = append(rules, rule{source: p, then: accept})
	}
	to := func(p netip.Prefix, port uint16) {
		if port == 0 {
			rules = append(rules, rule{to: p, then: accept})
			return
		}
		for _, protocol := range []byte{protocolTCP, protocolUDP} {
			rules = append(rules, rule{to: p, protocol: protocol, port: port, then: accept})
		}
	}
	for _, d := range r.Allow {
		to(d.Prefix, d.Port)
	}
	for _, a := range nameservers {
		to(netip.PrefixFrom(a, a.BitLen()), portDNS)
	}
	return rules
}
