package site

import (
	"net/http"
	"strings"
)

const httpScheme, httpsScheme = "http", "https"

// In these headers a proxy passes on the scheme and the host that the browser used.
const forwardedProto, forwardedHost = "X-Forwarded-Proto", "X-Forwarded-Host"

// readForwarded reads the headers of trusted proxies. Proxies differ in how they write the scheme: in upper or lower
// case, and as ws or wss for a WebSocket. Several proxies in a row make a list or repeat the header.
//
// A list of schemes has an entry for each hop. The scheme is https if any hop has https, because the hops behind the
// proxy that terminates TLS have http. But if public_url says http, the scheme is https only if all hops have https.
// The host is the entry of the nearest proxy, because a client may have made up the other entries.
func (a *Address) readForwarded(proto, host []string) {
	a.proxied = true
	https, http := forwardedSchemes(proto)
	a.https = a.https || https && !(http && a.site.scheme == httpScheme)
	if name := lastEntry(host); name != "" && CheckHost(name) == nil {
		a.host = name
		a.name, a.port = splitHost(name)
	}
}

// forwardedSchemes reports which schemes the entries of X-Forwarded-Proto name. Other words are ignored.
func forwardedSchemes(lines []string) (https, http bool) {
	for _, line := range lines {
		for len(line) > 0 {
			var entry string
			entry, line, _ = strings.Cut(line, ",")
			switch entry = unquote(entry); {
			case strings.EqualFold(entry, httpsScheme), strings.EqualFold(entry, "wss"):
				https = true
			case strings.EqualFold(entry, httpScheme), strings.EqualFold(entry, "ws"):
				http = true
			}
		}
	}
	return https, http
}

// lastEntry returns the last entry of a list that may be spread over several lines, "" without one.
func lastEntry(lines []string) string {
	for i := len(lines) - 1; i >= 0; i-- {
		for line := lines[i]; line != ""; {
			at := strings.LastIndexByte(line, ',')
			if entry := unquote(line[at+1:]); entry != "" {
				return entry
			}
			line = line[:max(at, 0)]
		}
	}
	return ""
}

// unquote returns an entry of a list without white space and quotes around it.
func unquote(entry string) string { return strings.Trim(entry, " \t\"") }

// NormalizeForwarded replaces the headers of trusted proxies by their parsed values, so that an application reads the
// same values. It does not allocate if the headers have these values already.
func (a *Address) NormalizeForwarded(h http.Header) {
	if !a.proxied {
		return // the proxy to the application tells how the request arrived here
	}
	if lines := h[forwardedProto]; lines != nil && (len(lines) != 1 || lines[0] != a.Scheme()) {
		h[forwardedProto] = []string{a.Scheme()}
	}
	if lines := h[forwardedHost]; lines != nil && (len(lines) != 1 || lines[0] != a.host) {
		h[forwardedHost] = []string{a.host}
	}
}
