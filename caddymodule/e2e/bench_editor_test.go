//go:build ide

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/devenv/ide"
	"github.com/codehub/gateway/coordinator/wait"
)

// editorRuns is how often the editor is opened in each way.
const editorRuns = 5

// editorRests is how long the benchmark waits before it opens the editor in a workspace that is kept awake: about as
// long as the workspace otherwise takes to doze.
const editorRests = 40 * time.Second

// watchEditor notes in each document when the editor's workbench appears, and when it can be used, which is when its
// explorer lists a file of the home.
const watchEditor = `(() => {
	const seen = window.codehubSeen = {};
	const look = () => {
		if (!seen.workbench && document.querySelector(".monaco-workbench .part.editor")) seen.workbench = Date.now();
		if (!seen.usable && [...document.querySelectorAll(".explorer-folders-view .monaco-list-row")]
			.some((row) => row.textContent.includes("ready.txt"))) seen.usable = Date.now();
	};
	new MutationObserver(look).observe(document, { childList: true, subtree: true });
})()`

// opening is how long an editor took to open, in milliseconds from the click: until the first byte of its document,
// until its workbench appeared, and until it could be used. Fetched lists the resources that came over the network.
type opening struct {
	Document, Workbench, Usable float64
	Fetched                     []string
}

// BenchmarkEditor measures how long a person waits for code-server in Chromium. For comparison, the engine alone
// creates and starts a container from the same image, behind a plain proxy. The proxy always has the same origin, so
// the browser's cache is equally warm. `make bench-editor` runs it.
func BenchmarkEditor(b *testing.B) {
	in := install(b, "TTL_DOZE_SECONDS=30", "TTL_STANDBY_SECONDS=86400", "TTL_ARCHIVE_SECONDS=86400",
		"LIMITS_MAX_RUNNING_PER_USER=40", "CODEHUB_MEMORY_PRESSURE=off")
	me := in.admin(b)
	var w workspace
	me.call(b, http.MethodPost, "/api/v1/workspaces",
		map[string]string{"name": "editor", "image_ref": in.load(b, ide.CodeServer)}, http.StatusCreated, &w)
	me.awaitPhase(b, w.ID, "RUNNING")
	in.inContainer(b, "ws-"+w.ID, "mkdir -p data && cd data && for i in $(seq 200); do head -c 1000000 /dev/urandom > f$i; done; touch ~/ready.txt; cd; "+domTerminal)
	raw := in.rawLike(b, w.ID)
	var target atomic.Pointer[url.URL]
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target.Load())
		r.Out.Host = r.In.Host
	}, ErrorLog: log.New(io.Discard, "", 0)}) // a page that is left sends on to a container that is gone
	defer proxy.Close()

	t := openTab(b)
	if _, err := chromedp.Call(t.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: watchEditor}); err != nil {
		b.Fatal(err)
	}
	t.do("opening it", chromedp.Navigate(in.url("/")))
	t.signIn("admin", in.password)
	t.do("the list is shown", chromedp.WaitVisible(chromedp.CSS(`#new`)))

	asleep := func(phase string) {
		me.setDesiredState(b, w.ID, phase)
		me.awaitPhase(b, w.ID, phase)
	}
	ways := []struct {
		name string
		open func() opening
	}{
		{"bare", func() opening {
			asleep("STANDBY")
			began := time.Now()
			address, err := raw.begin(b.Context(), "raw-editor", raw.host)
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := in.docker.ContainerRemove(b.Context(), "raw-editor", container.RemoveOptions{Force: true}); err != nil {
					b.Error(err)
				}
			}()
			target.Store(&url.URL{Scheme: "http", Host: address})
			wait.For(b, "the raw container answers", func() error {
				res, err := http.Get("http://" + address + "/healthz")
				if err == nil {
					res.Body.Close()
				}
				return err
			})
			return t.opens(proxy.URL+"/", began)
		}},
		{"standby", func() opening {
			asleep("STANDBY")
			return t.opens(byHost.base(in, w.ID), time.Now())
		}},
		{"archived", func() opening {
			asleep("ARCHIVED")
			syscall.Sync() // see BenchmarkWakeArchived
			return t.opens(byHost.base(in, w.ID), time.Now())
		}},
		{"running", func() opening {
			me.keepAwake(b, w.ID, 1)
			defer me.keepAwake(b, w.ID, 0)
			time.Sleep(editorRests) // the browser forgets a page some time after it was left
			in.awaitFrozen(b, w.ID, false)
			return t.opens(byHost.base(in, w.ID), time.Now())
		}},
		{"doze", func() opening {
			in.awaitFrozen(b, w.ID, true)
			return t.opens(byHost.base(in, w.ID), time.Now())
		}},
	}
	all := make(map[string][]opening)
	for run := range editorRuns + 1 {
		for _, way := range ways {
			o := way.open()
			t.do("leaving it", chromedp.Navigate("about:blank"))
			if run > 0 { // the first one fills the browser's cache
				all[way.name] = append(all[way.name], o)
			}
			b.Logf("%s %d: %+v", way.name, run, o)
		}
	}
	for _, way := range ways {
		figure := func(name string, of func(opening) float64) {
			var values []time.Duration
			for _, o := range all[way.name] {
				values = append(values, time.Duration(of(o)*float64(time.Millisecond)))
			}
			fmt.Printf("figure editor_%s_%s_ms %.0f ms\n", way.name, name, milliseconds(middle(values)))
		}
		figure("document", func(o opening) float64 { return o.Document })
		figure("workbench", func(o opening) float64 { return o.Workbench })
		figure("usable", func(o opening) float64 { return o.Usable })
		fmt.Printf("figure editor_%s_fetched %d count\n", way.name, len(all[way.name][editorRuns-1].Fetched))
	}
	t.opens(byHost.base(in, w.ID), time.Now())
	awake := t.answers(b, "awake", func() {})
	asleepInTab := t.answers(b, "doze", func() { in.awaitFrozen(b, w.ID, true) })
	fmt.Printf("figure editor_running_input_ms %.0f ms\n", milliseconds(awake))
	fmt.Printf("figure editor_doze_input_ms %.0f ms\n", milliseconds(asleepInTab))
	b.ReportMetric(0, "ns/op")
}

