package browser

import (
	"errors"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/codehub/gateway/coordinator/wait"
)

// flow is a sequence of user actions on a page of the dashboard.
type flow struct {
	name, page string
	do         func(b *tab)
}

// run runs the flows one after the other in one browser.
func run(t *testing.T, flows []flow) {
	t.Helper()
	b := open(t)
	for _, f := range flows {
		t.Run(f.name, func(t *testing.T) {
			b := *b
			b.t = t
			b.load("/preview/dashboard/"+f.page, "en")
			f.do(&b)
		})
	}
}

// TestDashboard runs what people do in the dashboard.
func TestDashboard(t *testing.T) {
	run(t, []flow{
		{"creating at the limit", "live", creating},
		{"deleting and undoing", "live", deleting},
		{"a page with an address", "live", addresses},
		{"editing what others edit", "live", editing},
		{"the menu from the keyboard", "live", menus},
		{"hundreds of workspaces", "hundreds", hundreds},
		{"access tokens", "phases", tokens},
		{"one that dozes", "awake", dozing},
		{"one that dozes and goes on", "live-dozing", thawing},
		{"what a running one uses", "phases", uses},
		{"the installation", "administrator", overviews},
		{"how long workspaces were awake", "phases", usages},
		{"who asked for what", "administrator", audits},
		{"a session that ends", "session-ended", expires},
		{"a server that restarts", "phases", restarts},
		{"a slow network", "phases", slowly},
		{"a network that fails", "phases", unloaded},
		{"columns in both orders", "hundreds", sorting},
		{"one state, and one number of it", "awake", counted},
		{"languages", "phases", languages},
	})
}

// until waits until an expression is true in the page.
func (b *tab) until(what, expression string) {
	b.t.Helper()
	wait.For(b.t, what, func() error {
		if !js[bool](b, "(() => { try { return Boolean("+expression+"); } catch { return false; } })()") { // an element may not exist yet
			return errors.New(js[string](b, "document.body.innerText"))
		}
		return nil
	})
}

// press clicks the first element that matches a selector once it is visible and enabled.
func (b *tab) press(on string) {
	b.t.Helper()
	wait.For(b.t, on+" can be pressed", func() error {
		if !b.do(on, "e.click()") {
			return errors.New(js[string](b, "document.body.innerText"))
		}
		return nil
	})
}

// fill writes into a field.
func (b *tab) fill(field, text string) {
	b.t.Helper()
	js[bool](b, fmt.Sprintf(`((e) => { e.value = %q; e.dispatchEvent(new Event("input", { bubbles: true })); return true; })(document.querySelector(%q))`,
		text, field))
}

