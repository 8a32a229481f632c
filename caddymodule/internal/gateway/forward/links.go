package forward

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// Below the path of a workspace, an application that does not see the prefix sends addresses without it. The gateway
// adds the prefix to the addresses in header fields and to the paths of cookies. Addresses in documents cannot be
// distinguished from other text.

// mapLinks adds the prefix to addresses in the header of an answer if they lead to the host of at. at is the request's
// address. Addresses that are relative, foreign or already prefixed stay.
func mapLinks(h http.Header, at *site.Address) {
	for _, name := range [...]string{"Location", "Content-Location"} {
		for i, value := range h[name] {
			h[name][i] = withPrefix(value, at, at.Prefix)
		}
	}
	for i, value := range h["Refresh"] {
		h["Refresh"][i] = mapRefresh(value, at)
	}
	for i, value := range h["Link"] {
		h["Link"][i] = mapTargets(value, func(target string) string { return withPrefix(target, at, at.Prefix) })
	}
}

// withPrefix returns an address that leads to the host of at with a prefix before its path.
func withPrefix(address string, at *site.Address, prefix string) string {
	before, rest, ok := at.SplitURL(address)
	if !ok || isBelow(rest, prefix) {
		return address
	}
	if !strings.HasPrefix(rest, "/") { // a host alone
		rest = "/" + rest
	}
	return before + prefix + rest
}

// withoutPrefix returns an address that leads to the host of at, without the prefix if its path has it.
func withoutPrefix(address string, at *site.Address, prefix string) string {
	before, rest, ok := at.SplitURL(address)
	if !ok || !isBelow(rest, prefix) {
		return address
	}
	if rest = rest[len(prefix):]; !strings.HasPrefix(rest, "/") {
		rest = "/" + rest
	}
	return before + rest
}

// isBelow reports whether the path at the start of rest is prefix, or is below it. A query or a fragment may follow the
// path.
func isBelow(rest, prefix string) bool {
	after, ok := strings.CutPrefix(rest, prefix)
	return ok && (after == "" || strings.IndexByte("/?#", after[0]) >= 0)
}

// mapDestination changes the addresses in the headers of a WebDAV request (RFC 4918 sections 10.3 and 10.4) in the same
// way as the request's path was changed for the application. stripped is the part of the path that was removed.
// basePath is the path below which the application serves.
func mapDestination(h http.Header, at *site.Address, stripped, basePath string) {
	mapped := func(address string) string { return withoutPrefix(address, at, stripped) }
	switch {
	case stripped != "":
	case basePath != "" && at.OwnHost:
		mapped = func(address string) string { return withPrefix(address, at, basePath) }
	default:
		return
	}
	for i, value := range h["Destination"] {
		h["Destination"][i] = mapped(value)
	}
	for i, value := range h["If"] {
		h["If"][i] = mapTargets(value, mapped)
	}
}

// mapRefresh maps the address in a value of Refresh, such as `5; url=/next`, which is written in several ways (HTML
// standard, "shared declarative refresh steps").
func mapRefresh(value string, at *site.Address) string {
	start := len(value) - len(strings.TrimLeft(value, " \t0123456789."))
	start += len(value[start:]) - len(strings.TrimLeft(value[start:], " \t;,"))
	if rest := value[start:]; len(rest) >= 3 && strings.EqualFold(rest[:3], "url") {
		if after, ok := strings.CutPrefix(strings.TrimLeft(rest[3:], " \t"), "="); ok {
			start = len(value) - len(strings.TrimLeft(after, " \t"))
		}
	}
	end := len(value)
	if start < end && (value[start] == '"' || value[start] == '\'') {
		quote := value[start]
		start++
		if n := strings.IndexByte(value[start:], quote); n >= 0 {
			end = start + n
		}
	}
	return value[:start] + withPrefix(value[start:end], at, at.Prefix) + value[end:]
}

// mapTargets maps the addresses in a value of Link or If, such as `</a.css>; rel=preload, </b>; title="<c>"`.
func mapTargets(value string, mapped func(target string) string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case quoted && c == '\\' && i+1 < len(value):
			b.WriteByte(c)
			i++
			c = value[i]
		case c == '"':
			quoted = !quoted
		case c == '<' && !quoted:
			n := strings.IndexByte(value[i:], '>')
			if n < 0 {
				return value
			}
			b.WriteString("<" + mapped(value[i+1:i+n]))
			i += n
			c = '>'
		}
		b.WriteByte(c)
	}
	return b.String()
}
