package tabs

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/workspace"
)

// maxParts bounds the parts of pages that are known of one workspace.
const maxParts = 64

// part is a script, a style sheet or a worker whose address could be a page's, such as Vite's /@vite/client. Its
// requests name it as the sender, and it never reports. If it were mistaken for a page, it would keep its workspace
// awake.
type part struct {
	address Address
	last    time.Time // when it was loaded, or last sent something
}

// Part returns the address of the script, style sheet or worker that r loads into a page. It returns 0 for other
// requests, and for addresses that no page could have. It also returns 0 if a page loads something from its own path
// with another query, because the path is then a page's. It does not allocate.
func Part(r *http.Request) Address {
	switch site.HeaderValue(r.Header, "Sec-Fetch-Dest") {
	case "script", "style", "worker", "sharedworker", "serviceworker", "audioworklet", "paintworklet":
	default:
		return 0
	}
	at, _, _ := strings.Cut(r.RequestURI, "?")
	if !isNamedAsPage(at) {
		return 0
	}
	a := AddressOf(r.Host, at)
	if a == Sender(r) {
		return 0
	}
	return a
}

// LoadPart records that a page loads the part with this address, as returned by [Part].
func (t *Tabs) LoadPart(id workspace.ID, a Address) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	if w.isPart(a, now) {
		return
	}
	w.pages = slices.DeleteFunc(w.pages, func(p page) bool { return p.address == a && p.tab == "" })
	w.parts = append(withRoom(w.parts, maxParts, func(p part) time.Time { return p.last }), part{address: a, last: now})
}

// isPart reports whether a is the address of a part, and records this sign of life.
func (w *tabs) isPart(a Address, now time.Time) bool {
	i := slices.IndexFunc(w.parts, func(p part) bool { return p.address == a })
	if i >= 0 {
		w.parts[i].last = now
	}
	return i >= 0
}
