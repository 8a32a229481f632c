package gateway

import (
	"io"
	"net/http"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// windowsPage opens windows that have no document of their own, in all ways that browsers know.
const windowsPage = `<!doctype html><title>Windows</title><script>
	const text = '<!doctype html><textarea autofocus></textarea>';
	const opens = {
		empty: () => open("", "empty", "width=400,height=300").document.body.innerHTML = text,
		written: () => { const w = window.open("about:blank"); w.document.write(text); w.document.close(); },
		late: () => { const w = open(""); setTimeout(() => { w.document.open(); w.document.write(text); w.document.close(); }, 3000); },
		blob: () => open(URL.createObjectURL(new Blob([text], { type: "text/html" }))),
		document: () => document.open("", "document", "width=300").document.body.innerHTML = text,
		framed: () => frames[0].open("").document.body.innerHTML = text,
		picture: () => documentPictureInPicture.requestWindow().then((w) => w.document.body.innerHTML = text),
		itself: () => { document.open(); document.write(text); document.close(); },
	};</script><iframe srcdoc="<p>frame"></iframe><p id="there">there</p>`

// pictures replaces the browser's Document Picture-in-Picture, which the test cannot use: it needs a click, and shows
// its window only on a real screen.
const pictures = `{
	const native = window.open, api = new EventTarget();
	Object.defineProperty(window, "documentPictureInPicture", { value: api });
	api.requestWindow = () => {
		const w = native.call(window, "", "picture");
		api.dispatchEvent(Object.assign(new Event("enter"), { window: w }));
		return Promise.resolve(w);
	};
}`

// newWindow calls does, and returns the window that this opens.
func (b *browser) newWindow(does func()) *browser {
	b.t.Helper()
	ids := chromedp.WaitNewTarget(b.ctx, func(i *target.Info) bool { return i.Type == "page" })
	does()
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithTargetID(<-ids))
	b.t.Cleanup(cancel)
	if _, err := chromedp.Call(ctx, page.BringToFront, cdp.Empty{}); err != nil {
		b.t.Fatal(err)
	}
	return &browser{harness: b.harness, editor: b.editor, ctx: ctx}
}

// TestWindowsWithoutADocumentAreWatched like frames: input in them is use.
func TestWindowsWithoutADocumentAreWatched(t *testing.T) {
	b := openEditor(t)
	b.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, windowsPage)
	}))
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: pictures}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"empty", "written", "late", "blob", "document", "framed", "picture", "itself"} {
		b.do("opening the page", chromedp.Navigate(b.url+onePath+"/"), chromedp.WaitReady(chromedp.CSS("#there")))
		wait.Until(t, "the page is loaded", func() bool { return b.mode(one) == workspace.PagePresence && !b.Used(one) })
		opens := func() { js[bool](b, `void opens.`+name+`() || true`) }
		in := b
		if name == "itself" {
			opens()
		} else {
			in = b.newWindow(opens)
		}
		wait.Until(t, "its text is there", func() bool {
			return js[bool](in, `(() => { document.querySelector("textarea")?.focus(); return !!document.activeElement?.matches("textarea"); })()`)
		})
		wait.Until(t, "a key in the window "+name+" is use", func() bool {
			in.key("x")
			return b.Used(one)
		})
		if !js[bool](b, `open.toString().includes("[native code]") && open.name === "open"`) {
			t.Error("the page sees that it is watched")
		}
	}
}
