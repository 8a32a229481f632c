package site

import "strings"

// SplitURL splits an address in a header field into what comes before its path, and the rest, where the address leads to the
// host of the request: "https://host", "//host" or nothing. It reports false for an address that leads to another host, and
// for one that is relative to the path of the page. The case of the host, the default port and the scheme make no
// difference: an application behind a proxy may not know the scheme.
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
			scheme = a.scheme()
		}
		name, port := splitHost(authority[:end])
		if !strings.EqualFold(name, a.name) || withoutDefault(scheme, port) != withoutDefault(a.scheme(), a.port) {
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

// withoutDefault is the port, empty for that of the scheme.
func withoutDefault(scheme, port string) string {
	if strings.EqualFold(scheme, "http") && port == "80" || strings.EqualFold(scheme, "https") && port == "443" {
		return ""
	}
	return port
}
