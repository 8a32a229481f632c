//go:build ide

package e2e

import (
	"errors"
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/codehub/gateway/coordinator/devenv/ide"
	"github.com/codehub/gateway/coordinator/wait"
)

// ideDoze is how long a workspace dozes under an open tab.
var ideDoze = flag.Duration("ide-doze", 90*time.Second, "how long TestIDEDozes leaves the tab of a workspace alone that dozes")

// domTerminal makes code-server draw its terminals as text that a test can read.
const domTerminal = `mkdir -p .local/share/code-server/User && echo '{"terminal.integrated.gpuAcceleration":"off"}' >.local/share/code-server/User/settings.json`

// TestIDEDozes: real applications resume where they were after their workspace has dozed under an open tab. The tab's
// own requests do not wake it meanwhile, and the page is not loaded again.
func TestIDEDozes(t *testing.T) {
	// Notebooks save changes by themselves after two minutes, so the workspace dozes only after that.
	in := install(t, append(dozing, "TTL_DOZE_SECONDS=180", "TTL_STANDBY_SECONDS=86400", "LIMITS_MAX_RUNNING_PER_USER=40",
		"LIMITS_MAX_DOZING_PER_USER=40")...)
	e := &environments{installation: in, me: in.admin(t), codeServer: in.load(t, ide.CodeServer), jupyter: in.load(t, ide.Jupyter)}
	lab := in.load(t, ide.JupyterLab)
	for name, scene := range map[string]func(*testing.T){
		"CodeServer": e.editorDozes,
		"Jupyter":    e.notebookDozes,
		"JupyterLab": func(t *testing.T) { e.labDozes(t, lab) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scene(t)
		})
	}
}

// dozesFor watches the untouched tab of a dozing workspace.
func (e *environments) dozesFor(t *testing.T, b *tab, id string) {
	t.Helper()
	e.awaitFrozen(t, id, true)
	wait.For(t, "the tab says that it dozes", func() error {
		if said := read(b, "what the tab says", chromedp.Evaluate[string](noticed)); !strings.Contains(said, "Dozing") {
			return fmt.Errorf("it says %q", said)
		}
		return nil
	})
	read(b, "marking the page", chromedp.Evaluate[bool](`window.before = true`))
	b.documents()
	began := e.me.workspace(t, id).DozeAt
	for begin := time.Now(); time.Since(begin) < *ideDoze; pause(t, time.Second) {
		if w := e.me.workspace(t, id); !e.frozen(t, id) || w.DozeAt != began {
			t.Fatalf("it goes on by itself after %s:\n%s", time.Since(begin).Round(time.Second), e.explain(t, id))
		}
	}
	t.Log(b.screenshot())
}

// noticed is the text of our notice in a page.
const noticed = `document.querySelector("codehub-notice")?.shadowRoot.textContent || ""`

// goesOn waits until an element of the tab shows a text, and records the time since began. It checks that the page was
// not loaded again while the workspace dozed.
func (e *environments) goesOn(t *testing.T, b *tab, began time.Time, selector, text string) {
	t.Helper()
	wait.For(t, "the tab shows "+text, func() error { return b.prints(selector, text) })
	figure("ide_doze_goes_on_after "+strings.ReplaceAll(t.Name(), "/", "_"), time.Since(began).Seconds(), "s")
	if s := b.documents(); len(s) != 0 || !read(b, "the mark", chromedp.Evaluate[bool](`window.before === true`)) {
		t.Errorf("the page was loaded again: %v", s)
	}
	if said := read(b, "what the tab says", chromedp.Evaluate[string](noticed)); said != "" {
		t.Errorf("it still says %q", said)
	}
}

// has reports whether a selector finds something.
func (b *tab) has(selector string) error {
	if !read(b, "whether it is there", chromedp.Evaluate[bool](fmt.Sprintf("!!document.querySelector(%q)", selector))) {
		return errors.New("it is not there")
	}
	return nil
}

// prints returns an error unless the elements that the selector matches contain a text. It treats non-breaking spaces
// as spaces.
func (b *tab) prints(selector, text string) error {
	got := read(b, "what is shown", chromedp.Evaluate[string](fmt.Sprintf(
		`[...document.querySelectorAll(%q)].map((e) => e.innerText).join("\n").replaceAll("\u00a0", " ")`, selector)))
	if !strings.Contains(got, text) {
		return errors.New(got)
	}
	return nil
}

// shell opens code-server's own terminal, and waits until the terminal answers typed input.
func (b *tab) shell() {
	b.t.Helper()
	b.command("Terminal: Create New Terminal")
	b.do("the terminal", chromedp.WaitVisible(chromedp.CSS(`.terminal-wrapper.active .xterm-screen`)))
	wait.For(b.t, "the shell's prompt", func() error { return b.prints(screen, "$") })
}

