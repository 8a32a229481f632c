package egress

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/storagejob/contract"
)

// packet holds what the rules see of a connection's first packet.
type packet struct {
	from, to string
	protocol byte
	port     uint16
	sameLink bool
	reply    bool
}

// judge applies the rules as the kernel does, as far as their conditions are about fields of packet.
func judge(rules []rule, p packet) verdict {
	for _, r := range rules {
		if (r.replies && !p.reply) || (r.discovery) || (r.sameLink && !p.sameLink) ||
			(r.protocol != 0 && r.protocol != p.protocol) || (r.port != 0 && r.port != p.port) ||
			(r.source.IsValid() && !r.source.Contains(netip.MustParseAddr(p.from))) ||
			(r.to.IsValid() && !r.to.Contains(netip.MustParseAddr(p.to))) {
			continue
		}
		return r.then
	}
	return accept
}

func TestRules(t *testing.T) {
	r := contract.EgressRules{
		Table: "t", Bridge: "b",
		Allow: []contract.Destination{{Prefix: netip.MustParsePrefix("10.1.0.0/16")},
			{Prefix: netip.MustParsePrefix("10.2.0.5/32"), Port: 443}},
		Deny:     []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
		Gateways: []netip.Prefix{netip.MustParsePrefix("172.18.0.9/32")},
	}
	names := []netip.Addr{netip.MustParseAddr("169.254.169.254")}
	const ws = "172.18.0.2"
	for name, c := range map[string]struct {
		p              packet
		onward, toHost verdict
	}{
		"the internet":              {packet{from: ws, to: "93.184.216.34", protocol: protocolTCP, port: 443}, accept, reject},
		"the internet, IPv6":        {packet{from: "fd00::2", to: "2606:2800::1", protocol: protocolTCP, port: 443}, accept, reject},
		"a reply to the gateway":    {packet{from: ws, to: "10.9.9.9", protocol: protocolTCP, port: 5000, reply: true}, accept, accept},
		"a private network":         {packet{from: ws, to: "192.168.1.1", protocol: protocolTCP, port: 80}, reject, reject},
		"carriers' addresses":       {packet{from: ws, to: "100.100.100.200", protocol: protocolTCP, port: 80}, reject, reject},
		"metadata":                  {packet{from: ws, to: "169.254.169.254", protocol: protocolTCP, port: 80}, reject, reject},
		"names at the same address": {packet{from: ws, to: "169.254.169.254", protocol: protocolUDP, port: 53}, accept, accept},
		"multicast":                 {packet{from: ws, to: "224.0.0.251", protocol: protocolUDP, port: 5353}, reject, reject},
		"ULA":                       {packet{from: "fd00::2", to: "fd00:ec2::254", protocol: protocolTCP, port: 80}, reject, reject},
		"link-local, IPv6":          {packet{from: "fd00::2", to: "fe80::1", protocol: protocolTCP, port: 22}, reject, reject},
		"metadata behind NAT64":     {packet{from: "fd00::2", to: "64:ff9b::a9fe:a9fe", protocol: protocolTCP, port: 80}, reject, reject},
		"the internet behind NAT64": {packet{from: "fd00::2", to: "64:ff9b::5db8:d822", protocol: protocolTCP, port: 80}, accept, reject},
		"another workspace":         {packet{from: ws, to: "172.18.0.3", protocol: protocolTCP, port: 8080, sameLink: true}, drop, reject},
		"one with a public address": {packet{from: ws, to: "203.0.113.3", protocol: protocolTCP, port: 8080, sameLink: true}, drop, reject},
		"allowed network":           {packet{from: ws, to: "10.1.2.3", protocol: protocolUDP, port: 9}, accept, accept},
		"allowed port":              {packet{from: ws, to: "10.2.0.5", protocol: protocolTCP, port: 443}, accept, accept},
		"another port":              {packet{from: ws, to: "10.2.0.5", protocol: protocolTCP, port: 444}, reject, reject},
		"denied":                    {packet{from: ws, to: "198.51.100.7", protocol: protocolTCP, port: 443}, reject, reject},
		"from the gateway":          {packet{from: "172.18.0.9", to: ws, protocol: protocolTCP, port: 8080, sameLink: true}, accept, accept},
	} {
		if got := judge(forwarded(r, names), c.p); got != c.onward {
			t.Errorf("%s, passed on: %v, want %v", name, got, c.onward)
		}
		if got := judge(toHost(r, names), c.p); got != c.toHost {
			t.Errorf("%s, to the host: %v, want %v", name, got, c.toHost)
		}
	}
}

