package browser

import (
	"fmt"
	"strings"
	"testing"
)

// primary waits until an element has one main button, with this action and this label.
func (b *tab) primary(of, action, called string) {
	b.t.Helper()
	b.until(of+": "+called, fmt.Sprintf(`((all) => all.length === 1 && all[0].dataset.action === %q && all[0].innerText === %q)([...document.querySelectorAll('%s .primary')])`,
		action, called, of))
}

// helps checks the first action that the card of a failed workspace offers its owner, and uses it.
func helps(b *tab) {
	b.primary(`[data-name=ImagePullFailed]`, "edit", "Choose another image")
	b.until("another attempt is beside it", `document.querySelector("[data-name=ImagePullFailed] [data-action=retry]").checkVisibility()`)
	b.press(`[data-name=ImagePullFailed] .primary`)
	b.until("the images", `document.getElementById("edit").open && document.querySelector("#edit-image [data-image=python]")`)
	b.press(`#edit [value=cancel]`)
	for _, reason := range []string{"DataLost", "ArchiveCorrupted", "RetryExceeded"} {
		b.primary(`[data-name=`+reason+`]`, "report", "Tell an administrator")
	}
	b.press(`[data-name=DataLost] .primary`)
	b.until("what an administrator has to know", `((text) => text.includes("Workspace: DataLost") && text.includes("Files not found (DataLost)") &&
		text.includes(document.querySelector("[data-name=DataLost]").dataset.workspace))(document.getElementById("report-message").value)`)
	b.press(`#report [value=cancel]`)
	if said := js[string](b, `document.body.textContent`); strings.Contains(said, "what the server said") {
		b.t.Error("an owner reads what servers said")
	}
}

// waits checks what the owner is offered for a workspace that waits because its image could not be pulled, and for
// workspaces with damaged files.
func waits(b *tab) {
	b.primary(`[data-name=not-pulled-yet]`, "retry", "Try again")
	b.until("another image is beside it", `document.querySelector("[data-name=not-pulled-yet] [data-action=edit]").innerText === "Choose another image"`)
	b.load("/preview/dashboard/files", "en")
	b.primary(`[data-name=damaged]`, "details", "Details")
	b.until("one with its volume is opened", `document.querySelector("[data-name=damaged-beside-volume] a.primary").innerText === "Open"`)
}

// administrators checks what an administrator is offered. It also checks that a server's error message is shown only on
// request, and only once.
func administrators(b *tab) {
	b.press("[data-view=cards]")
	b.primary(`[data-name=DataLost]`, "recover", "Recover")
	b.primary(`[data-name=ImagePullFailed]`, "edit", "Choose another image")
	const once = `((all) => all.textContent.split("what the server said").length === 2 && !all.innerText.includes("what the server said"))`
	b.until("once, and closed", once+`(document.querySelector("[data-name=DataLost]"))`)
	b.press(`[data-name=DataLost] .said summary`)
	b.until("open", `document.querySelector("[data-name=DataLost] .said").innerText.includes("what the server said")`)
	b.press(`[data-name=DataLost] h3 a, [data-name=DataLost] th a`)
	b.until("its page", `document.querySelector("#view-workspace .explain .said")`)
	b.until("once, and closed", once+`(document.getElementById("view-workspace"))`)
	b.press("nav [data-view=admin]")
	b.press("[data-tab=failed]")
	b.until("once, and closed", once+`(document.querySelector("#failed-list li"))`)
	b.press("nav [data-view=home]")
	b.press("[data-view=table]") // restores the former view
}

// leads follows the main button of the pages about failed workspaces.
func leads(b *tab) {
	const main = `[...document.querySelectorAll("a.main")].filter((a) => a.checkVisibility())`
	for page, want := range map[string]string{
		"failed/ImagePullFailed": "Choose another image #/w/00000000-0000-4000-8000-000000000001/edit",
		"failed/Timeout":         "Tell an administrator #/w/00000000-0000-4000-8000-000000000001/report",
		"failed/DataLost":        "Tell an administrator #/w/00000000-0000-4000-8000-000000000001/report",
	} {
		for _, path := range []string{page, strings.Replace(page, "/", "/meanwhile-", 1)} {
			b.load("/preview/"+path, "en")
			b.until(path+" leads on", fmt.Sprintf(`((all) => all.length === 1 && all[0].innerText + " " + all[0].hash === %q)(%s)`, want, main))
		}
	}
	b.load("/preview/dashboard/failed", "en")
	b.until("one that failed", `document.querySelector("[data-name=ImagePullFailed]")`)
	of := js[string](b, `document.querySelector("[data-name=ImagePullFailed]").dataset.workspace`)
	js[string](b, `location.hash = "#/w/`+of+`/edit"`)
	b.until("the images", `document.getElementById("edit").open && location.hash === "#/w/`+of+`"`)
	b.press(`#edit [value=cancel]`)
	b.until("its page", `document.querySelector("#view-workspace h1").innerText === "ImagePullFailed"`)
}

// summaries checks the page of a workspace: its state, the reason and the next step, then logs and plots.
func summaries(b *tab) {
	const lines = `[...document.querySelectorAll("#view-workspace .summary dt")].map((e) => e.innerText).join() === "State,Reason,Next step" &&
		[...document.querySelectorAll("#view-workspace .summary dd")].length === 3 && document.querySelector("#view-workspace .summary").innerText`
	b.until("one that runs", `document.querySelector("[data-name=RUNNING]")`)
	js[string](b, `location.hash = "#/w/" + document.querySelector("[data-name=RUNNING]").dataset.workspace`)
	b.until("its state, the reason and what comes", `((text) => /is running[^]*requested by mina[^]*(goes to sleep|begins to doze) at/.test(text))(`+lines+`)`)
	b.until("then logs, then plots and ports", `[...document.querySelectorAll("#view-workspace .main > *")].map((e) => ["explain", "logs", "stats"].find((name) => e.classList.contains(name)))
		.filter(Boolean).join() === "explain,logs,stats" && document.querySelector("#view-workspace .stats ul")`)
	b.until("memory as it was written", `document.querySelector("#view-workspace .stats").innerText.includes("of 2 GiB")`)
	b.until("events in place of steps", `document.querySelectorAll("#view-workspace .timeline > li").length === 3 &&
		document.querySelector("#view-workspace .timeline > li").innerText.startsWith("Woken by mina, 30 min")`)
	b.load("/preview/dashboard/failed", "en")
	b.until("one that failed", `document.querySelector("[data-name=ImagePullFailed]")`)
	js[string](b, `location.hash = "#/w/" + document.querySelector("[data-name=ImagePullFailed]").dataset.workspace`)
	b.until("its state, the reason and what to do", `((text) => /Error[^]*could not be pulled[^]*Choose another image/.test(text))(`+lines+`)`)
}

// TestErrors checks what people read about failures, and where they are led.
func TestErrors(t *testing.T) {
	run(t, []flow{
		{"what helps an owner", "failed", helps},
		{"what helps one that waits", "waiting", waits},
		{"what helps an administrator", "administrator", administrators},
		{"from the page of a failure", "failed", leads},
		{"state, reason and next step", "phases", summaries},
	})
}
