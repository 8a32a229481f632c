package gateway

import (
	"io"
	"net/http"
	"strings"

	"github.com/codehub/gateway/coordinator/activity"
)

// responseFilter removes from a workspace's responses what only the gateway may send
// to a browser, and records whether the final response has begun: from then on no
// other answer can be sent. It counts the bytes that pass as activity.
type responseFilter struct {
	http.ResponseWriter
	prefix string // of the workspace's paths; empty on its own host
	begun  bool   // the final response has begun
	upload upload // here, so that it costs no allocation of its own
	// slot is touched for what the client gets; nil when something else counts that.
	slot *activity.Slot
}

// newResponseFilter returns a filter for one response to the client behind w.
func newResponseFilter(w http.ResponseWriter, prefix string) *responseFilter {
	return &responseFilter{ResponseWriter: w, prefix: prefix}
}

// Unwrap lets [http.ResponseController] find the server's own ResponseWriter.
func (f *responseFilter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// WriteHeader sends the header without what a workspace must not set. An informational
// response (1xx) is cleaned as well and does not begin the final one.
func (f *responseFilter) WriteHeader(status int) {
	if !f.begun {
		cleanResponseHeaders(f.Header(), f.prefix)
		f.begun = status >= 200 || status == http.StatusSwitchingProtocols
	}
	f.ResponseWriter.WriteHeader(status)
	f.touch()
}

// touch counts that the client gets something.
func (f *responseFilter) touch() {
	if f.slot != nil {
		f.slot.Touch()
	}
}

// begin sends the header if the application wrote a body without sending one.
func (f *responseFilter) begin() {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
}

// Write begins the response, if it has not begun. It counts when the bytes are taken:
// a client that takes none keeps nothing awake.
func (f *responseFilter) Write(p []byte) (int, error) {
	f.begin()
	n, err := f.ResponseWriter.Write(p)
	if n > 0 {
		f.touch()
	}
	return n, err
}

// ReadFrom copies through Write, so that a long copy counts all the time.
func (f *responseFilter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// FlushError begins the response, if it has not begun.
func (f *responseFilter) FlushError() error {
	f.begin()
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// upload is the body of a request. What arrives of it counts as activity.
type upload struct {
	io.ReadCloser
	slot *activity.Slot
}

// Read counts what it has read.
func (u *upload) Read(p []byte) (int, error) {
	n, err := u.ReadCloser.Read(p)
	if n > 0 {
		u.slot.Touch()
	}
	return n, err
}

// cleanResponseHeaders removes what would sign the user out, or in as another user,
// and limits service workers of a workspace to its own paths: one for the whole host
// would control the pages of the gateway and of every other workspace.
func cleanResponseHeaders(h http.Header, prefix string) {
	if cookies := h["Set-Cookie"]; len(cookies) > 0 {
		kept := cookies[:0:0]
		for _, c := range cookies {
			if !setsOwnCookie(c) {
				kept = append(kept, c)
			}
		}
		switch len(kept) {
		case len(cookies):
		case 0:
			delete(h, "Set-Cookie")
		default:
			h["Set-Cookie"] = kept
		}
	}
	delete(h, "Clear-Site-Data")
	if _, ok := h["Service-Worker-Allowed"]; ok && prefix != "" {
		h["Service-Worker-Allowed"] = []string{prefix + "/"}
	}
}

// setsOwnCookie reports whether a Set-Cookie line sets one of the gateway's cookies. Browsers
// send a cookie without a name back as its value alone, which may look like a cookie
// with a name.
func setsOwnCookie(line string) bool {
	pair, _, _ := strings.Cut(line, ";")
	return isOwnCookie(strings.TrimLeft(pair, "= \t"))
}

// Interface guards.
var (
	_ io.ReaderFrom                   = (*responseFilter)(nil)
	_ interface{ FlushError() error } = (*responseFilter)(nil)
)
