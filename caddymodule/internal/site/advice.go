package site

import (
	"fmt"
	"net/url"
	"strings"
)

// Server is the part of a Caddy server that affects the addresses of clients and browsers.
type Server struct {
	Name string
	// TLS says that the server terminates TLS itself.
	TLS bool
	// MaxHeader bounds the headers of a request, in bytes; 0 is Caddy's own limit.
	MaxHeader int
	// Trusts says that the server has trusted_proxies, and Strict that it also has trusted_proxies_strict.
	Trusts, Strict bool
}

// HeaderRoom is the size, in bytes, that a request's headers can reach with all the cookies that a page can plant:
// about 180 per domain, each of 4 kB. If a server refuses such a request (431), the cookies can never be deleted
// ([Address.ClearPlanted]). It is the default of Go's servers.
const HeaderRoom = 1 << 20

// Advice is a problem that does not keep an installation from starting, with its remedy.
type Advice struct{ Text, Remedy string }

// Advise checks the servers of an installation, its setting public_url, "" if it is not set, and the host where
// people sign in.
func Advise(publicURL, mainHost string, servers []Server) (advice []Advice) {
	warn := func(remedy, format string, args ...any) {
		advice = append(advice, Advice{fmt.Sprintf(format, args...), remedy})
	}
	public, err := url.Parse(publicURL)
	isPublic := err == nil && public.Host != ""
	if isPublic && public.Scheme == httpScheme && !IsLocal(public.Host) {
		warn("write public_url https://"+public.Host+", with a certificate here or at a proxy in front",
			"public_url is %s: passwords and the cookies of sessions cross the network in the clear", publicURL)
	}
	if main, _ := splitHost(mainHost); isPublic && main != "" && !strings.EqualFold(main, public.Hostname()) {
		warn("give both the same host, or leave main_host out",
			"public_url is %s, and people sign in at %s alone (main_host): elsewhere they get 421", publicURL, mainHost)
	}
	for _, s := range servers {
		if s.MaxHeader < HeaderRoom {
			warn("write `servers { max_header_size 1MiB }` into the global options",
				"the server %s refuses large headers (431): cookies that a page of a workspace sets for the whole domain can lock its user out",
				s.Name)
		}
		switch {
		case s.Trusts && !s.Strict:
			warn("add trusted_proxies_strict to the option servers",
				"the server %s has trusted_proxies without trusted_proxies_strict, which is in force here all the same: by the first "+
					"address in X-Forwarded-For, clients would choose where their wrong passwords count and what stands in the audit", s.Name)
		case !s.Trusts && !s.TLS && isPublic && public.Scheme == httpsScheme:
			warn("name the proxy in the option servers: trusted_proxies static ADDRESS, and trusted_proxies_strict",
				"public_url is %s and the server %s has no certificate, so a proxy in front ends TLS, and the server trusts none: "+
					"all clients count as one address", publicURL, s.Name)
		}
	}
	return advice
}
