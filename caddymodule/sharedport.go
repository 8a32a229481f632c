package codehub

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/internal/listeners"
)

// checkPorts returns an error if another process listens at an address of this configuration's servers. Caddy would
// silently share the port with that process, and each of the two would get half of all requests.
func (a *App) checkPorts() error {
	if a.sharePorts {
		return nil
	}
	app, err := a.context.AppIfConfigured("http")
	if err != nil {
		return nil // there are no servers
	}
	var addresses []netip.AddrPort
	for _, server := range app.(*caddyhttp.App).Servers {
		for _, listen := range server.Listen {
			addresses = append(addresses, tcpAddresses(listen)...)
		}
	}
	others, err := listeners.Others(addresses)
	if err != nil {
		return err
	}
	if len(others) == 0 {
		return nil
	}
	var found []string
	for _, o := range others {
		found = append(found, o.String())
	}
	return fmt.Errorf("port %d is in use: by %s; end that process or choose another port (CODEHUB_HTTP_PORT), "+
		"or write `share_ports true` while a process of the same installation takes over from another",
		others[0].Address.Port(), strings.Join(found, ", and "))
}

// tcpAddresses returns the addresses of a server's listener; an invalid IP address stands for all interfaces. Unix
// sockets have none.
func tcpAddresses(listen string) (out []netip.AddrPort) {
	address, err := caddy.ParseNetworkAddressWithDefaults(caddy.NewReplacer().ReplaceAll(listen, ""), "tcp", 80)
	if err != nil || !strings.HasPrefix(address.Network, "tcp") {
		return nil
	}
	var ips []netip.Addr
	switch ip, err := netip.ParseAddr(strings.Trim(address.Host, "[]")); {
	case address.Host == "":
		ips = []netip.Addr{{}}
	case address.Host == "localhost":
		ips = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}
	case err == nil:
		ips = []netip.Addr{ip}
	}
	for port := address.StartPort; port <= address.EndPort; port++ {
		for _, ip := range ips {
			out = append(out, netip.AddrPortFrom(ip, uint16(port))) //nolint:gosec // Caddy has checked it
		}
	}
	return out
}
