package browser

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/wait"
)

// states are views that a page shows only after actions. None of these actions changes what the preview answers.
var states = []struct {
	page, name string
	deeds      []string // the names of deeds
}{
	{"dashboard/live", "creating", []string{"beginning to create one"}},
	{"dashboard/live", "menu", []string{"the menu of one that sleeps"}},
	{"dashboard/live", "editing", []string{"the menu of one", "editing one"}},
	{"dashboard/live", "shortcuts", []string{"the shortcuts"}},
	{"dashboard/hundreds", "selected", []string{"selecting all"}},
	{"dashboard/hundreds", "nothing-found", []string{"finding nothing"}},
	{"dashboard/refused-limit-of-the-user", "swap", []string{"the menu of one that sleeps", "starting one"}},
	{"dashboard/refused-name", "creating", []string{"beginning to create one", "creating one"}},
	{"dashboard/refused-busy", "refused", []string{"the menu of one that sleeps", "archiving one"}},
	{"dashboard/refused-choice", "recovery", []string{"recovering one"}},
	{"dashboard/files", "restoring", []string{"the page of one", "restoring an archive"}},
	{"dashboard/phases", "log", []string{"the page of one that runs", "the log"}},
	{"dashboard/phases", "token", []string{"the account", "beginning a token", "making a token"}},
	{"dashboard/administrator", "user", []string{"the administrator's view", "the users", "beginning to add a user"}},
	{"sign-in/refused-bad-credentials", "refused", []string{"signing in"}},
}

// states calls see with the name of each state of a page: as loaded, each view that its navigation leads to, and each
// of its states after actions.
func (b *tab) states(path, language string, see func(name string)) {
	b.t.Helper()
	page := strings.TrimPrefix(path, "/preview/")
	b.load(path, language)
	b.rest(path)
	views := b.views(path)
	for i := 0; i < len(views); i++ {
		name, view := page, views[i]
		if view != "" {
			js[string](b, fmt.Sprintf(`location.hash = %q`, view))
			b.rest(path + view)
			name += "/" + viewName(view)
		}
		if view == "#/admin" {
			views = append(views, hashes(b, `[...document.querySelectorAll("[data-tab]:not([aria-current])")]`)...)
		}
		see(name)
	}
	for _, s := range states {
		if s.page != page {
			continue
		}
		b.load(path, language)
		b.rest(path)
		for _, named := range s.deeds {
			d := deeds[slices.IndexFunc(deeds, func(d deed) bool { return d.name == named })]
			wait.For(b.t, fmt.Sprintf("%s: %s can be done for %s", page, named, s.name), func() error {
				if !b.do(d.on, d.does) { // the element may appear a moment later
					return errors.New(js[string](b, "document.body.innerText"))
				}
				return nil
			})
			b.rest(path)
		}
		see(page + "/" + s.name)
	}
}

// views returns the fragments of the views that a page leads to. The first is the page as loaded. The language test
// checks the results of refused changes.
func (b *tab) views(path string) []string {
	b.t.Helper()
	views := []string{""}
	if strings.Contains(path, "/refused-") {
		return views
	}
	return append(views, hashes(b, `[...document.querySelectorAll("nav a[href^='#/']"),
		...[...document.querySelectorAll("h3 a[href^='#/']")].slice(0, 1)]`)...)
}

// hashes returns the fragments of the visible links in an array.
func hashes(b *tab, links string) []string {
	b.t.Helper()
	return strings.Fields(js[string](b, links+
		`.filter((a) => a.checkVisibility()).map((a) => a.hash).filter((hash) => hash.length > 2).join(" ")`))
}

// viewName returns the name of a view for the pictures, without the id of a workspace.
func viewName(view string) string {
	if strings.HasPrefix(view, "#/w/") {
		return "workspace"
	}
	return strings.ReplaceAll(strings.Trim(view, "#/"), "/", "-")
}
