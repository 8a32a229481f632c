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

// axeSource is axe-core as it is published.
var axeSource = sync.OnceValues(func() (string, error) {
	packed, err := gzip.NewReader(bytes.NewReader(axePacked))
	if err != nil {
		return "", err
	}
	source, err := io.ReadAll(packed)
	return string(source), err
})

// axeAll are the rules for what a page says, and axeColors those whose result depends on the theme.
const (
	axeAll    = `{type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}`
	axeColors = `{type: "rule", values: ["color-contrast", "link-in-text-block"]}`
)

// finding is a rule of axe that a page breaks.
type finding struct {
	ID, Help string
	Nodes    []struct{ HTML, FailureSummary string }
}

// String names the rule, and each element that breaks it.
func (f finding) String() string {
	var s strings.Builder
	s.WriteString(f.ID + ": " + f.Help)
	for _, n := range f.Nodes {
		s.WriteString("\n    " + n.HTML + "\n        " + strings.ReplaceAll(n.FailureSummary, "\n", "\n        "))
	}
	return s.String()
}

// axe returns what axe finds in the page as it is now, but for most rows of a long table, which are all alike. It comes in by the DevTools protocol, which no policy of the
// page keeps out.
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

// shape is what axe judges of a page: its elements and their attributes, without numbers and what the texts say.
const shape = `document.documentElement.outerHTML.replaceAll(/>[^<]+</g, ">x<").replaceAll(/"[^"]*\d[^"]*"/g, '"0"') +
	([...document.querySelectorAll("*")].some((e) => e.shadowRoot) ? location.pathname : "")`

// accessible fails the test with what axe finds in the page as it is now, in both themes. A page of a shape that was
// seen is not judged again.
func (b *tab) accessible(about string, seen *sync.Map) {
	b.t.Helper()
	if _, known := seen.LoadOrStore(js[string](b, shape), true); known {
		return
	}
	b.look("light", 1280)
	js[bool](b, `(scrollTo(0, 0), true)`) // the header that stays covers what is scrolled below it
	found := b.axe(axeAll)
	b.look("dark", 1280)
	for _, f := range append(found, b.axe(axeColors)...) {
		b.t.Errorf("%s: %s", about, f)
	}
}

// TestAxeFinds: what is wrong is found, also what is wrong in the dark theme only.
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