// screen finds the lines of code-server's terminal.
const screen = `.terminal-wrapper.active .xterm-rows`

// editorDozes: the shell in a terminal keeps its variable, and an editor its unsaved text.
func (e *environments) editorDozes(t *testing.T) {
	id := e.open(t, e.codeServer)
	e.inContainer(t, "ws-"+id, domTerminal)
	b := e.tab(t, id, "/", `.monaco-workbench .part.editor`)
	b.newFile()
	b.insert("not saved")
	b.shell()
	b.typeLine("VALUE=kept; echo is$VALUE")
	wait.For(t, "the shell answers", func() error { return b.prints(screen, "iskept") })
	e.dozesFor(t, b, id)
	began := time.Now()
	b.typeLine("echo still$VALUE")
	e.goesOn(t, b, began, screen, "stillkept")
	if err := b.prints(`.editor-instance .view-lines`, "not saved"); err != nil {
		t.Errorf("the editor shows %v", err)
	}
	if err := b.prints(`.tab.dirty`, "Untitled"); err != nil {
		t.Errorf("what is not saved: %v", err)
	}
	if err := b.prints(`.monaco-dialog-box, .notification-toast`, "econnect"); err == nil {
		t.Error("the editor says that it has no connection")
	}
}

// emptyNotebook makes a notebook of one empty cell.
const emptyNotebook = `echo '{"cells":[{"cell_type":"code","execution_count":null,"metadata":{},"outputs":[],"source":[]}],"metadata":{"kernelspec":{"display_name":"Python 3 (ipykernel)","language":"python","name":"python3"}},"nbformat":4,"nbformat_minor":4}' >it.ipynb`

// notebookDozes: a kernel keeps its variable, and a cell its text that has not run yet.
func (e *environments) notebookDozes(t *testing.T) {
	id := e.open(t, e.jupyter)
	e.inContainer(t, "ws-"+id, emptyNotebook)
	b := e.tab(t, id, "/notebooks/it.ipynb", `.CodeMirror`)
	wait.For(t, "the kernel is idle", func() error {
		if !read(b, "its state", chromedp.Evaluate[bool](`!!document.querySelector(".kernel_idle_icon") && !!Jupyter.notebook.kernel?.is_connected()`)) {
			return errors.New("it is not")
		}
		return nil
	})
	run := chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift))
	b.do("the cell", chromedp.Click(chromedp.CSS(`.CodeMirror`)))
	b.insert(`value = "kept"; print("is" + value)`)
	b.do("running it", run)
	wait.For(t, "the kernel answers", func() error { return b.prints(`.output_area`, "iskept") })
	b.insert(`print("still" + value)`)
	e.dozesFor(t, b, id)
	began := time.Now()
	b.do("running the next cell", run)
	e.goesOn(t, b, began, `.output_area`, "stillkept")
}

// labDozes checks the same for JupyterLab, which would show a message if its server did not answer. In this test a
// click resumes the workspace.
func (e *environments) labDozes(t *testing.T, image string) {
	id := e.open(t, image)
	e.inContainer(t, "ws-"+id, emptyNotebook)
	b := e.tab(t, id, "/lab/tree/it.ipynb", `.jp-Notebook .cm-content`)
	b.do("the kernel is idle", chromedp.WaitVisible(chromedp.CSS(`.jp-Notebook-ExecutionIndicator[data-status="idle"]`)))
	wait.For(t, "the cell has the keyboard", func() error {
		b.do("clicking it", chromedp.Click(chromedp.CSS(`.jp-Notebook .cm-content`)))
		return b.has(`.jp-Notebook.jp-mod-editMode .cm-focused`)
	})
	b.insert(`value = "kept"; print("is" + value)`)
	b.do("running it", chromedp.KeyEvent(kb.Enter, chromedp.KeyModifiers(chromedp.ModifierShift)))
	wait.For(t, "the kernel answers", func() error { return b.prints(`.jp-OutputArea`, "iskept") })
	b.insert(`print("still" + value)`)
	e.dozesFor(t, b, id)
	began := time.Now()
	b.do("running the next cell", chromedp.Click(chromedp.CSS(`[data-command="notebook:run-cell-and-select-next"]`)))
	e.goesOn(t, b, began, `.jp-OutputArea`, "stillkept")
	if said := read(b, "its dialogs", chromedp.Evaluate[string](`[...document.querySelectorAll(".jp-Dialog")].map((e) => e.innerText).join("\n")`)); said != "" {
		t.Errorf("JupyterLab says %q", said)
	}
}
