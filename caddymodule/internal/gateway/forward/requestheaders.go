package forward

import (
	"net/http"
	"slices"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// isOwnCookie reports whether a cookie belongs to the gateway, on a workspace's own host or on the main site.
func isOwnCookie(part string, ownHost bool) bool {
	name, _, _ := strings.Cut(part, "=")
	return site.IsOwnCookie(strings.TrimSpace(name), ownHost)
}

// cleanRequestHeaders removes what a workspace must not see or must not believe. These are the
// gateway's cookies, headers in which proxies state who the user is, and, if authorization is
// set, the Authorization header. Which cookies are the gateway's depends on whether the request is
// for a workspace's own host. Other cookies stay byte for byte the same. It does not allocate when
// there is nothing to remove.
func cleanRequestHeaders(h http.Header, ownHost, authorization bool) {
	if lines, ok := h["Cookie"]; ok {
		stripGatewayCookies(h, lines, ownHost)
	}
	cleanConnection(h)
	for name := range h {
		if isClaim(name) {
			delete(h, name)
		}
	}
	if authorization {
		delete(h, "Authorization")
	}
}

// cleanConnection removes the headers that Connection names, because they concern this hop only. It also removes their
// names from Connection. Otherwise the proxy would remove a header with such a name even if the gateway has added it.
func cleanConnection(h http.Header) {
	for i, line := range h["Connection"] {
		kept, cleaned := "", false
		for token := range strings.SplitSeq(line, ",") {
			token = strings.TrimSpace(token)
			switch {
			case token == "":
			case strings.EqualFold(token, "upgrade"), strings.EqualFold(token, "close"),
				strings.EqualFold(token, "keep-alive"), strings.EqualFold(token, "te"):
				if kept != "" {
					kept += ", "
				}
				kept += token
			default:
				h.Del(token)
				cleaned = true
			}
		}
		if cleaned {
			h["Connection"][i] = kept
		}
	}
}

// stripGatewayCookies removes the gateway's cookies from the Cookie lines. Lines without one
// stay untouched.
func stripGatewayCookies(h http.Header, lines []string, ownHost bool) {
	found := false
	for _, line := range lines {
		found = found || hasOwnCookie(line, ownHost)
	}
	if !found {
		return
	}
	kept := lines[:0]
	for _, line := range lines {
		if line = withoutOwnCookies(line, ownHost); line != "" {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		delete(h, "Cookie")
		return
	}
	h["Cookie"] = kept
}

// hasOwnCookie reports whether a Cookie line carries one of the gateway's cookies.
func hasOwnCookie(line string, ownHost bool) bool {
	for len(line) > 0 {
		var part string
		part, line, _ = strings.Cut(line, ";")
		if isOwnCookie(part, ownHost) {
			return true
		}
	}
	return false
}

// withoutOwnCookies returns a Cookie line without the gateway's cookies; empty if
// nothing else was in it. It allocates only for a cookie that stands between others.
func withoutOwnCookies(line string, ownHost bool) string {
	if !hasOwnCookie(line, ownHost) {
		return line
	}
	for at := 0; at < len(line); {
		part, rest, _ := strings.Cut(line[at:], ";")
		end := at + len(part)
		switch {
		case !isOwnCookie(part, ownHost):
			at = end + 1
		case at == 0:
			line = rest
		default:
			line = line[:at-1] + line[end:]
		}
	}
	return strings.TrimLeft(line, " \t")
}

// Headers that applications trust because normally only a proxy sets them. They say who the
// user is, where the request comes from, and which address it was for. claims are complete names, and claimPrefixes are
// prefixes of names. A CGI program sees the header Proxy as the variable HTTP_PROXY, and would send its own requests
// there.
var (
	claims = []string{
		"Forwarded", "Front-End-Https", "Proxy", "True-Client-Ip", "Cf-Connecting-Ip",
		"X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Original-Forwarded-For",
		"X-Original-Host", "X-Original-Url", "X-Rewrite-Url", "X-Host",
		"X-User", "X-Username", "X-User-Id", "X-Email", "X-Groups",
		"X-Auth-User", "X-Auth-Username", "X-Auth-Email", "X-Auth-Name", "X-Auth-Groups",
		"X-Auth-Roles", "X-Client-Cert", "X-Client-Verify", "X-Client-Dn", "X-Ssl-Cert",
		"Client-Cert", "Client-Cert-Chain", "X-Arr-Clientcert",
	}
	claimPrefixes = []string{
		"X-Codehub-", "X-Ssl-Client-", "Ssl-Client-", "X-Client-Cert-", "X-Amzn-Mtls-Clientcert",
		"Remote-", "X-Remote-",
		"X-Auth-Request-", "X-Authenticated-", "X-Webauth-", "X-Authentik-", "X-Authelia-", "X-Vouch-", "X-Pomerium-",
		"X-Goog-Authenticated-", "X-Goog-Iap-", "X-Ms-Client-Principal", "X-Amzn-Oidc-", "Cf-Access-", "Tailscale-",
	}
	// Headers that the proxy sets itself.
	forwarded = []string{"X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}
)

// letters is the number of groups into which names are divided by their first letter, ignoring case.
const letters = 1 << 5

// claimsFrom are the claims by their first letter, so that each header of a browser is compared with only a few claims.
var claimsFrom = func() (by [letters]struct{ names, prefixes []string }) {
	for _, name := range claims {
		of := &by[name[0]%letters]
		of.names = append(of.names, name)
	}
	for _, prefix := range claimPrefixes {
		of := &by[prefix[0]%letters]
		of.prefixes = append(of.prefixes, prefix)
	}
	return by
}()

// isClaim reports whether a header makes a claim that only a proxy may make.
// Underscores count as hyphens, because many servers do not distinguish them.
func isClaim(name string) bool {
	if name == "" {
		return false
	}
	const all = "X-Forwarded-"
	if len(name) >= len(all) && sameHeader(name[:len(all)], all) {
		return !slices.Contains(forwarded, name)
	}
	of := &claimsFrom[name[0]%letters]
	for _, claim := range of.names {
		if sameHeader(name, claim) {
			return true
		}
	}
	for _, prefix := range of.prefixes {
		if len(name) >= len(prefix) && sameHeader(name[:len(prefix)], prefix) {
			return true
		}
	}
	return false
}

// sameHeader compares two names without regard to case, with _ equal to -.
func sameHeader(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x == '_' {
			x = '-'
		}
		if x|0x20 != y|0x20 {
			return false
		}
	}
	return true
}