// key sends a key to the focused element.
func (b *tab) key(key string) {
	b.t.Helper()
	js[bool](b, fmt.Sprintf(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: %q, bubbles: true, cancelable: true })) || true`, key))
}

// enter presses Enter in a field, as a person would on a keyboard. The browser then chooses which button of the form is
// pressed.
func (b *tab) enter(field string) {
	b.t.Helper()
	b.call(chromedp.Focus(chromedp.CSS(field)), chromedp.KeyEvent(kb.Enter))
}

// is returns an expression for the element of a workspace with a name and a phase.
func is(name, phase string) string {
	return fmt.Sprintf(`document.querySelector('[data-name="%s"][data-phase=%s]')`, name, phase)
}

func creating(b *tab) {
	b.press("#new")
	b.until("the name has the focus", `document.activeElement.id === "create-name"`)
	b.press("#create")
	b.until("a name is asked for", `document.getElementById("create-message").innerText.includes("Enter a name")`)
	b.until("an image's title, size and picture", `(() => { const c = document.querySelector("#create-image [data-image=default]");
		return c.innerText.includes("VS Code (default)") && c.innerText.includes("1.2 GB") && c.querySelector("use").href.baseVal.endsWith("#icon-code"); })()`)
	b.press("#create-image [data-image=python] input")
	b.until("it clones nothing", `document.querySelector("#create-git").parentElement.hidden`)
	b.press("#create-image [data-image=default] input")
	b.until("it clones a repository", `!document.querySelector("#create-git").parentElement.hidden`)
	b.fill("#create-git", " https://git.example/first.git ")
	b.fill("#create-name", "first")
	js[bool](b, `(document.getElementById("create").click(), document.getElementById("create").click(), true)`)
	b.until("it is there", is("first", "RUNNING"))
	b.until("it was made once", `document.querySelectorAll('[data-name=first]').length === 1 && !document.querySelector("dialog[open]")`)

	b.press("#new")
	b.until("the address is empty", `document.querySelector("#create-git").value === ""`)
	b.fill("#create-name", "second")
	b.enter("#create-name")
	b.until("the choice", `document.querySelectorAll("#swap[open] input[name=swap]").length === 2`)
	b.press(`#swap[open] [value=cancel]`)
	b.until("what was typed is there", `document.getElementById("create-dialog").open && document.getElementById("create-name").value === "second"`)
	b.press("#create")
	b.until("a choice is made", `document.querySelector("#swap[open] input[name=swap]:checked")`)
	b.press(`#swap[open] label:has([name=swap]):first-child input`)
	b.press(`#swap[open] [value=ok]`)
	b.until("it is there", is("second", "RUNNING"))
	b.until("the other one sleeps", `document.querySelectorAll("[data-phase=RUNNING]").length === 2 && !document.querySelector("dialog[open]")`)

	b.press(`[data-name=notes] [data-menu]`)
	b.press(`[data-name=notes] [data-action=start]`)
	b.press(`#swap[open] [value=ok]`)
	b.until("it runs in the place of another", is("notes", "RUNNING"))
	b.until("two run", `document.querySelectorAll("[data-phase=RUNNING]").length === 2`)

	b.press(`[data-name=first] h3 a`)
	b.until("its repository", `document.querySelector("#view-workspace .facts").innerText.includes("https://git.example/first.git")`)
}

// dozing checks a dozing workspace: it shows that it dozes, and can be opened, woken, put to sleep and archived.
func dozing(b *tab) {
	b.until("it says that it dozes", is("dozing", "RUNNING")+`.dataset.dozing !== undefined && `+is("dozing", "RUNNING")+`.querySelector(".phase").innerText === "Dozing"`)
	b.until("it says what wakes it", is("dozing", "RUNNING")+`.innerText.includes("Resumes immediately when it is used")`)
	b.until("others do not", `document.querySelectorAll("[data-dozing]").length === 1 && `+is("kept", "RUNNING")+`.querySelector(".phase").innerText === "Running"`)
	b.until("it can be opened", is("dozing", "RUNNING")+`.querySelector("a.open")`)
	b.press(`[data-name=dozing] [data-menu]`)
	b.until("what can be done", `["Wake", "Sleep", "Archive", "Keep awake for 1 hour"].every((name) =>
		[...document.querySelectorAll("[data-name=dozing] [role=menuitem]")].some((e) => e.innerText.trim() === name))`)
	b.key("Escape")
	b.press(`[data-name=dozing] a[id^=name-]`) // in a card or a row
	b.until("why, and what wakes it", `((text) => text.includes("It is dozing because it has not been used for a while") && text.includes("It resumes immediately"))(
		document.querySelector("#view-workspace .summary").innerText)`)
	b.press("#view-workspace .further summary")
	b.until("when it sleeps", `document.querySelector("#view-workspace .further").innerText.includes("It goes to sleep at")`)
}

// thawing wakes a dozing workspace. While it dozed, it did not count toward the limit, so another workspace must now
// make room for it.
func thawing(b *tab) {
	b.until("two run and one dozes", `document.querySelectorAll("[data-phase=RUNNING]").length === 3 && document.querySelectorAll("[data-dozing]").length === 1`)
	b.press(`[data-name=idle] [data-menu]`)
	b.press(`[data-name=idle] [data-action=start]`)
	b.until("the choice", `document.querySelectorAll("#swap[open] input[name=swap]").length === 2`)
	b.press(`#swap[open] [value=ok]`)
	b.until("it goes on in the place of another", is("idle", "RUNNING")+`.querySelector(".phase").innerText === "Running" &&
		document.querySelectorAll("[data-phase=RUNNING]").length === 2 && !document.querySelector("[data-dozing]")`)
	b.press(`[data-name=idle] [data-menu]`)
	b.press(`[data-name=idle] [data-action=sleep]`)
	b.until("it sleeps", is("idle", "STANDBY"))
}

