// Package pagescript puts a small script into the pages of workspaces. The script reports a person's input, which
// distinguishes a used tab from one that is merely open (SPEC 6), and announces in the page when the workspace goes to
// sleep.
//
// The package owns the script and its insertion: which documents get it, whether their policy lets
// it run, and its place in the document. It changes nothing else of an answer, buffers no document,
// and must not decide what counts as use.
package pagescript

import (
	"net/http"
	"slices"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// Wanted reports whether the answer to r gets the script if it is a document. This is the case if r loads a page into a
// tab, or into a frame of a page that has another origin. The frames within a workspace's page are watched by that
// page's script.
//
// How the request is held (package decision) does not matter. Answers to forms and prefetched pages carry the script,
// too, because people type in the former and open the latter. A service worker that repeats a request hides its
// destination, but not Upgrade-Insecure-Requests, which browsers send with documents only.
func Wanted(r *http.Request) bool {
	h := r.Header
	if r.Method != http.MethodGet && r.Method != http.MethodPost || h.Get("Range") != "" || h.Get("Service-Worker") != "" {
		return false
	}
	switch h.Get("Sec-Fetch-Dest") {
	case "document":
		return true
	case "iframe", "frame":
		return h.Get("Sec-Fetch-Site") != "same-origin"
	case "", "empty":
		mode := h.Get("Sec-Fetch-Mode")
		return mode == "navigate" || site.AcceptsHTML(h) && !site.IsWebSocket(r) &&
			(h.Get("Upgrade-Insecure-Requests") == "1" || mode == "" && r.Method == http.MethodGet)
	}
	return false
}

// Ask changes the headers of a request for which [Wanted] reports true. The application must send the whole document,
// and must not compress it. It must not merely confirm the browser's cached copy either, because that copy may lack the
// script. The answer to a POST comes from no cache.
func Ask(r *http.Request) {
	h := r.Header
	h["Accept-Encoding"] = []string{"identity"} // without the header, Go's transport asks for gzip
	if r.Method != http.MethodGet {
		return
	}
	for _, name := range []string{"If-None-Match", "If-Modified-Since"} {
		delete(h, name)
	}
}

// Verdict is how an answer is treated.
type Verdict uint8

const (
	// Other: it is not a document that a tab shows.
	Other Verdict = iota
	// Carries: the answer is a document, and the script can run and report in it.
	Carries
	// Forbidden: the answer is a document, but its policy, its encoding or its format keeps the script out.
	Forbidden
)

// Judge returns the verdict on an answer with the status and headers h to a request that [Wanted] accepts. If the
// answer carries the script, the tag must have the nonce, unless the nonce is empty. Secure says that the page is
// loaded with https.
//
// People also use error pages: an application may send one for every address, and do the routing in its script. The
// script cannot be inserted into an XML document, because the insertion parses HTML.
func Judge(status int, h http.Header, secure bool) (v Verdict, nonce string) {
	if !isShown(status) || h.Get("Content-Length") == "0" || isAttachment(h) {
		return Other, ""
	}
	kind, parameters, _ := strings.Cut(h.Get("Content-Type"), ";")
	switch kind = strings.ToLower(strings.TrimSpace(kind)); kind {
	case typeHTML:
	case typeXHTML, "image/svg+xml", "application/xml", "text/xml":
		return Forbidden, ""
	default:
		return Other, ""
	}
	if encoding := h.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") || isWide(parameters) {
		return Forbidden, ""
	}
	nonce, ok := allowed(h["Content-Security-Policy"], secure)
	if !ok {
		return Forbidden, ""
	}
	return Carries, nonce
}

// The types of the documents of applications.
const (
	typeHTML  = "text/html"
	typeXHTML = "application/xhtml+xml"
)

// Talks reports whether a document that does not carry the script may send requests by itself, as pages of applications
// do. This is the case for HTML that is not in a sandbox. Requests from a sandbox have no session.
func Talks(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	return (kind == typeHTML || kind == typeXHTML) &&
		!slices.ContainsFunc(parsePolicies(h["Content-Security-Policy"]), policy.isolates)
}

// HidesAddress reports whether a document's requests lack its address.
func HidesAddress(h http.Header) bool {
	hides := false
	for _, line := range h["Referrer-Policy"] {
		for name := range strings.SplitSeq(line, ",") { // the last one that a browser knows applies
			hides = strings.EqualFold(strings.TrimSpace(name), "no-referrer")
		}
	}
	return hides
}

// isShown reports whether a browser shows the body of an answer with that status. It follows
// a redirect.
func isShown(status int) bool {
	switch status {
	case http.StatusNoContent, http.StatusResetContent, http.StatusPartialContent:
		return false
	}
	return status >= 200 && status < 300 || status >= 400
}

// isAttachment reports whether a browser saves the answer instead of showing it.
func isAttachment(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Disposition"), ";")
	kind = strings.TrimSpace(kind)
	return kind != "" && !strings.EqualFold(kind, "inline")
}

// isWide reports whether the parameters of a content type name an encoding in which ASCII takes
// more than one byte. Browsers support only UTF-16 and its older names.
func isWide(parameters string) bool {
	p := strings.ToLower(parameters)
	for _, name := range []string{"utf-16", "utf16", "ucs-2", "unicode"} {
		if strings.Contains(p, name) {
			return true
		}
	}
	return false
}

// bound are the headers that become wrong when the script is inserted, because they describe exactly the bytes that the
// application sent.
var bound = []string{"Content-Length", "Etag", "Accept-Ranges", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest"}

// Begin changes the headers of an answer that carries the script.
func Begin(h http.Header) {
	for _, name := range bound {
		delete(h, name)
	}
}
