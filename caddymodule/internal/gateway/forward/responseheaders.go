package forward

import (
	"maps"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// responseCleaner removes the headers of a workspace's response that would affect more than the workspace itself.
type responseCleaner struct {
	prefix string // of the workspace's paths; empty on its own host
	// sandbox makes documents in the answer powerless. It is set for an answer to a program on the dashboard's origin:
	// no browser must be able to use such an answer.
	sandbox bool
	// links is the address of the request if the prefix was removed from it for the application. Otherwise it is nil.
	links *site.Address
	// before holds headers that the server itself has set and that workspaces may not set.
	before [2]struct {
		name   string
		values []string
	}
}

// ofAllHosts are headers that no workspace may send. Only the part of Clear-Site-Data that [ownSiteData] keeps is
// allowed.
var ofAllHosts = [...]string{clearSiteData, altSvc}

const clearSiteData, altSvc = "Clear-Site-Data", "Alt-Svc"

// siteData are the types of Clear-Site-Data that concern only the origin of the answer. The type for cookies is not
// among them: it clears the cookies of all hosts of the domain, and so would sign the user out.
var siteData = [...]string{`"cache"`, `"storage"`, `"executionContexts"`}

// ownSiteData returns the part of a Clear-Site-Data header that a workspace may send on its own host.
func ownSiteData(lines []string) []string {
	asked := make(map[string]bool)
	for _, line := range lines {
		for t := range strings.SplitSeq(line, ",") {
			asked[strings.TrimSpace(t)] = true
		}
	}
	var types []string
	for _, t := range siteData {
		if asked[t] || asked[`"*"`] {
			types = append(types, t)
		}
	}
	if types == nil {
		return nil
	}
	return []string{strings.Join(types, ", ")}
}

// note remembers the headers that the server has set itself, such as Alt-Svc for HTTP/3,
// and Strict-Transport-Security.
func (c *responseCleaner) note(h http.Header) {
	if c.prefix == "" {
		for i, name := range ofAllHosts {
			c.before[i].name, c.before[i].values = name, h[name]
		}
		return
	}
	n := 0
	for name, values := range h {
		if c.refuses(name) && n < len(c.before) {
			c.before[n].name, c.before[n].values = name, values
			n++
		}
	}
}

// refuses reports whether a workspace may not send a header. The table shows which headers it may send on its own host,
// and which below its path on the main site:
//
//	                                                  own host  path
//	Clear-Site-Data (cookies of all hosts below)         partly  no
//	Alt-Svc (where the whole host is served)             no      no
//	what a browser keeps for the origin or the host      yes     no
//	everything else                                      yes     yes
func (c *responseCleaner) refuses(name string) bool {
	switch name {
	case clearSiteData, altSvc:
		return true
	case "Strict-Transport-Security", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-Ct",
		"Nel", "Report-To", "Reporting-Endpoints", "Accept-Ch", "Critical-Ch", "Accept-Ch-Lifetime",
		"Origin-Agent-Cluster", "Set-Login", "Speculation-Rules", "Use-As-Dictionary", "Activate-Storage-Access",
		"Sec-Session-Registration", "Secure-Session-Registration":
		return c.prefix != ""
	}
	return false
}

// clean removes headers that would sign the user out, or in as another user. It also removes
// headers that would apply to the pages of the dashboard or of other workspaces. Service workers of
// a workspace are limited to its own paths.
func (c *responseCleaner) clean(h http.Header) {
	if cookies := h["Set-Cookie"]; len(cookies) > 0 {
		c.stripReservedCookies(h, cookies)
	}
	if c.prefix == "" { // two lookups cost less than checking every header
		own := h[clearSiteData]
		for _, name := range ofAllHosts {
			delete(h, name)
		}
		if own != nil {
			if own = ownSiteData(own); own != nil {
				h[clearSiteData] = own
			}
		}
	} else {
		maps.DeleteFunc(h, func(name string, _ []string) bool { return c.refuses(name) })
	}
	for _, b := range c.before {
		if b.values != nil {
			h[b.name] = b.values
		}
	}
	if _, ok := h["Service-Worker-Allowed"]; ok && c.prefix != "" {
		h["Service-Worker-Allowed"] = []string{c.prefix + "/"}
	}
	if c.links != nil {
		mapLinks(h, c.links)
	}
	if c.sandbox {
		h.Add("Content-Security-Policy", "sandbox; frame-ancestors 'none'")
		h["X-Content-Type-Options"] = []string{"nosniff"}
		delete(h, "Service-Worker-Allowed")
	}
}

// stripReservedCookies removes cookies with the gateway's names, and confines all others to the workspace's own host,
// or to its own path.
func (c *responseCleaner) stripReservedCookies(h http.Header, cookies []string) {
	kept := cookies[:0:0]
	changed := false
	for _, line := range cookies {
		if setsOwnCookie(line, c.prefix == "") {
			changed = true
			continue
		}
		own := c.confine(line)
		changed = changed || own != line
		kept = append(kept, own)
	}
	switch {
	case len(kept) == 0:
		delete(h, "Set-Cookie")
	case changed:
		h["Set-Cookie"] = kept
	}
}

// confine returns a Set-Cookie line without Domain, and with a Path below the
// workspace's.
func (c *responseCleaner) confine(line string) string {
	if !strings.Contains(line, ";") {
		return line
	}
	var b strings.Builder
	for i, part := range strings.Split(line, ";") {
		name, value, _ := strings.Cut(part, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		switch {
		case i == 0:
		case strings.EqualFold(name, "domain"):
			continue
		case c.prefix != "" && strings.EqualFold(name, "path") && strings.HasPrefix(value, "/") &&
			value != c.prefix && !strings.HasPrefix(value, c.prefix+"/"):
			part = " Path=" + c.prefix + value
		}
		if i > 0 {
			b.WriteByte(';')
		}
		b.WriteString(part)
	}
	return b.String()
}

// setsOwnCookie reports whether a Set-Cookie line sets one of the gateway's cookies. Browsers
// send a cookie without a name back as its value alone, which may look like a cookie
// with a name.
func setsOwnCookie(line string, ownHost bool) bool {
	pair, _, _ := strings.Cut(line, ";")
	return isOwnCookie(strings.TrimLeft(pair, "= \t"), ownHost)
}
