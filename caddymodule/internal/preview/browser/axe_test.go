package browser

import (
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

//go:embed testdata/axe/axe.min.js.gz
var axePacked []byte

// axeSource is the published source of axe-core.
var axeSource = sync.OnceValues(func() (string, error) {
	packed, err := gzip.NewReader(bytes.NewReader(axePacked))
	if err != nil {
		return "", err
	}
	source, err := io.ReadAll(packed)
	return string(source), err
})

// axeAll are all rules, and axeColors are the rules whose result depends on the theme.
const (
	axeAll    = `{type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}`
	axeColors = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
)

// finding is a rule of axe that a page violates.
type finding struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// String names the rule and each element that violates it.
func (f finding) String() string {
	var s strings.Builder
	s.WriteString(f.ID + ": " + f.Help)
	for _, n := range f.Nodes {
		s.WriteString("\n    " + n.HTML + "\n        " + strings.ReplaceAll(n.FailureSummary, "\n", "\n        "))
	}
	return s.String()
}

// axe returns the findings of axe in the current state of the page. It skips most rows of a long table, because all are
// alike. The script is injected with the DevTools protocol, which the page's policy cannot block.
func (b *tab) axe(rules string) (found []finding) {
	b.t.Helper()
	source, err := axeSource()
	if err != nil {
		b.t.Fatal(err)
	}
	if !js[bool](b, `"axe" in window`) {
		js[bool](b, source+";true")
	}
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	answer, err := chromedp.Run(ctx, chromedp.Evaluate[string](
		`axe.run({exclude: [["tr:nth-child(n+60)"]]}, {runOnly: `+rules+`, resultTypes: ["violations"], elementRef: false, performanceTimer: false})
			.then((r) => JSON.stringify(r.violations.map(({id, help, nodes}) => ({id, help, nodes: nodes.slice(0, 5)
				.map(({html, failureSummary}) => ({html, failureSummary}))}))))`, chromedp.EvalAwaitPromise))
	if err == nil {
		err = json.Unmarshal([]byte(answer), &found)
	}
	if err != nil {
		b.t.Fatalf("axe: %v", err)
	}
	return found
}

// shape is a script that returns what matters to axe in a page: the elements and their attributes, without numbers and
// texts.
const shape = `document.documentElement.outerHTML.replaceAll(/>[^<]+</g, ">x<").replaceAll(/"[^"]*\d[^"]*"/g, '"0"') +
	([...document.querySelectorAll("*")].some((e) => e.shadowRoot) ? location.pathname : "")`

// accessible fails the test with the findings of axe in the current state of the page, in both themes. It skips a page
// whose shape it has already judged.
func (b *tab) accessible(about string, seen *sync.Map) {
	b.t.Helper()
	if _, known := seen.LoadOrStore(js[string](b, shape), true); known {
		return
	}
	b.look("light", 1280)
	js[bool](b, `(scrollTo(0, 0), true)`) // the sticky header covers whatever is scrolled below it
	found := b.axe(axeAll)
	b.look("dark", 1280)
	for _, f := range append(found, b.axe(axeColors)...) {
		b.t.Errorf("%s: %s", about, f)
	}
}

// TestAxeFinds checks that axe finds problems, including those that exist only in the dark theme.
func TestAxeFinds(t *testing.T) {
	b := open(t)
	b.look("dark", 1280)
	for _, wrong := range []struct{ rule, rules, made string }{
		{"image-alt", axeAll, `document.createElement("img")`},
		{"button-name", axeAll, `document.createElement("button")`},
		{"color-contrast", axeColors, `Object.assign(document.createElement("p"), {textContent: "dark", style: "color: light-dark(#000, #333)"})`},
	} {
		b.load("/preview/message/NotFound", "en")
		js[bool](b, `document.querySelector("main").append(`+wrong.made+`) ?? true`)
		if found := b.axe(wrong.rules); len(found) != 1 || found[0].ID != wrong.rule || found[0].Nodes[0].HTML == "" {
			t.Errorf("%s: found %v", wrong.rule, found)
		}
	}
}