func deleting(b *tab) {
	b.press(`[data-name=course] [data-menu]`)
	b.press(`[data-name=course] [data-action=delete]`)
	b.until("it is gone", `!document.querySelector("[data-name=course]") && document.querySelector("#deleted-list").innerText.includes("course")`)
	b.until("the focus is not lost", `document.activeElement.id === "main"`)
	b.press(".toast button")
	b.until("it is back", is("course", "ARCHIVED"))
	b.until("nothing is left to undo", `!document.querySelector("#deleted")`)

	running := js[string](b, `document.querySelector("[data-phase=RUNNING]").dataset.name`)
	remove := func() {
		b.t.Helper()
		b.press(fmt.Sprintf(`[data-name=%q] [data-menu]`, running))
		b.press(fmt.Sprintf(`[data-name=%q] [data-action=delete]`, running))
		b.until("one that runs is asked about", `document.getElementById("confirm").open && document.getElementById("confirm-text").innerText.includes("It is running")`)
	}
	remove()
	b.press("#confirm-cancel")
	b.until("it stays", is(running, "RUNNING"))
	remove()
	b.press("#confirm-ok")
	b.until("it is gone", `document.querySelector("#deleted-list") && document.getElementById("toasts").innerText.includes("deleted")`)
	b.press("#deleted-list button:enabled")
	b.until("it is back", is(running, "RUNNING"))
	b.until("the toast has gone with its truth", `!document.querySelector(".toast")`)
}

func addresses(b *tab) {
	b.press(`[data-name=course] h3 a`)
	b.until("its page", `location.hash.startsWith("#/w/") && document.querySelector("#view-workspace h1").innerText === "course"`)
	b.until("its history", `document.querySelectorAll("#view-workspace .timeline li").length === 5`)
	b.until("the focus is in it", `document.activeElement.id === "main"`)
	ctx := b.ctx
	if err := chromedp.Do(ctx, chromedp.Reload()); err != nil {
		b.t.Fatal(err)
	}
	b.until("its page again", `document.querySelector("#view-workspace h1")?.innerText === "course" && document.title.startsWith("course")`)
	js[bool](b, `(history.back(), true)`)
	b.until("the list", `!document.querySelector("#view-home").hidden && document.querySelector("[data-name=course] h3")`)
	js[bool](b, `(location.hash = "#/w/00000000-0000-4000-8000-00000000ffff", true)`)
	b.until("an address of nothing", `document.querySelector("#view-workspace .empty p")?.innerText.length > 10`)
}

func editing(b *tab) {
	b.press(`[data-name=course] [data-menu]`)
	b.press(`[data-name=course] [data-action=edit]`)
	b.until("the dialog", `document.getElementById("edit").open`)
	js[bool](b, `(fetch("/api/v1/workspaces/" + document.querySelector("[data-name=course]").dataset.workspace,
		{ method: "PATCH", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ name: "lecture" }) }), true)`)
	b.until("somebody else's change", `document.querySelector("[data-name=lecture]")`)
	b.fill("#edit-description", "For the spring")
	b.press("#edit [value=ok]")
	b.until("the change is told", `document.getElementById("edit-message").innerText.includes("Name: lecture")`)
	b.until("it is not undone", `document.getElementById("edit-name").value === "lecture"`)
	b.enter("#edit-description")
	b.until("both are kept", `document.querySelector("[data-name=lecture] .description")?.innerText === "For the spring" && !document.getElementById("edit").open`)
}

func menus(b *tab) {
	b.until("the list", `document.querySelector("[data-menu]")`)
	js[bool](b, `(document.querySelector("[data-menu]").focus(), true)`)
	b.key("ArrowUp")
	b.until("the last item has the focus", `document.activeElement.dataset.action === "delete"`)
	b.key("ArrowDown")
	b.until("the first one follows", `document.activeElement === document.querySelector("[role=menuitem]")`)
	b.key("Escape")
	b.until("the button has it again", `document.activeElement.dataset.menu && !document.querySelector("[role=menu]")`)
	b.key("?")
	b.until("the shortcuts", `document.getElementById("keys").open`)
	b.press("#keys [value=ok]")
	b.key("n")
	b.until("a new one", `document.getElementById("create-dialog").open`)
	b.press("#create-dialog [value=cancel]")
}

