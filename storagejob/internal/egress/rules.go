package egress

import (
	"net/netip"

	"github.com/codehub/gateway/storagejob/contract"
)

// verdict is what becomes of a packet that a rule matches.
type verdict int

const (
	accept verdict = iota // by this table; those of others follow
	reject                // with an answer, so that programs fail at once
	drop                  // without one
)

// The ports and protocols that rules name.
const (
	portDNS        = 53
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMPv6 = 58
)

// Neighbour discovery, without which a container does not find its IPv6 router: from
// router solicitation to neighbour advertisement.
const firstDiscovery, lastDiscovery = 133, 136

// rule is a condition on a packet that comes from the bridge. What is empty matches
// everything.
type rule struct {
	replies   bool         // the packet belongs to a connection that was let through
	source    netip.Prefix // where it comes from
	to        netip.Prefix // where it goes
	protocol  byte
	port      uint16 // of the destination
	discovery bool   // it is one of IPv6's neighbour discovery
	sameLink  bool   // it goes back to the bridge
	then      verdict
}

// forwarded are the rules for packets that the host passes on, the first match decides.
// What no rule matches goes on: to the internet.
func forwarded(r contract.EgressRules, nameservers []netip.Addr) []rule {
	rules := append(opened(r, nameservers), rule{sameLink: true, then: drop})
	for _, closed := range [][]netip.Prefix{r.Deny, contract.Private()} {
		for _, p := range closed {
			rules = append(rules, rule{to: p, then: reject})
		}
	}
	return rules
}

// toHost are the rules for packets to the host's own addresses, whichever they are.
func toHost(r contract.EgressRules, nameservers []netip.Addr) []rule {
	return append(opened(r, nameservers),
		rule{protocol: protocolICMPv6, discovery: true, then: accept}, rule{then: reject})
}

// jobsForwarded and jobsToHost are the same for storage jobs. What no rule opens is closed.
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

// opened are the rules that let packets through. The gateway's connections to containers
// come from elsewhere than the bridge: only their replies are judged here.
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
