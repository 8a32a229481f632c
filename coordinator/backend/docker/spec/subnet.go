package spec

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The sizes of a network, in bits of its prefix.
const minBits, maxBits = 8, 29

// ParseSubnet parses the setting of a network's subnet, such as 10.213.0.0/16.
func ParseSubnet(text string) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || !p.Addr().Is4() || p != p.Masked() || p.Bits() < minBits || p.Bits() > maxBits {
		return netip.Prefix{}, fmt.Errorf("%q must be a subnet of IPv4 from /%d to /%d, such as 10.213.0.0/16", text,
			minBits, maxBits)
	}
	return p, nil
}

// Range returns the addresses of a subnet that are given to workspaces. These are all but its own
// address, the gateway, and what the engine may give to others.
func Range(subnet netip.Prefix) (first netip.Addr, size int64) {
	base := Number(subnet.Addr())
	return IPv4(base + 2), Number(Dynamic(subnet).Addr()) - base - 2
}

// Dynamic is the end of the subnet, from which the engine chooses for those containers to
// which we do not give an address. Without it, it would take those that rest.
func Dynamic(subnet netip.Prefix) netip.Prefix {
	bits := min(subnet.Bits()+8, 30)
	end := Number(subnet.Addr()) + 1<<(32-subnet.Bits())
	return netip.PrefixFrom(IPv4(end-1<<(32-bits)), bits)
}

// Number and [IPv4] convert an address of IPv4 to its number and back.
func Number(a netip.Addr) int64 {
	b := a.As4()
	return int64(binary.BigEndian.Uint32(b[:]))
}

// IPv4 is the inverse of [Number].
func IPv4(n int64) netip.Addr {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], uint32(n))
	return netip.AddrFrom4(b)
}