func hundreds(b *tab) {
	b.until("a table of all", `document.querySelectorAll("tbody tr").length === 300`)
	b.key("/")
	b.until("the search has the focus", `document.activeElement.id === "search"`)
	b.fill("#search", "space-12")
	b.until("ten are found", `document.querySelectorAll("tbody tr").length === 10`)
	b.press("#select-all")
	b.until("ten are chosen", `document.querySelector("#bulk").innerText.includes("10 selected")`)
	b.press("[data-bulk=delete]")
	b.until("several are asked about once", `document.getElementById("confirm").open && /^Delete \d+ workspaces\?$/.test(document.getElementById("confirm-title").innerText)`)
	b.press("#confirm-cancel")
	b.until("they are still chosen", `document.querySelector("#bulk").innerText.includes("10 selected")`)
	b.press("#bulk .plain")
	b.press("[data-view=cards]")
	b.until("ten cards", `document.querySelectorAll("article").length === 10`)
	b.load("/preview/dashboard/hundreds", "en")
	b.until("cards are remembered", `document.querySelectorAll("article").length === 300`)
	b.press("[data-view=table]")
	b.until("a table", `document.querySelectorAll("tbody tr").length === 300`)
}

func tokens(b *tab) {
	b.press("nav [data-view=account]")
	b.until("those that there are", `document.querySelectorAll("#tokens-list li").length === 3`)
	b.press("#token-new > summary")
	b.fill("#token-name", "ci")
	b.press("#token-form button")
	b.until("the secret", `document.getElementById("token-secret")?.value.startsWith("chg_")`)
	b.press("nav [data-view=home]")
	b.press("nav [data-view=account]")
	b.until("it is not shown again", `document.querySelector("#tokens-list") && !document.getElementById("token-secret")`)
}

func uses(b *tab) {
	b.until("one that runs", `document.querySelector("[data-phase=RUNNING]")`)
	js[string](b, `location.hash = "#/w/" + document.querySelector("[data-phase=RUNNING]").dataset.workspace`)
	b.until("two samples of each", `document.querySelectorAll(".stats .plot path").length >= 2`)
	b.press(".logs summary")
	b.until("its log", `document.querySelector(".logs pre").innerText.length > 20`)
}

func overviews(b *tab) {
	js[string](b, `location.hash = "#/admin/overview"`)
	b.until("the figures", `document.querySelectorAll(".figure").length === 7 && document.querySelector("meter")`)
	b.press("#scrub-look")
	b.until("what there is to read back", `document.querySelector("#scrub-report")?.innerText.includes("97 archives") && !document.querySelector("#scrub-now").disabled`)
	b.press("#scrub-now")
	b.until("that it is read", `document.querySelector("#scrub-left") && !document.querySelector("#scrub-report") && !document.querySelector("#scrub-look").disabled`)
	b.press("[data-tab=recent]")
	b.until("what happened", `document.querySelectorAll("#recent li").length > 5`)
}

func expires(b *tab) {
	b.until("it is said", `document.getElementById("expired").open`)
	b.press("#sign-in-again")
	b.until("the sign-in", `location.pathname.includes("/sign-in/")`)
}

func restarts(b *tab) {
	b.until("it is live", `document.querySelector("#connection").dataset.state === "live"`)
	js[bool](b, `(new MutationObserver(() => { window.lost ||= document.querySelector("#connection").innerText; })
		.observe(document.querySelector("#connection"), { childList: true }), true)`)
	b.server.CloseClientConnections()
	b.until("the loss is said", `window.lost?.includes("reconnecting")`)
	b.until("it is live again", `document.querySelector("#connection").dataset.state === "live"`)
}

