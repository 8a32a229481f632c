package browser

import (
	"fmt"
	"sync"
	"testing"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/words"
)

// overflowing describes the elements that are wider than the page, in every language that the page contains. It is
// empty if there are none.
const overflowing = `(() => {
	const root = document.documentElement, own = root.lang;
	const wide = %s.map((lang) => {
		if (document.querySelector("span[lang=" + lang + "]")) root.lang = lang;
		if (root.scrollWidth <= innerWidth) return "";
		return lang + ": " + [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1)
			.slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" ");
	}).join("");
	root.lang = own;
	return wide;
})()`

// TestEveryState checks that no page needs horizontal scrolling: on the narrowest phone, and on a usual screen and a
// tablet at 200 % and 400 %, which have the same widths. It also checks that axe finds nothing, in either theme.
func TestEveryState(t *testing.T) {
	t.Parallel()
	var seen sync.Map // of pages
	languages := "["
	for _, l := range words.Languages() {
		languages += fmt.Sprintf("%q,", l.Code)
	}
	each(t, seed.Third(t, pagesOf(open(t), "en")), func(b *tab, path string) {
		b.look("light", 320)
		b.states(path, "en", func(name string) {
			for _, width := range []int{320, 410, 640} {
				b.look("light", width)
				if wide := js[string](b, fmt.Sprintf(overflowing, languages+"]")); wide != "" {
					b.t.Errorf("%s is wider than %d: %s", name, width, wide)
				}
			}
			b.accessible(name, &seen)
		})
	})
}

// TestTheViewsFitAPhone checks that a phone shows all views in the dashboard's header completely.
func TestTheViewsFitAPhone(t *testing.T) {
	b := open(t)
	for _, l := range words.Languages() {
		b.load("/preview/dashboard/administrator", l.Code)
		b.until("the views, with how many workspaces failed", `document.querySelector("header nav .count")?.innerText > 0`)
		b.look("light", 360)
		b.until("all of them in "+l.Code, `((nav) => nav.scrollWidth <= nav.clientWidth)(document.querySelector("header nav"))`)
	}
}
