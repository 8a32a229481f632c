package codehub

import (
	"net"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/logkey"
)

// maxUntrusted bounds how many proxies are reported: clients can pretend to be one.
const maxUntrusted = 16

// untrustedProxies reports the addresses (for IPv6, the /64 networks) that send forwarding headers but that Caddy does
// not trust, each once. It is safe for concurrent use; nil reports nothing.
type untrustedProxies struct {
	log       *zap.Logger
	mu        sync.RWMutex
	addresses map[string]bool
}

func newUntrustedProxies(log *zap.Logger) *untrustedProxies {
	return &untrustedProxies{log: log, addresses: make(map[string]bool)}
}

// seen reports where r comes from.
func (u *untrustedProxies) seen(r *http.Request) {
	if u == nil {
		return
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = "a Unix socket"
	}
	if ip, err := netip.ParseAddr(address); err == nil && ip.Is6() && !ip.Is4In6() {
		network, _ := ip.WithZone("").Prefix(64) // all of it may be one client's
		address = network.String()
	}
	u.mu.RLock()
	known := u.addresses[address] || len(u.addresses) >= maxUntrusted
	u.mu.RUnlock()
	if known {
		return
	}
	u.mu.Lock()
	if known = u.addresses[address] || len(u.addresses) >= maxUntrusted; !known {
		u.addresses[address] = true
	}
	u.mu.Unlock()
	if !known {
		u.log.Warn("a proxy that is not trusted forwards requests: what it says about clients, hosts and https is ignored, and "+
			"all who come through it count as one address; if it is yours, name it in the global options as "+
			"`servers { trusted_proxies static ADDRESS` and `trusted_proxies_strict }`", zap.String(logkey.Proxy, address))
	}
}

// trustsProxies reports whether a server that is provisioned has trusted_proxies. Caddy no longer has the
// configuration by then, and does not expose the result.
func trustsProxies(s *caddyhttp.Server) bool {
	field := reflect.ValueOf(s).Elem().FieldByName("trustedProxies")
	return field.IsValid() && !field.IsNil()
}

// servedBy is a server with handlers of ours.
type servedBy struct {
	*caddyhttp.Server
	strict bool // as it was configured
}

// serveBy adds a server that is being provisioned to the list, unless it is in the list already. It also makes the
// server strict, whatever the configuration says. A client's address is then the nearest address in X-Forwarded-For
// that does not belong to a trusted proxy. The first address in the header must not be used, because clients can make
// it up.
func serveBy(servers []servedBy, s *caddyhttp.Server) []servedBy {
	if slices.ContainsFunc(servers, func(there servedBy) bool { return there.Server == s }) {
		return servers
	}
	servers = append(servers, servedBy{s, s.TrustedProxiesStrict > 0})
	s.TrustedProxiesStrict = 1
	return servers
}

// warnOfAddresses logs problems with public_url, the servers' limits and their trusted proxies.
func warnOfAddresses(a settings.Addresses, servers []servedBy, log *zap.Logger) {
	var all []site.Server
	for _, s := range servers {
		all = append(all, site.Server{
			Name: s.Name(), MaxHeader: s.MaxHeaderBytes, TLS: len(s.TLSConnPolicies) > 0,
			Trusts: trustsProxies(s.Server) || s.TrustedProxiesUnix, Strict: s.strict,
		})
	}
	for _, advice := range site.Advise(a.Written, a.MainHost, all) {
		log.Warn("the settings of addresses or servers do not fit", zap.String(logkey.Problem, advice.Text), zap.String(logkey.Remedy, advice.Remedy))
	}
}
