package site

import (
	"slices"
	"strings"
)

// SplitURL splits an address in a header field that leads to the host of the request, as the browser or the
// application sees it. It returns the part before the path, and the rest: "https://host", "//host" or nothing. It
// reports false if the address leads to another host, or if it is relative to the path of the page. The case of the
// host, the default port and the scheme make no difference: an application behind a proxy may not know the scheme.
func (a *Address) SplitURL(address string) (before, rest string, ok bool) {
	scheme, after := "", address
	if i := strings.Index(address, "://"); i > 0 && (strings.EqualFold(address[:i], "http") || strings.EqualFold(address[:i], "https")) {
		scheme, after = address[:i], address[i+1:]
	}
	if authority, isAbsolute := strings.CutPrefix(after, "//"); isAbsolute {
		end := strings.IndexAny(authority, `/\?#`)
		if end < 0 {
			end = len(authority)
		}
		if scheme == "" {
			scheme = a.Scheme()
		}
		if !slices.ContainsFunc(a.hosts(), func(host string) bool { return a.isSame(host, scheme, authority[:end]) }) {
			return "", "", false
		}
		end += len(address) - len(authority)
		return address[:end], address[end:], true
	}
	if scheme != "" || !strings.HasPrefix(address, "/") || strings.HasPrefix(address, `/\`) { // browsers take \ for /
		return "", "", false
	}
	return "", address, true
}

// hosts are the hosts that stand for this server in the request: the host that the request names, and the host that the
// browser uses.
func (a *Address) hosts() []string { return []string{a.received, a.host} }

// isSame reports whether an address with this scheme and authority leads to a host of the request.
func (a *Address) isSame(host, scheme, authority string) bool {
	name, port := splitHost(host)
	otherName, otherPort := splitHost(authority)
	return strings.EqualFold(name, otherName) && withoutDefault(a.Scheme(), port) == withoutDefault(scheme, otherPort)
}

// withoutDefault returns the port, empty if it is the scheme's default.
func withoutDefault(scheme, port string) string {
	if strings.EqualFold(scheme, "http") && port == "80" || strings.EqualFold(scheme, "https") && port == "443" {
		return ""
	}
	return port
}
