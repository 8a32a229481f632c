// Package listeners finds the other processes that listen on an address. Caddy listens with SO_REUSEPORT, so the kernel
// lets a second process listen there, too, and gives it half of the connections.
//
// It owns reading the kernel's tables. It must not know what the addresses are for.
package listeners

import (
	"fmt"
	"net/netip"
)

// Listener is a socket of another process that accepts connections to an address.
type Listener struct {
	// Address is where it listens.
	Address netip.AddrPort
	// PID and Program identify the process. They are 0 and "" for a process of another user, which this one cannot
	// inspect.
	PID     int
	Program string
}

// String describes the listener for a message.
func (l Listener) String() string {
	if l.PID == 0 {
		return fmt.Sprintf("a process of another user, at %s", l.Address)
	}
	return fmt.Sprintf("%s with the process id %d, at %s", l.Program, l.PID, l.Address)
}

// overlaps reports whether two sockets on these addresses would receive the same connections. An invalid or unspecified
// address stands for all interfaces.
func overlaps(a, b netip.AddrPort) bool {
	if a.Port() != b.Port() {
		return false
	}
	x, y := a.Addr().Unmap(), b.Addr().Unmap()
	all := func(ip netip.Addr) bool { return !ip.IsValid() || ip.IsUnspecified() }
	return x == y ||
		all(x) && (all(y) || x.Is6() || !x.IsValid() || y.Is4()) ||
		all(y) && (y.Is6() || !y.IsValid() || x.Is4())
}
