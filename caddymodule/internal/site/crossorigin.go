package site

import (
	"net"
	"net/http"
	"strings"
)

// crossOrigin is the standard library's check of Sec-Fetch-Site and Origin.
var crossOrigin http.CrossOriginProtection

// CrossOrigin reports whether a page of another origin makes a request that acts with the user's
// rights. Such a page may only open an address in a window: a GET that is a top-level navigation.
// Scripts, pictures, frames, forms and WebSockets may not. SameSite cookies do not prevent such
// requests, because the hosts of all workspaces and of their ports are the same site. Programs send neither
// Sec-Fetch-Site nor Origin, so their requests never count as cross-origin.
//
// The origin must be that of the host that the request names; http and https are different origins. A request with an
// https origin may arrive by http, through a proxy. Behind a proxy that rewrites Host the origin may also be that of
// X-Forwarded-Host, if the proxy is trusted. Behind such a proxy it may also be that of the setting main_host, but not
// on a workspace's own host.
func (a *Address) CrossOrigin(r *http.Request) bool {
	origin := HeaderValue(r.Header, "Origin")
	switch site := HeaderValue(r.Header, "Sec-Fetch-Site"); {
	case site == "" && origin == "", // a program, or a browser that does not send it
		site == "same-origin", site == "none":
		return false
	case site != "":
		return !isTopLevel(r)
	case !strings.HasPrefix(origin, "http://") && !strings.HasPrefix(origin, "https://"):
		return true // opaque, or that of an app, whose host is not a network host
	case strings.HasPrefix(origin, "http://") && a.https:
		return true // an attacker on the network may have made that page
	}
	// The standard library lets all safe methods pass.
	judged := http.Request{Method: http.MethodPost, Header: r.Header}
	hosts := a.hosts()
	if _, own := a.site.workspaceHost(a.name); !own && !a.OwnHost && a.site.mainHost != "" {
		hosts = append(hosts, a.site.mainHost)
	}
	for _, host := range hosts {
		judged.Host = withoutDefaultPort(strings.ToLower(host), origin)
		if crossOrigin.Check(&judged) == nil {
			return false
		}
	}
	return true
}

// HeaderValue returns the first value of a header, "" without one. The name must be in canonical form, because it is
// looked up unchanged. This costs less than [http.Header.Get].
func HeaderValue(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// isTopLevel reports whether a browser opens the address in a window or tab, and not in a frame.
func isTopLevel(r *http.Request) bool {
	return r.Method == http.MethodGet &&
		HeaderValue(r.Header, "Sec-Fetch-Mode") == "navigate" && HeaderValue(r.Header, "Sec-Fetch-Dest") == "document"
}

// IsBrowser reports whether r comes from a browser, or looks as if it did. Browsers do not send Sec-Fetch-Mode to
// addresses that they do not consider secure, such as those with http.
func IsBrowser(r *http.Request) bool {
	h := r.Header
	return h.Get("Sec-Fetch-Mode") != "" || h.Get("Sec-Fetch-Dest") != "" ||
		h.Get("Origin") != "" || h.Get("Service-Worker") != "" ||
		strings.HasPrefix(h.Get("User-Agent"), "Mozilla/")
}

// withoutDefaultPort removes the port from host if it is the default port of the origin's scheme, because browsers
// leave the default port out of an Origin.
func withoutDefaultPort(host, origin string) string {
	name, port, err := net.SplitHostPort(host)
	scheme, _, _ := strings.Cut(origin, "://")
	switch {
	case err != nil, port == "", withoutDefault(scheme, port) != "":
		return host
	case strings.Contains(name, ":"):
		return "[" + name + "]"
	}
	return name
}

// IsWebSocket reports whether r opens a WebSocket, over any version of HTTP.
func IsWebSocket(r *http.Request) bool {
	return IsExtendedConnect(r) || strings.EqualFold(HeaderValue(r.Header, "Upgrade"), "websocket")
}

// IsExtendedConnect reports whether r opens a WebSocket over HTTP/2 (RFC 8441) or
// HTTP/3 (RFC 9220). Their servers put the protocol in different places.
func IsExtendedConnect(r *http.Request) bool {
	return r.Method == http.MethodConnect &&
		(r.ProtoMajor == 2 && r.Header.Get(":protocol") == "websocket" ||
			r.ProtoMajor == 3 && r.Proto == "websocket")
}
