package spec

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The allowed prefix lengths of a network.
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

// Range returns the addresses of a subnet for workspaces: all but the subnet's own address, the gateway, and the
// addresses that the engine may assign to others.
func Range(subnet netip.Prefix) (first netip.Addr, size int64) {
	base := Number(subnet.Addr())
	return IPv4(base + 2), Number(Dynamic(subnet).Addr()) - base - 2
}

// Dynamic returns the end of the subnet, from which the engine gives addresses to containers without a chosen one.
// Otherwise the engine would use resting addresses.
func Dynamic(subnet netip.Prefix) netip.Prefix {
	bits := min(subnet.Bits()+8, 30)
	end := Number(subnet.Addr()) + 1<<(32-subnet.Bits())
	return netip.PrefixFrom(IPv4(end-1<<(32-bits)), bits)
}

// Number returns the number of an IPv4 address. [IPv4] is its inverse.
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
