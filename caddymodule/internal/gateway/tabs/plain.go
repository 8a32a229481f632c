package tabs

import (
	"net/http"
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// maxPlain bounds the pages without the script that are known of one workspace.
	maxPlain = 64
	// plainTime is how long such a page is remembered after its last request, because a person may still be reading it.
	plainTime = time.Hour
)

// Hidden stands for all pages that hide their address, taken together.
const Hidden Address = 1

// plain is a page whose document came without the script: it never reports.
type plain struct {
	// address is the page's address with its query, because the same path with another query may be a page that
	// reports.
	address Address
	// last is when it was loaded, or last sent something.
	last time.Time
	// beside is when another page with the same address last reported, if it did so after this page was loaded. The
	// requests of the two pages cannot be distinguished.
	beside time.Time
	// opens says that the page may open WebSockets: it is a document with scripts, or has sent something.
	opens bool
}

// SenderExact returns the address of the page that has sent r, with its query. The address is known for every document.
// All pages that hide their address have one address in common. It does not allocate.
func SenderExact(r *http.Request) Address {
	if at := referrer(r); at != "" {
		return AddressOf(r.Host, at)
	}
	if r.Header.Get("Referer") == "" {
		return Hidden
	}
	return 0
}

// Loaded returns the address that the answer to r has when it is shown as a page. [SenderExact] returns the same
// address for the requests of that page.
func Loaded(r *http.Request) Address { return AddressOf(r.Host, r.RequestURI) }

// LoadPlain records that a page was loaded whose document came without the script. Its requests
// count until none has come for [plainTime]. Opens says that it can open WebSockets.
func (t *Tabs) LoadPlain(id workspace.ID, a Address, opens bool) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	w.plain = slices.DeleteFunc(w.plain, func(p plain) bool { return p.address == a })
	if len(w.plain) >= maxPlain { // they are in the order in which they were loaded
		w.plain = slices.Delete(w.plain, 0, 1)
	}
	w.plain = append(w.plain, plain{address: a, last: now, opens: opens})
}

// LoadScripted records that the page was loaded with the script now.
func (t *Tabs) LoadScripted(id workspace.ID, a Address) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.workspaces[id]; w != nil {
		w.plain = slices.DeleteFunc(w.plain, func(p plain) bool { return p.address == a })
	}
}

// ReportsBeside records that a page with this address, as [SenderExact] returns it, reports. While it does, requests
// from that address no longer show that a page without the script is still open.
func (t *Tabs) ReportsBeside(id workspace.ID, a Address) {
	if !t.hasPlain(id) {
		return
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	for i := range w.plain {
		if w.plain[i].address == a {
			w.plain[i].beside = now
		}
	}
}

// Plain reports whether the page that has sent something was loaded without the script.
func (t *Tabs) Plain(id workspace.ID, a Address) bool {
	if a == 0 || !t.hasPlain(id) {
		return false
	}
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	i := slices.IndexFunc(w.plain, func(p plain) bool { return p.address == a })
	if i >= 0 && now.Sub(w.plain[i].beside) >= trustTime {
		w.plain[i].last, w.plain[i].opens = now, true
	}
	return i >= 0
}

func (t *Tabs) hasPlain(id workspace.ID) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := t.workspaces[id]
	return w != nil && len(w.plain) > 0
}

// plainOpener returns the page to which a new WebSocket may belong, of the pages without the script. It is the one that
// sent something last.
func (w *tabs) plainOpener(now time.Time) (latest plain, ok bool) {
	for _, p := range w.plain {
		if p.opens && now.Sub(p.last) < socketTime && !p.last.Before(latest.last) {
			latest, ok = p, true
		}
	}
	return latest, ok
}
