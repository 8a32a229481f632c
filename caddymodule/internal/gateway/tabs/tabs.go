// Package tabs knows which pages of workspaces report input by people, and bounds the effect of
// their reports.
//
// A page reports for itself alone (SPEC 6): its reports are use, and its own requests are not. Requests of a page that
// does not report count as use: its document came without the script (plain.go), it was made by a service worker, or
// its policy forbids the script to send anything. The package must not know how the script gets into a page, nor
// perform I/O.
package tabs

import (
	"hash/maphash"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// settleTime is how long a page that has just been loaded may take to report.
	settleTime = 10 * time.Second
	// trustTime is how long a page counts as reporting after its last sign of life. A page in a hidden tab gives a sign
	// of life about every minute, and perhaps another process gets it.
	trustTime = 10 * time.Minute
	// socketTime is how long after a page's last request a new WebSocket still counts as opened by that page.
	socketTime = 30 * time.Second
	// pauseTime is the pause after which a new run of reports of input begins. A script that makes reports up never
	// pauses.
	pauseTime = 10 * time.Minute
	// The scripts in a workspace's pages may wake the workspace as many times in a row as wakes says, and then once per
	// wakeEvery. A page that a person opens always wakes the workspace.
	wakes     = 10
	wakeEvery = 5 * time.Minute
	// maxPages bounds the pages that are known of one workspace.
	maxPages = 256
	// sweepAbove is the number of workspaces from which on the Tabs forget workspaces without a sign of life.
	sweepAbove = 64
)

// Address is a hash that identifies a page by its host and path; 0 means that the page is unknown. Different processes
// give the same page different values.
type Address uint64

var seed = maphash.MakeSeed()

// AddressOf returns the address of a page.
func AddressOf(host, path string) Address {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(host)
	_, _ = h.WriteString(path)
	return Address(h.Sum64())
}

// Sender returns the address of the page that has sent r. It is unknown for WebSockets, and for pages that hide their
// address. It is also unknown for requests of style sheets, modules and workers, which are recognized by the file
// extension in their address; for those without an extension, see parts.go. It does not allocate.
func Sender(r *http.Request) Address {
	at := referrer(r)
	if at == "" {
		return 0
	}
	at, _, _ = strings.Cut(at, "?")
	if !isNamedAsPage(at) {
		return 0
	}
	return AddressOf(r.Host, at)
}

// isNamedAsPage reports whether a page may have the path.
func isNamedAsPage(at string) bool {
	switch path.Ext(at) {
	case "", ".html", ".htm", ".xhtml", ".php", ".asp", ".aspx", ".jsp":
		return true
	}
	return false
}

// referrer returns the path and the query of the page that has sent r, empty when it is not known.
func referrer(r *http.Request) string {
	_, rest, _ := strings.Cut(r.Header.Get("Referer"), "://")
	at, ok := strings.CutPrefix(rest, r.Host)
	if !ok || !strings.HasPrefix(at, "/") {
		return ""
	}
	at, _, _ = strings.Cut(at, "#")
	return at
}

// Tabs are the pages of all workspaces that are open. The zero value is ready, and safe for
// concurrent use.
type Tabs struct {
	// Now is the clock, of which only differences count; nil means [time.Now]. It is set before
	// the first use.
	Now func() time.Time

	mu         sync.RWMutex
	workspaces map[workspace.ID]*tabs
	sweepAt    int
}

// tabs are the tabs of one workspace.
type tabs struct {
	pages []page
	plain []plain
	parts []part
	kept  map[Address]int // requests that wait for a thaw, by their page
	// inputSince and inputLast are the first and the last report of the present run.
	inputSince, inputLast time.Time
	wakes                 *rate.Limiter
}

// page is a page that has given a sign of life.
type page struct {
	address Address
	// tab is the tab whose script reports for the page; empty while none does.
	tab string
	// since is when the page gave its first sign of life, if it does not report. last is when it gave its last one.
	since, last time.Time
}

func (p page) isReporter(now time.Time) bool { return p.tab != "" && now.Sub(p.last) < trustTime }

