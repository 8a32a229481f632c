package forward

import (
	"net/http"
	"net/netip"
	"strings"
)

const forwardedFor = "X-Forwarded-For"

// trimForwardedFor removes the addresses that come before the client's own address in the list, because the client has
// made them up. client is the client's address as the server knows it. A list of one address, the usual case, stays
// unchanged, and so does a list without the client's address.
func trimForwardedFor(h http.Header, client string) {
	lines := h[forwardedFor]
	if len(lines) == 0 || len(lines) == 1 && strings.IndexByte(lines[0], ',') < 0 {
		return
	}
	own, err := netip.ParseAddr(client)
	if err != nil {
		return
	}
	entries := strings.Split(strings.Join(lines, ","), ",")
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i] = strings.TrimSpace(entries[i]); addressOf(entries[i]) == own.Unmap() {
			h[forwardedFor] = []string{strings.Join(entries[i:], ", ")}
			return
		}
	}
}

// addressOf returns the address in an entry of the list, which may have a port or a zone.
func addressOf(entry string) netip.Addr {
	if at, err := netip.ParseAddrPort(entry); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	a, _ := netip.ParseAddr(strings.Trim(entry, "[]"))
	return a.Unmap().WithZone("")
}
