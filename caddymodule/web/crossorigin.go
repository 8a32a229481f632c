package web

import (
	"net"
	"net/http"
	"strings"
)

// crossOrigin is the standard library's check of Sec-Fetch-Site and Origin.
var crossOrigin http.CrossOriginProtection

// CrossOrigin reports whether a page of another origin makes a request that acts
// with the user's rights: one with an unsafe method, or a WebSocket handshake, which
// is judged as a POST. SameSite cookies do not prevent such requests, because the
// hosts of all workspaces are the same site. Programs send neither Sec-Fetch-Site nor
// Origin; what they send is never cross origin.
//
// The origin must be that of the host that the request names. Behind a proxy that
// rewrites Host it may also be that of X-Forwarded-Host, if the proxy is trusted,
// or, except on a workspace's own host, that of the setting main_host.
func (s *Site) CrossOrigin(r *http.Request) bool {
	judged := http.Request{Method: r.Method, Header: r.Header}
	switch {
	case IsWebSocket(r):
		judged.Method = http.MethodPost
	case r.Method == http.MethodGet, r.Method == http.MethodHead, r.Method == http.MethodOptions:
		return false
	}
	origin := r.Header.Get("Origin")
	switch scheme, _, _ := strings.Cut(origin, "://"); scheme {
	case "": // a request of HTTP/1.0 may have no Host
		return crossOrigin.Check(&judged) != nil
	case "http", "https":
	default: // an app or an extension, whose host is not one of the network
		return r.Header.Get("Sec-Fetch-Site") == "" || crossOrigin.Check(&judged) != nil
	}
	hosts := [...]string{r.Host, s.Host(r), s.mainHost}
	for _, host := range hosts[:2] {
		if _, own := s.WorkspaceName(host); own {
			hosts[2] = ""
		}
	}
	for _, host := range hosts {
		if host == "" {
			continue
		}
		judged.Host = withoutDefaultPort(strings.ToLower(host), origin)
		if crossOrigin.Check(&judged) == nil {
			return false
		}
	}
	return true
}

// withoutDefaultPort removes the port from host when it is the one of the origin's
// scheme: browsers leave it out of an Origin.
func withoutDefaultPort(host, origin string) string {
	name, port, err := net.SplitHostPort(host)
	if err != nil {
		return host
	}
	switch scheme, _, _ := strings.Cut(origin, "://"); {
	case scheme == "http" && port == "80", scheme == "https" && port == "443":
		if strings.Contains(name, ":") {
			return "[" + name + "]"
		}
		return name
	}
	return host
}

// IsWebSocket reports whether r opens a WebSocket, over any version of HTTP.
func IsWebSocket(r *http.Request) bool {
	return IsExtendedConnect(r) || strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
}

// IsExtendedConnect reports whether r opens a WebSocket over HTTP/2 (RFC 8441) or
// HTTP/3 (RFC 9220). Their servers put the protocol in different places.
func IsExtendedConnect(r *http.Request) bool {
	return r.Method == http.MethodConnect &&
		(r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket" ||
			r.ProtoMajor == 3 && r.Proto == "websocket")
}