// opens navigates to an editor, waits until it can be used, and returns its times since began.
func (b *tab) opens(address string, began time.Time) (o opening) {
	b.t.Helper()
	// A navigation ends early if a wake page follows it.
	read(b, "that the editor is opened", chromedp.Evaluate[bool](fmt.Sprintf(`location.href = %q, true`, address)))
	wait.For(b.t, "the editor can be used", func() error {
		text := read(b, "the editor's times", chromedp.Evaluate[string](`JSON.stringify(window.codehubSeen?.usable && {
			document: performance.timeOrigin + performance.getEntriesByType("navigation")[0].responseStart,
			workbench: codehubSeen.workbench, usable: codehubSeen.usable,
			fetched: performance.getEntriesByType("resource").filter((r) => r.transferSize > 0).map((r) => r.name),
		}) || ""`))
		if text == "" {
			return errors.New("its explorer lists nothing")
		}
		return json.Unmarshal([]byte(text), &o)
	})
	start := float64(began.UnixMicro()) / 1000
	o.Document, o.Workbench, o.Usable = o.Document-start, o.Workbench-start, o.Usable-start
	return o
}

// watchTerminal notes when a key reaches the page, and when the terminal shows the shell's answer to it.
const watchTerminal = `(() => {
	addEventListener("keydown", () => { window.codehubPressed = Date.now(); }, true);
	const look = () => {
		const now = [...document.querySelectorAll(".terminal-wrapper.active .xterm-rows > div")].map((row) => row.innerText).join("\n");
		const answer = "is" + window.codehubWanted;
		if (window.codehubWanted && now.includes(answer)) { window.codehubAnswered = Date.now(); window.codehubWanted = ""; }
	};
	new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
	return true;
})()`

// answers returns the median time, over some runs, from a key in the editor's terminal to the shell's answer. Before
// each key it calls leave, which may wait until the workspace dozes.
func (b *tab) answers(t testing.TB, way string, leave func()) time.Duration {
	t.Helper()
	b.shell()
	read(b, "watching the terminal", chromedp.Evaluate[bool](watchTerminal))
	var all []time.Duration
	for run := range editorRuns {
		value := fmt.Sprintf("%s%d", way, run)
		b.insert("echo i''s" + value)
		wait.For(t, "the terminal shows what is typed", func() error { return b.prints(screen, "echo i''s"+value) })
		read(b, "that an answer is awaited", chromedp.Evaluate[bool](fmt.Sprintf(`window.codehubAnswered = 0, window.codehubWanted = %q, true`, value)))
		leave()
		b.do("pressing Enter", chromedp.KeyEvent(kb.Enter))
		var ms float64
		wait.For(t, "the shell answers", func() error {
			ms = read(b, "when it did", chromedp.Evaluate[float64](`window.codehubAnswered ? codehubAnswered - codehubPressed : -1`))
			if ms < 0 {
				return errors.New("it does not")
			}
			return nil
		})
		b.t.Logf("%s %d: %.0f ms from the key to the answer", way, run, ms)
		all = append(all, time.Duration(ms)*time.Millisecond)
	}
	return middle(all)
}

// inContainer runs a shell command in a container.
func (in *installation) inContainer(t testing.TB, name, command string) {
	t.Helper()
	e, err := in.docker.ContainerExecCreate(t.Context(), name, container.ExecOptions{
		Cmd: []string{"sh", "-c", command}, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := in.docker.ContainerExecAttach(t.Context(), e.ID, container.ExecAttachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var out strings.Builder
	if _, err := io.Copy(&out, a.Reader); err != nil {
		t.Fatal(err)
	}
	if done, err := in.docker.ContainerExecInspect(t.Context(), e.ID); err != nil || done.ExitCode != 0 {
		t.Fatalf("%q: %v, exit code %d: %s", command, err, done.ExitCode, out.String())
	}
}
