package tabs

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

const one, two = workspace.ID("1"), workspace.ID("2")

// clock is a clock that the test moves.
type clock struct{ at time.Time }

func open() (*Tabs, *clock) {
	c := &clock{time.Unix(1_000_000, 0)}
	return &Tabs{Now: func() time.Time { return c.at }}, c
}

func (c *clock) move(d time.Duration) { c.at = c.at.Add(d) }

func TestSender(t *testing.T) {
	editor := AddressOf("ws.example", "/a")
	for referer, want := range map[string]Address{
		"":                                  0,
		"https://ws.example/a":              editor,
		"https://ws.example/a?b=c.js":       editor,
		"https://ws.example/a#/b":           editor,
		"https://ws.example/":               AddressOf("ws.example", "/"),
		"https://ws.example":                0,
		"https://ws.example.org/a":          0,
		"https://other.example/a":           0,
		"https://ws.example/a/b.html":       AddressOf("ws.example", "/a/b.html"),
		"https://ws.example/v1.2/a":         AddressOf("ws.example", "/v1.2/a"),
		"https://ws.example/static/work.js": 0,
		"https://ws.example/src/App.vue":    0,
		"https://ws.example/style.css?v=1":  0,
		"about:client":                      0,
	} {
		r := &http.Request{Host: "ws.example", Header: http.Header{"Referer": {referer}}}
		if got := Sender(r); got != want {
			t.Errorf("%q: got %d, want %d", referer, got, want)
		}
	}
}

func TestAPageReportsForItselfAlone(t *testing.T) {
	const editor, made, frame = Address(1), Address(2), Address(3)
	for name, c := range map[string]struct {
		does func(*Tabs, *clock)
		page Address
		want bool
	}{
		"a page that reports":                   {func(t *Tabs, _ *clock) { t.Reports(one, "A", editor) }, editor, false},
		"its frame":                             {func(t *Tabs, _ *clock) { t.Reports(one, "A", editor, frame) }, frame, false},
		"another page":                          {func(t *Tabs, _ *clock) { t.Reports(one, "A", editor) }, made, true},
		"a page of another workspace":           {func(t *Tabs, _ *clock) { t.Reports(two, "A", editor) }, editor, true},
		"the page of a tab that has left":       {func(t *Tabs, _ *clock) { t.Reports(one, "A", editor); t.Leaves(one, "A") }, editor, true},
		"the same page in two tabs, one left":   {func(t *Tabs, _ *clock) { t.Reports(one, "A", editor); t.Reports(one, "B", editor); t.Leaves(one, "A") }, editor, false},
		"a page that gave its last sign before": {func(t *Tabs, c *clock) { t.Reports(one, "A", editor); c.move(trustTime) }, editor, true},
		"a frame of a tab that gives signs": {func(t *Tabs, c *clock) {
			t.Reports(one, "A", editor, frame)
			c.move(trustTime - 1)
			t.Reports(one, "A", editor)
			c.move(trustTime - 1)
		}, frame, false},
		"a page whose address is hidden": {func(t *Tabs, _ *clock) { t.Reports(one, "A", 0) }, editor, true},
	} {
		tabs, clock := open()
		c.does(tabs, clock)
		if tabs.Silent(one, c.page) {
			t.Errorf("%s: it may be about to report", name)
		}
		clock.move(settleTime)
		if got := tabs.Silent(one, c.page); got != c.want {
			t.Errorf("%s: got %t, want %t", name, got, c.want)
		}
		if tabs.Reports(one, "C", c.page); tabs.Silent(one, c.page) {
			t.Errorf("%s: it reports now", name)
		}
	}
}

func TestAPageThatIsLoadedAgainHasTimeToReport(t *testing.T) {
	tabs, clock := open()
	for range 3 {
		tabs.Silent(one, 1)
		clock.move(settleTime - 1)
		if tabs.Silent(one, 1) {
			t.Fatal("it counts before it can report")
		}
		tabs.Reports(one, "A", 1)
		clock.move(time.Minute)
		tabs.Leaves(one, "A")
	}
}

// TestAPageWithoutTheScriptIsForgottenBesideOneThatReports checks two pages with the same address, one without the
// script and one that reports. A request from this address may be the reporting page's, so it does not show that the
// other page is still open.
func TestAPageWithoutTheScriptIsForgottenBesideOneThatReports(t *testing.T) {
	for name, c := range map[string]struct {
		reports func(*Tabs)
		want    bool
	}{
		"one of the same address reports": {func(t *Tabs) { t.ReportsBeside(one, 1) }, false},
		"one of another address reports":  {func(t *Tabs) { t.ReportsBeside(one, 2) }, true},
		"one in another workspace":        {func(t *Tabs) { t.ReportsBeside(two, 1) }, true},
		"none does":                       {func(*Tabs) {}, true},
	} {
		tabs, clock := open()
		tabs.LoadPlain(one, 1, true)
		for range plainTime / time.Minute {
			if c.reports(tabs); !tabs.Plain(one, 1) {
				t.Errorf("%s: it is forgotten too soon", name)
			}
			clock.move(time.Minute)
		}
		if got := tabs.Plain(one, 1); got != c.want {
			t.Errorf("%s: it is known: %t", name, got)
		}
	}
	tabs, clock := open()
	tabs.LoadPlain(one, 1, true)
	tabs.ReportsBeside(one, 1)
	for range 2 * plainTime / time.Minute {
		clock.move(time.Minute)
		if !tabs.Plain(one, 1) {
			t.Fatal("it is forgotten although the other has left")
		}
	}
}

