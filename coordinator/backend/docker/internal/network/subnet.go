package network

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"strings"
)

// defaultBits is the prefix length of a network without a configured subnet. A Linux bridge holds at most 1,023
// containers at once, so most of the addresses can rest after their use.
const defaultBits = 16

// candidates returns the private subnets that overlap with none in use. Which one is first depends on the owner, so
// that installations that do not know of each other rarely choose the same subnet. The subnets that the engine itself
// uses for new networks come last.
func candidates(owner string, used []netip.Prefix) []netip.Prefix {
	var all []netip.Prefix
	add := func(text string) {
		p := netip.MustParsePrefix(text)
		for _, u := range used {
			if u.Overlaps(p) {
				return
			}
		}
		all = append(all, p)
	}
	h := fnv.New32a()
	h.Write([]byte(owner))
	const from, n = 128, 127
	start := int(h.Sum32() % n)
	for i := range n {
		add(fmt.Sprintf("10.%d.0.0/%d", from+(start+i)%n, defaultBits))
	}
	for i := 31; i >= 16; i-- {
		add(fmt.Sprintf("172.%d.0.0/%d", i, defaultBits))
	}
	return all
}

// hostPrefixes returns the subnets of this machine's addresses and routes, except for the default route. If the engine
// runs on another machine, avoiding these subnets does no harm.
func hostPrefixes() []netip.Prefix {
	var all []netip.Prefix
	addrs, _ := net.InterfaceAddrs()
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
			all = append(all, p.Masked())
		}
	}
	table, _ := os.ReadFile("/proc/net/route") // Linux only
	return append(all, routes(string(table))...)
}

// routes parses /proc/net/route: destination and mask are the second and the eighth column, hexadecimal and in the
// machine's byte order.
func routes(table string) []netip.Prefix {
	var all []netip.Prefix
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		to, err1 := hex.DecodeString(f[1])
		mask, err2 := hex.DecodeString(f[7])
		if err1 != nil || err2 != nil || len(to) != 4 || len(mask) != 4 {
			continue
		}
		bits := net.IPv4Mask(mask[3], mask[2], mask[1], mask[0])
		if ones, _ := bits.Size(); ones > 0 {
			all = append(all, netip.PrefixFrom(netip.AddrFrom4([4]byte{to[3], to[2], to[1], to[0]}), ones))
		}
	}
	return all
}