func slowly(b *tab) {
	b.until("it is live", `document.querySelector("#connection").dataset.state === "live"`)
	answer := b.site.hold()
	defer answer()
	if err := chromedp.Do(b.ctx, chromedp.Reload()); err != nil {
		b.t.Fatal(err)
	}
	b.until("it says that it loads", `document.querySelector("#view-home[aria-busy=true] .skeleton") && document.getElementById("new")`)
	answer()
	b.until("it is there", `document.querySelector("#view-home[aria-busy=false] [data-workspace]")`)
}

func usages(b *tab) {
	b.press("nav [data-view=usage]")
	b.until("what sleeping has saved", `document.querySelector("#view-usage .figure dd").innerText.includes("%")`)
	b.until("every day has its bars", `document.querySelector("#view-usage .days .is-input").getAttribute("d").split("M").length > 20`)
	b.until("the one that was awake longest comes first", `(() => { const hours = [...document.querySelectorAll("#view-usage .usage td:nth-of-type(1)")].map((e) => parseFloat(e.innerText.replace(",", "")));
		return hours.length > 3 && hours.every((n, i) => i === 0 || n <= hours[i - 1]); })()`)
	b.until("what kept it awake", `document.querySelector("#view-usage .usage tbody tr").innerText.includes("People's input")`)
	js[bool](b, `((e) => { e.value = "week"; e.onchange({ target: e }); return true; })(document.getElementById("usage-period"))`)
	b.until("a week has seven days", `document.querySelectorAll("#view-usage .days:first-of-type tbody tr").length === 7`)
	b.press("#view-usage .days summary")
	b.until("the days as a table", `document.querySelector("#view-usage .days tbody td").checkVisibility()`)
	b.until("nothing costs anything yet", `![...document.querySelectorAll("#view-usage .figure")].some((e) => e.innerText.includes("Cost"))`)
	js[bool](b, `((e) => { e.value = "0.5"; e.onchange({ target: e }); return true; })(document.getElementById("usage-price-awake"))`)
	b.until("what it costs", `(() => { const cost = [...document.querySelectorAll("#view-usage .figure")].find((e) => e.innerText.includes("Cost")).querySelector("dd");
		const [is, always] = [cost.firstChild.data, cost.querySelector(".hint").innerText].map((n) => parseFloat(n.replace(",", "")));
		return is > 0 && always > is; })()`)
	b.until("of each", `parseFloat(document.querySelector("#view-usage .usage tbody tr td:last-child").innerText) > 0`)
	js[bool](b, `((e) => { e.value = ""; e.onchange({ target: e }); return true; })(document.getElementById("usage-price-awake"))`)
}

func audits(b *tab) {
	b.press("nav [data-view=admin]")
	b.press("[data-tab=audit]")
	b.until("all of it", `document.querySelectorAll("#audit > li").length > 20`)
	b.until("who, how and from where", `document.querySelector("#audit > li").innerText.includes("in the browser · 192.0.2.1")`)
	b.until("what was refused", `document.querySelector("#audit [data-action='api.request'] .tag").innerText === "Refused"`)
	js[bool](b, `((e) => { e.value = "system"; e.onchange({ target: e }); return true; })(document.getElementById("audit-action"))`)
	b.until("the installation alone", `[...document.querySelectorAll("#audit > li")].every((e) => e.dataset.action.startsWith("system."))`)
	b.until("the same for programs", `document.getElementById("audit-download").href.endsWith("/api/v1/admin/audit?action=system&format=jsonl")`)
	b.press("nav [data-view=account]")
	b.until("what was done with the own account", `document.querySelectorAll("#own-audit li").length === 10 && document.querySelector("#own-audit .next-page")`)
	b.until("with which program", `document.querySelector("#own-audit li").innerText.includes("Firefox · Linux · 192.0.2.1")`)
	b.until("a sign-in that was refused", `document.querySelectorAll("#own-audit li")[1].innerText.includes("Tried to sign in")`)
	b.press("#own-audit .next-page")
	b.until("the rest of it", `document.querySelectorAll("#own-audit li").length === 12 && !document.querySelector("#own-audit .next-page")`)
	b.until("where somebody else is stays unsaid", `!document.getElementById("own-audit").innerText.includes("192.0.2.7")`)
}
