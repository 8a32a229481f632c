package tabs

import (
	"sync"

	"github.com/codehub/gateway/coordinator/workspace"
)

// keptPerTab is how many requests of one tab may wait until a dozing workspace resumes.
const keptPerTab = 2

// Keep takes a slot in which a request of the page waits until the workspace resumes, and returns a function that frees
// it, or nil if no slot is free. Each tab that reports has [keptPerTab] slots. All other pages, known or unknown, share
// as many slots as the reporting tabs have together. Without such a tab there are no slots, because a person can end
// the wait only in a tab that reports.
func (t *Tabs) Keep(id workspace.ID, a Address) (release func()) {
	now := t.now()
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.of(id, now)
	all, own := make(map[string]bool), make(map[string]bool)
	for _, p := range w.pages {
		if p.isReporter(now) {
			all[p.tab] = true
			if p.address == a {
				own[p.tab] = true
			}
		}
	}
	places := len(own)
	if places == 0 {
		a, places = 0, len(all)
	}
	if w.kept[a] >= keptPerTab*places {
		return nil
	}
	if w.kept == nil {
		w.kept = make(map[Address]int)
	}
	w.kept[a]++
	return sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if w.kept[a]--; w.kept[a] == 0 {
			delete(w.kept, a)
		}
	})
}
