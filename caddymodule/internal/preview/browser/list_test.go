package browser

import (
	"testing"

	"github.com/chromedp/cdproto/cdp"
	cdpnetwork "github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// TestOneWorkspace runs what people do with one workspace.
func TestOneWorkspace(t *testing.T) {
	run(t, []flow{{"another name, a copy, a favourite, and its end", "live", menuOfOne}})
}

// menuOfOne renames a workspace in place, makes it a favourite, duplicates it and copies its address.
func menuOfOne(b *tab) {
	press := func(name, action string) {
		b.t.Helper()
		b.press(`[data-name=` + name + `] [data-menu]`)
		b.press(`[data-name=` + name + `] [data-action=` + action + `]`)
	}
	b.until("they are there", is("notes", "STANDBY"))
	press("notes", "rename")
	b.until("its name is a field", `document.activeElement.id === "rename" && document.activeElement.value === "notes"`)
	b.key("Escape")
	b.until("it is given up, and the focus is not lost", `!document.getElementById("rename") && document.activeElement.dataset.menu`)
	press("notes", "rename")
	b.until("its name is a field again", `document.activeElement.id === "rename"`)
	b.fill("#rename", "lecture notes")
	b.enter("#rename")
	b.until("it has the name", `document.querySelector("[data-name='lecture notes']") && !document.getElementById("rename")`)
	press("course", "favourite")
	b.until("it is among the favourites", `document.getElementById("group-favourite")?.parentElement.querySelector("[data-name=course] .star")`)
	press("course", "favourite")
	b.until("it is none", `!document.querySelector(".star") && document.querySelector("[data-name=course]")`)
	press("'lecture notes'", "duplicate")
	b.until("a copy", `document.getElementById("create-dialog").open && document.getElementById("create-name").value === "lecture notes (copy)" &&
		document.getElementById("create-description").value === "What it is for" && document.getElementById("create-like").checkVisibility()`)
	b.press("#create")
	b.until("it is there", is("lecture notes (copy)", "RUNNING"))
	b.until("its toast goes with its truth", `!document.getElementById("toasts").innerText.includes("(copy)")`)
	js[bool](b, `(Object.defineProperty(navigator, "clipboard", { value: { writeText: (text) => { window.copied = text; return Promise.resolve(); } } }), true)`)
	press("course", "copy_address")
	b.until("the address", `window.copied.startsWith(location.origin + "/") && document.getElementById("toasts").innerText.includes("was copied")`)

	b.press(`[data-name=course] [data-menu]`)
	b.press(`[data-name=course] [data-action=delete]`)
	b.press("#deleted-list [data-purge]")
	b.until("for good is asked about", `document.getElementById("confirm").open && document.getElementById("confirm-text").innerText.includes("cannot be undone")`)
	b.press("#confirm-ok")
	b.until("nothing is kept", `!document.querySelector("#deleted") && !document.querySelector("[data-name=course]")`)
}

// languages chooses a language from the list.
func languages(b *tab) {
	b.until("all of them", `[...document.getElementById("language").options].map((e) => e.value).join() === "en,ko" && document.getElementById("language").labels[0].innerText.includes("Language")`)
	js[bool](b, `((e) => { e.value = "ko"; return e.dispatchEvent(new Event("change")); })(document.getElementById("language"))`)
	b.until("it is spoken", `document.documentElement.lang === "ko" && document.querySelector("nav [data-view=home]").innerText === "워크스페이스" && document.cookie.includes("codehub_lang=ko")`)
	js[bool](b, `((e) => { e.value = "en"; return e.dispatchEvent(new Event("change")); })(document.getElementById("language"))`)
	b.until("the former one", `document.querySelector("nav [data-view=home]").innerText === "Workspaces"`)
}

// unloaded loads the page while its requests for the styles and the script fail, and so do two more attempts. Then the
// requests succeed.
func unloaded(b *tab) {
	if _, err := chromedp.Call(b.ctx, cdpnetwork.ClearBrowserCache, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
	b.site.fail(9) // the browser itself repeats some requests
	b.call(chromedp.Reload())
	b.until("it says that it is loaded again", `!document.getElementById("unloaded").hidden`)
	b.until("it is there", `document.getElementById("unloaded").hidden && document.querySelector("#view-home[aria-busy=false] [data-workspace]")`)
	b.until("it has its styles", `getComputedStyle(document.querySelector(".hidden")).position === "absolute"`)
	if !b.site.failed() {
		b.t.Error("fewer requests failed than were to fail")
	}
}

// sorting presses column titles: the first press sorts in the usual order, the second in reverse.
func sorting(b *tab) {
	b.until("all", `document.querySelectorAll("[data-workspace]").length === 300`)
	b.press("[data-view=table]")
	states := `[...document.querySelectorAll("tbody tr")].map((e) => e.dataset.care !== undefined ? "care" : e.dataset.dozing !== undefined ? "dozing" : e.dataset.phase)`
	b.press("[data-sort=name]")
	b.until("by name", `document.querySelector("th[aria-sort=ascending] [data-sort=name]")`)
	b.press("[data-sort=name]")
	b.until("from the end", `document.querySelector("th[aria-sort=descending] [data-sort=name]") &&
		(([a, b]) => a.localeCompare(b, undefined, { numeric: true }) > 0)([...document.querySelectorAll("tbody bdi")].map((e) => e.innerText))`)
	b.press("[data-sort=state]")
	b.until("those that run come before those that sleep", `((all) => all.includes("RUNNING") && all.includes("STANDBY") &&
		all.lastIndexOf("RUNNING") < all.indexOf("STANDBY"))(`+states+`)`)
	b.press("[data-sort=state]")
	b.until("and after them", `((all) => all.lastIndexOf("STANDBY") < all.indexOf("RUNNING"))(`+states+`)`)
	b.press("[data-sort=used]")
	b.until("the latest first", `document.querySelector("th[aria-sort=descending] [data-sort=used]")`)
	js[bool](b, `((e) => { e.value = "state"; e.onchange({ target: e }); return true; })(document.getElementById("sort"))`)
	b.until("a choice begins with the usual order", `document.querySelector("th[aria-sort=ascending] [data-sort=state]")`)
	b.fill("#search", "space-12")
	b.until("few are a table, too", `document.querySelectorAll("tbody tr").length === 10`)
	b.press("[data-view=cards]") // this browser remembers the choice
}

// counted compares the numbers: a dozing workspace does not count toward the limit, and is not listed as running.
func counted(b *tab) {
	b.until("as many run as it says", `parseInt(document.getElementById("running").innerText) ===
		document.querySelectorAll("[data-workspace][data-phase=RUNNING]:not([data-dozing])").length`)
	b.until("no dozing workspace is among those that run", `document.querySelector("[data-dozing]") && !document.querySelector("section[data-key=running] [data-dozing]")`)
}