// TestJobRules: storage jobs can reach the store or, if its addresses change, one port of the internet. They can also
// reach name servers, but nothing private.
func TestJobRules(t *testing.T) {
	names := []netip.Addr{netip.MustParseAddr("10.0.0.53")}
	own := contract.JobRules{Bridge: "j",
		Store: []contract.Destination{{Prefix: netip.MustParsePrefix("10.2.0.5/32"), Port: 9000}}}
	public := contract.JobRules{Bridge: "j", PublicPort: 443}
	const job = "172.19.0.2"
	for name, c := range map[string]struct {
		p                  packet
		own, ownHost       verdict // for a store with a fixed address
		public, publicHost verdict // for a store whose addresses change
	}{
		"the store":             {packet{from: job, to: "10.2.0.5", protocol: protocolTCP, port: 9000}, accept, accept, reject, reject},
		"its other ports":       {packet{from: job, to: "10.2.0.5", protocol: protocolTCP, port: 22}, reject, reject, reject, reject},
		"its neighbour":         {packet{from: job, to: "10.2.0.6", protocol: protocolTCP, port: 9000}, reject, reject, reject, reject},
		"names":                 {packet{from: job, to: "10.0.0.53", protocol: protocolUDP, port: 53}, accept, accept, accept, accept},
		"the web there":         {packet{from: job, to: "10.0.0.53", protocol: protocolTCP, port: 443}, reject, reject, reject, reject},
		"the internet":          {packet{from: job, to: "93.184.216.34", protocol: protocolTCP, port: 443}, reject, reject, accept, reject},
		"the internet, IPv6":    {packet{from: "fd00::2", to: "2606:2800::1", protocol: protocolTCP, port: 443}, reject, reject, accept, reject},
		"another port of it":    {packet{from: job, to: "93.184.216.34", protocol: protocolTCP, port: 80}, reject, reject, reject, reject},
		"metadata":              {packet{from: job, to: "169.254.169.254", protocol: protocolTCP, port: 443}, reject, reject, reject, reject},
		"metadata behind NAT64": {packet{from: "fd00::2", to: "64:ff9b::a9fe:a9fe", protocol: protocolTCP, port: 443}, reject, reject, reject, reject},
		"another job":           {packet{from: job, to: "172.19.0.3", protocol: protocolTCP, port: 443, sameLink: true}, reject, reject, reject, reject},
		"a reply":               {packet{from: job, to: "192.168.1.1", protocol: protocolTCP, port: 5000, reply: true}, accept, accept, accept, accept},
	} {
		for what, got := range map[string][2]verdict{
			"own": {judge(jobsForwarded(own, names), c.p), c.own}, "own, to the host": {judge(jobsToHost(own, names), c.p), c.ownHost},
			"public": {judge(jobsForwarded(public, names), c.p), c.public}, "public, to the host": {judge(jobsToHost(public, names), c.p), c.publicHost},
		} {
			if got[0] != got[1] {
				t.Errorf("%s, %s: %v, want %v", name, what, got[0], got[1])
			}
		}
	}
}

func TestNameservers(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "[]",
		"nameserver 127.0.0.53\n":    "[]",
		"nameserver ::1\nsearch a\n": "[]",
		"# nameserver 1.2.3.4\nnameserver 10.0.0.2 \nnameserver 10.0.0.1\nnameserver 10.0.0.2\n": "[10.0.0.1 10.0.0.2]",
		"nameserver fe80::1%eth0\nnameserver x\nnameserver\n":                                    "[fe80::1]",
	} {
		if got := fmt.Sprint(parseNameservers(bufio.NewScanner(strings.NewReader(text)))); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

func TestRunAndProbe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		args, rules, says string
		code              int
	}{
		{"probe " + l.Addr().String() + " " + closed.Addr().String(), "", `"reached":["` + l.Addr().String() + `"]`, contract.ExitOK},
		{"probe 1ms " + l.Addr().String(), "", `"reached":["` + l.Addr().String() + `"]`, contract.ExitOK},
		{"probe", "", "addresses", contract.ExitUsage},
		{"apply", "", contract.EnvEgressRules, contract.ExitUsage},
		{"apply", `{"bridge":"b"}`, "name a table", contract.ExitUsage},
		{"open", `{"table":"t"}`, "not known", contract.ExitUsage},
	} {
		var out bytes.Buffer
		code := Run(t.Context(), strings.Fields(c.args), func(string) string { return c.rules }, &out)
		if code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: exit code %d, %s", c.args, code, out.String())
		}
		if _, err := contract.ParseEgressResult(out.Bytes()); (err != nil) != (code != contract.ExitOK) {
			t.Errorf("%s: %v", c.args, err)
		}
	}
}

// TestTheLastProbeCounts: the rules take effect while the probe is repeated.
func TestTheLastProbeCounts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if c, err := l.Accept(); err == nil {
			l.Close()
			c.Close()
		}
	}()
	if reached := settled(t.Context(), time.Millisecond, []string{l.Addr().String()}); len(reached) != 0 {
		t.Errorf("reached %q, which is closed since the first probe", reached)
	}
	if reached := settled(t.Context(), 0, []string{l.Addr().String()}); len(reached) != 0 {
		t.Errorf("reached %q", reached)
	}
}