// Silent reports whether the page does not report input by people. A newly loaded page is expected
// to report.
func (t *Tabs) Silent(id workspace.ID, a Address) bool {
	now := t.now()
	isPage := func(p page) bool { return p.address == a && p.isReporter(now) }
	t.mu.RLock()
	w := t.workspaces[id]
	reports := w != nil && slices.ContainsFunc(w.pages, isPage)
	t.mu.RUnlock()
	if reports {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w = t.of(id, now)
	if w.isPart(a, now) {
		return false
	}
	i := slices.IndexFunc(w.pages, func(p page) bool { return p.address == a })
	if i < 0 {
		w.add(page{address: a, since: now, last: now})
		return false
	}
	p := &w.pages[i]
	p.last = now
	return p.tab == "" && now.Sub(p.since) >= settleTime
}

// Opener returns the page to which a WebSocket that is just being opened belongs, and 0 for none. The request that
// opens a WebSocket does not name its page. So of the pages that do not report, Opener returns the one that sent a
// request last.
func (t *Tabs) Opener(id workspace.ID) Address {
	now := t.now()
	t.mu.RLock()
	defer t.mu.RUnlock()
	var latest page
	if w := t.workspaces[id]; w != nil {
		for _, p := range w.pages {
			if p.tab == "" && now.Sub(p.last) < socketTime && !p.last.Before(latest.last) {
				latest = p
			}
		}
		if p, ok := w.plainOpener(now); ok && !p.last.Before(latest.last) {
			return p.address
		}
	}
	return latest.address
}

// HasReporter reports whether any page of the workspace reports.
func (t *Tabs) HasReporter(id workspace.ID) bool {
	now := t.now()
	t.mu.RLock()
	defer t.mu.RUnlock()
	w := t.workspaces[id]
	return w != nil && slices.ContainsFunc(w.pages, func(p page) bool { return p.isReporter(now) })
}

// Reports records that the script of a tab runs in the pages: its own, and frames in it.
func (t *Tabs) Reports(id workspace.ID, tab string, pages ...Address) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	for i := range w.pages {
		if w.pages[i].tab == tab {
			w.pages[i].last = now
		}
	}
	for _, a := range pages {
		if a == 0 {
			continue
		}
		w.pages = slices.DeleteFunc(w.pages, func(p page) bool {
			return p.address == a && (p.tab == "" || p.tab == tab)
		})
		w.add(page{address: a, tab: tab, last: now})
	}
}

// Leaves records that the pages of a tab have ended.
func (t *Tabs) Leaves(id workspace.ID, tab string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.workspaces[id]; w != nil {
		w.pages = slices.DeleteFunc(w.pages, func(p page) bool { return p.tab == tab })
	}
}

// Input records a report of input, and returns whether the report counts as use. A script can report made-up input
// forever. So a report does not count if reports have come for longer than limit without a pause, and no person has
// opened a page in that time.
func (t *Tabs) Input(id workspace.ID, limit time.Duration) bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	if now.Sub(w.inputLast) > pauseTime {
		w.inputSince = now
	}
	w.inputLast = now
	return now.Sub(w.inputSince) <= limit
}

// Opened records that a person has opened a page.
func (t *Tabs) Opened(id workspace.ID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if w := t.workspaces[id]; w != nil {
		w.inputLast = time.Time{}
	}
}

// Wakes reports whether a script in a page of the workspace may wake it now.
func (t *Tabs) Wakes(id workspace.ID) bool {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	if w.wakes == nil {
		w.wakes = rate.NewLimiter(rate.Every(wakeEvery), wakes)
	}
	return w.wakes.AllowN(now, 1)
}

func (t *Tabs) now() time.Time {
	if t.Now != nil {
		return t.Now()
	}
	return time.Now()
}

// of returns the tabs of a workspace, without pages that have given no sign for a long time.
func (t *Tabs) of(id workspace.ID, now time.Time) *tabs {
	w := t.workspaces[id]
	if w == nil {
		t.sweep(now)
		w = &tabs{}
		t.workspaces[id] = w
	}
	w.forget(now)
	return w
}

// sweep forgets the workspaces of which nothing is left. It does so whenever the number of workspaces has doubled.
func (t *Tabs) sweep(now time.Time) {
	if t.workspaces == nil {
		t.workspaces, t.sweepAt = make(map[workspace.ID]*tabs), sweepAbove
	}
	if len(t.workspaces) < t.sweepAt {
		return
	}
	for id, w := range t.workspaces {
		w.forget(now)
		if len(w.pages) == 0 && len(w.plain) == 0 && len(w.parts) == 0 && len(w.kept) == 0 && now.Sub(w.inputLast) > pauseTime && (w.wakes == nil || w.wakes.TokensAt(now) >= wakes) {
			delete(t.workspaces, id)
		}
	}
	t.sweepAt = max(2*len(t.workspaces), sweepAbove)
}

func (w *tabs) forget(now time.Time) {
	w.pages = slices.DeleteFunc(w.pages, func(p page) bool { return now.Sub(p.last) >= trustTime })
	w.plain = slices.DeleteFunc(w.plain, func(p plain) bool { return now.Sub(p.last) >= plainTime })
	w.parts = slices.DeleteFunc(w.parts, func(p part) bool { return now.Sub(p.last) >= trustTime })
}

// add adds a page. If there are too many, it replaces the one that has been silent longest.
func (w *tabs) add(p page) {
	w.pages = append(withRoom(w.pages, maxPages, func(p page) time.Time { return p.last }), p)
}

// withRoom returns the list with room for one more entry below the limit. A full list loses the entry that has been
// silent longest.
func withRoom[T any](list []T, limit int, last func(T) time.Time) []T {
	if len(list) < limit {
		return list
	}
	oldest := 0
	for i := range list {
		if last(list[i]).Before(last(list[oldest])) {
			oldest = i
		}
	}
	return slices.Delete(list, oldest, oldest+1)
}
