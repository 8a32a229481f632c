package bridge

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"strings"
)

// The sizes of a network, in bits of its prefix.
const (
	minBits, maxBits = 8, 29
	// defaultBits leaves room for addresses that rest: a Linux bridge holds 1,023
	// containers at once.
	defaultBits = 16
)

// ParseSubnet parses the setting of a network's subnet, such as 10.213.0.0/16.
func ParseSubnet(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() < minBits || p.Bits() > maxBits {
		return netip.Prefix{}, fmt.Errorf("%q must be a subnet of IPv4 from /%d to /%d, such as 10.213.0.0/16", text, minBits, maxBits)
	}
	return p, nil
}

// Range returns the addresses of a subnet that are given to workspaces: all but its own
// address, the gateway, and what the engine may give to others.
func Range(subnet netip.Prefix) (first netip.Addr, size int64) {
	base := Number(subnet.Addr())
	return Address(base + 2), Number(dynamic(subnet).Addr()) - base - 2
}

// dynamic is the end of the subnet, from which the engine chooses for those containers to
// which we do not give an address. Without it, it would take those that rest.
func dynamic(subnet netip.Prefix) netip.Prefix {
	bits := min(subnet.Bits()+8, 30)
	end := Number(subnet.Addr()) + 1<<(32-subnet.Bits())
	return netip.PrefixFrom(Address(end-1<<(32-bits)), bits)
}

// Number and Address convert an address of IPv4 to its number and back.
func Number(a netip.Addr) int64 {
	b := a.As4()
	return int64(binary.BigEndian.Uint32(b[:]))
}

// Address is the inverse of [Number].
func Address(n int64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	return netip.AddrFrom4(b)
}

// candidates returns the private subnets that overlap with nothing in use, beginning at
// one that depends on the owner: installations that know nothing of each other rarely
// choose the same. Those that the engine itself gives to networks come last.
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

// hostPrefixes returns what this machine has addresses in or routes to, except for the
// default route. The engine may run on another one; then avoiding these does no harm.
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

// routes parses /proc/net/route: destination and mask are the second and the eighth
// column, as hexadecimal numbers in the order of the machine.
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