func TestAWebSocketBelongsToThePageWithoutReports(t *testing.T) {
	tabs, clock := open()
	if tabs.Reports(one, "A", 1); tabs.Opener(one) != 0 {
		t.Error("a page that reports has opened it")
	}
	if tabs.Silent(one, 2); tabs.Opener(one) != 2 {
		t.Error("the page without reports has not opened it")
	}
	if tabs.Opener(two) != 0 {
		t.Error("a page of another workspace has opened it")
	}
	clock.move(1)
	if tabs.Silent(one, 3); tabs.Opener(one) != 3 {
		t.Error("it is not the latest one that has opened it")
	}
	if tabs.Reports(one, "B", 3); tabs.Opener(one) != 2 {
		t.Error("a page that reports meanwhile has opened it")
	}
	if clock.move(socketTime); tabs.Opener(one) != 0 {
		t.Error("a page of some time ago has opened it")
	}
}

func TestPart(t *testing.T) {
	for _, c := range []struct {
		dest, at, referer string
		want              Address
	}{
		{"script", "/@vite/client", "/", AddressOf("ws.example", "/@vite/client")},
		{"script", "/@vite/client?t=1", "/@vite/client2", AddressOf("ws.example", "/@vite/client")},
		{"worker", "/w", "/", AddressOf("ws.example", "/w")},
		{"style", "/style.php", "/", AddressOf("ws.example", "/style.php")},
		{"script", "/index.php?script", "/index.php?a", 0}, // of the page's own path
		{"script", "/main.js", "/", 0},
		{"empty", "/@vite/client", "/", 0},
		{"document", "/a", "/", 0},
		{"iframe", "/a", "/", 0},
		{"", "/a", "/", 0},
	} {
		r := &http.Request{Host: "ws.example", RequestURI: c.at, Header: http.Header{"Sec-Fetch-Dest": {c.dest}, "Referer": {"https://ws.example" + c.referer}}}
		if got := Part(r); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}

// TestAPartIsNoPage: requests of a script, style sheet or worker belong to the page that has loaded it.
func TestAPartIsNoPage(t *testing.T) {
	tabs, clock := open()
	tabs.Silent(one, 2) // the gateway has started since the script was loaded
	tabs.LoadPart(one, 2)
	for range 20 {
		if tabs.Silent(one, 2) || tabs.Opener(one) != 0 {
			t.Fatal("the part counts as a page without reports")
		}
		clock.move(trustTime - 1)
	}
	clock.move(1)
	if tabs.Silent(one, 2); tabs.Opener(one) != 2 {
		t.Error("a part of some time ago is still known")
	}
	for a := range Address(3 * maxParts) {
		clock.move(1)
		tabs.LoadPart(one, 10+a)
	}
	if n := len(tabs.workspaces[one].parts); n != maxParts {
		t.Errorf("%d parts are known", n)
	}
	if tabs.Silent(one, 10+3*maxParts-1); tabs.Opener(one) != 2 {
		t.Error("the latest part is not known")
	}
}

func TestReportsOfInputHaveAnEnd(t *testing.T) {
	const limit = 12 * time.Hour
	tabs, clock := open()
	report := func(d time.Duration) (counts bool) {
		for end := clock.at.Add(d); clock.at.Before(end); clock.move(20 * time.Second) {
			counts = tabs.Input(one, limit)
		}
		return counts
	}
	if !report(limit) {
		t.Fatal("they do not count before the limit")
	}
	if report(time.Minute) {
		t.Fatal("a script reports for ever")
	}
	tabs.Opened(one)
	if !report(limit) {
		t.Error("they do not count after a person has opened a page")
	}
	report(time.Minute)
	clock.move(pauseTime)
	if !report(time.Minute) {
		t.Error("they do not count after a pause")
	}
}

func TestScriptsWakeNowAndThen(t *testing.T) {
	tabs, clock := open()
	for i := range wakes {
		if !tabs.Wakes(one) {
			t.Fatalf("wake-up %d is refused", i)
		}
	}
	if tabs.Wakes(one) {
		t.Error("a script wakes as often as it likes")
	}
	if !tabs.Wakes(two) {
		t.Error("another workspace is refused")
	}
	if clock.move(wakeEvery); !tabs.Wakes(one) {
		t.Error("it is refused for ever")
	}
}

func TestOnlyWhatIsOpenIsKnown(t *testing.T) {
	tabs, clock := open()
	for i := range 10 * maxPages {
		tabs.Silent(one, Address(i+1))
	}
	if n := len(tabs.workspaces[one].pages); n != maxPages {
		t.Errorf("%d pages are known", n)
	}
	for i := range 100 * sweepAbove {
		id := workspace.ID(fmt.Sprint(i))
		tabs.Reports(id, "A", 1)
		tabs.Input(id, time.Hour)
		tabs.Wakes(id)
		clock.move(wakeEvery)
	}
	if n := len(tabs.workspaces); n > 2*sweepAbove {
		t.Errorf("%d workspaces are known", n)
	}
}

func TestARequestOfAPageThatReportsAllocatesNothing(t *testing.T) {
	var tabs Tabs
	r := &http.Request{Host: "ws.example", Header: http.Header{"Referer": {"https://ws.example/a"}}}
	tabs.Reports(one, "A", Sender(r))
	if n := testing.AllocsPerRun(100, func() { tabs.Silent(one, Sender(r)); tabs.Opener(one) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
