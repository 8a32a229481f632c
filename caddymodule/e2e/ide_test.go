//go:build ide

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/coder/websocket"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/pkg/jsonmessage"

	"github.com/codehub/gateway/coordinator/devenv/ide"
	"github.com/codehub/gateway/coordinator/wait"
)

// These tests show, with real development environments, which tabs count as use and which programs count as work (SPEC
// 6). They watch a workspace for minutes, because they must show that nothing happens in that time. `make test-ide`
// runs them.

const (
	// ideTTL is the standby TTL, and ideSleep is how long after its last use an idle workspace must be asleep at the
	// latest.
	ideTTL   = 60 * time.Second
	ideSleep = ideTTL + 90*time.Second
	// ideBusy is how long continuing work must keep a workspace awake.
	ideBusy = 3*ideTTL + 30*time.Second
)

// ideWatch is how long a workspace must stay asleep under an open tab.
var ideWatch = flag.Duration("ide-watch", 10*time.Minute, "how long TestIDE watches a forgotten tab after its workspace sleeps")

// environments is an installation with both environments.
type environments struct {
	*installation
	me                  *user
	codeServer, jupyter string // images
}

func TestIDE(t *testing.T) {
	in := install(t, "TTL_STANDBY_SECONDS=60", "TTL_ARCHIVE_SECONDS=86400", "ACTIVITY_FLUSH_INTERVAL=10s",
		"COORDINATOR_TTL_INTERVAL=10s", "LIMITS_MAX_RUNNING_PER_USER=40")
	e := &environments{installation: in, me: in.admin(t)}
	for _, i := range []struct {
		environment ide.Environment
		ref         *string
	}{{ide.CodeServer, &e.codeServer}, {ide.Jupyter, &e.jupyter}} {
		*i.ref = in.load(t, i.environment)
	}
	for name, scene := range map[string]func(*testing.T){
		"CodeServer/ForgottenTab":   func(t *testing.T) { e.forgottenTab(t, e.codeServer, "/", `.monaco-workbench .part.editor`) },
		"CodeServer/Typing":         e.typing,
		"CodeServer/Printing":       e.printing,
		"CodeServer/Sleep600":       e.sleep600,
		"CodeServer/Compiling":      e.compiling,
		"CodeServer/Debugging":      e.debugging,
		"CodeServer/ForgottenPort":  e.forgottenPort,
		"Jupyter/ForgottenTab":      func(t *testing.T) { e.forgottenTab(t, e.jupyter, "/tree", `#notebook_list`) },
		"Jupyter/ComputingCell":     e.computingCell,
		"Jupyter/IdleKernel":        e.idleKernel,
		"Jupyter/LargeDownload":     e.largeDownload,
		"Jupyter/LargeUpload":       e.largeUpload,
		"CodeServer/WokenElsewhere": e.wokenElsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scene(t)
		})
	}
}

// load makes the environment's image on the engine, and returns its reference.
func (in *installation) load(t testing.TB, e ide.Environment) (ref string) {
	t.Helper()
	path, err := e.Path()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("%v: run make test-ide, which makes it", err)
	}
	defer f.Close()
	ref = "codehub-ide/" + e.Name + ":latest"
	answer, err := in.docker.ImageImport(t.Context(), image.ImportSource{Source: f, SourceName: "-"}, ref, image.ImportOptions{Changes: e.Changes})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if err := jsonmessage.DisplayJSONMessagesStream(answer, io.Discard, 0, false, nil); err != nil {
		t.Fatalf("loading image %s: %v", ref, err)
	}
	return ref
}

// open creates a workspace and waits until its application answers.
func (e *environments) open(t *testing.T, image string) (id string) {
	t.Helper()
	var w workspace
	e.me.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": strings.ReplaceAll(t.Name(), "/", " "), "image_ref": image}, http.StatusCreated, &w)
	e.me.awaitPhase(t, w.ID, "RUNNING")
	wait.For(t, "the application answers", func() error {
		res, _ := e.me.get(t, byPath.base(e.installation, w.ID), program)
		if res.StatusCode >= 400 {
			return errors.New(res.Status)
		}
		return nil
	})
	return w.ID
}

// tab opens the workspace in a browser.
func (e *environments) tab(t *testing.T, id, path, shown string) *tab {
	t.Helper()
	b := openTab(t)
	b.do("opening it", chromedp.Navigate(e.url("/")))
	b.signIn("admin", e.password)
	b.do("the list is shown", chromedp.WaitVisible(chromedp.CSS(`#new`)))
	b.do("opening the workspace", chromedp.Navigate(strings.TrimSuffix(byHost.base(e.installation, id), "/")+path), chromedp.WaitVisible(chromedp.CSS(shown)))
	return b
}

// asleepAfter waits until the workspace sleeps, and returns how long that took.
func (e *environments) asleepAfter(t *testing.T, id string, since time.Time) time.Duration {
	t.Helper()
	for {
		if w := e.me.workspace(t, id); w.Phase == "STANDBY" {
			return time.Since(since)
		}
		if time.Since(since) > ideSleep {
			t.Fatalf("it does not sleep %s after its last use:\n%s", time.Since(since).Round(time.Second), e.explain(t, id))
		}
		pause(t, time.Second)
	}
}

// stays watches a workspace for d, and fails the test if the workspace leaves the phase.
func (e *environments) stays(t *testing.T, id, phase string, d time.Duration) {
	t.Helper()
	for begin := time.Now(); time.Since(begin) < d; pause(t, time.Second) {
		if w := e.me.workspace(t, id); w.Phase != phase || w.DesiredState != phase {
			t.Fatalf("it is %s and shall be %s after %s, want %s:\n%s", w.Phase, w.DesiredState, time.Since(begin).Round(time.Second), phase, e.explain(t, id))
		}
	}
}

func (e *environments) explain(t *testing.T, id string) string {
	t.Helper()
	_, body := e.me.request(t, http.MethodGet, "/api/v1/workspaces/"+id+"/explain", nil)
	return body
}

// pause waits for d. Tests call it between two checks.
func pause(t testing.TB, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// forgottenTab: an untouched tab neither keeps its workspace awake nor wakes it.
func (e *environments) forgottenTab(t *testing.T, image, path, shown string) {
	id := e.open(t, image)
	e.tab(t, id, path, shown)
	e.isForgotten(t, id)
}

// isForgotten watches a workspace with an untouched tab.
func (e *environments) isForgotten(t *testing.T, id string) {
	t.Helper()
	slept := e.asleepAfter(t, id, time.Now())
	figure("ide_forgotten_tab_sleeps_after "+strings.ReplaceAll(t.Name(), "/", "_"), slept.Seconds(), "s")
	e.stays(t, id, "STANDBY", *ideWatch)
}

// forgottenPort: a server in the workspace listens on a port of its own. An untouched tab of that server neither keeps
// the workspace awake nor wakes it, even if the tab polls the server every second.
func (e *environments) forgottenPort(t *testing.T) {
	id := e.open(t, e.codeServer)
	e.terminal(t, id, `echo 'require("http").createServer((_, w) => w.setHeader("Content-Type", "text/html").end("<!doctype html><p id=p>port</p><script>setInterval(() => fetch(String(1)), 1000)</script>")).listen(3000)' >server.js && `+
		`setsid /usr/lib/code-server/lib/node server.js </dev/null >/dev/null 2>&1 &`)
	b := e.tab(t, id, "/", `.monaco-workbench .part.editor`)
	wait.For(t, "the port is open", func() error {
		b.do("opening it", chromedp.Navigate(fmt.Sprintf("http://3000--ws-%s.localhost:%d/", id, e.port)))
		if read(b, "the page", chromedp.Evaluate[string](`document.body.innerText.trim()`)) != "port" {
			return errors.New("it is another page")
		}
		return nil
	})
	e.isForgotten(t, id)
}

// typing: a person who types a character every 30 s keeps the workspace awake, and it sleeps when the typing ends.
func (e *environments) typing(t *testing.T) {
	id := e.open(t, e.codeServer)
	b := e.tab(t, id, "/", `.monaco-workbench .part.editor`)
	b.newFile()
	for begin := time.Now(); time.Since(begin) < ideBusy; {
		b.do("typing", chromedp.KeyEvent("x"))
		e.stays(t, id, "RUNNING", ideTTL/2)
	}
	e.asleepAfter(t, id, time.Now())
}

// command runs a command of the workbench.
func (b *tab) command(name string) {
	b.t.Helper()
	// While an editor loads, its commands become available one after the other, but a list that is already open does
	// not show new ones. So the list is opened again.
	wait.For(b.t, "the command is found", func() error {
		b.do("opening the commands", chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(kb.F1),
			chromedp.WaitVisible(chromedp.CSS(`.quick-input-widget input`)))
		b.insert(name)
		return b.soon(func() error { return b.prints(`.quick-input-list .monaco-list-row.focused`, name) })
	})
	b.do("choosing "+name, chromedp.KeyEvent(kb.Enter))
}

// soon calls try repeatedly for a short time, until it succeeds.
func (b *tab) soon(try func() error) (err error) {
	b.t.Helper()
	for range 30 {
		if err = try(); err == nil {
			return nil
		}
		pause(b.t, 100*time.Millisecond)
	}
	return err
}

// newFile opens an editor, with the keyboard focus, for a file that does not exist yet.
func (b *tab) newFile() {
	b.t.Helper()
	wait.For(b.t, "the new file", func() error {
		b.command("Create: New File...")
		return b.soon(func() error {
			if b.has(`.monaco-dialog-box`) == nil { // while it is loading the command fails
				b.do("closing the dialog", chromedp.KeyEvent(kb.Escape))
			}
			return b.has(`.editor-instance .monaco-editor.focused`)
		})
	})
}

// insert types a text as an input method does.
func (b *tab) insert(text string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, wait.Timeout)
	defer cancel()
	if _, err := chromedp.Call(ctx, input.InsertText, input.InsertTextParams{Text: text}); err != nil {
		b.t.Fatalf("typing %s: %v", text, err)
	}
}

// terminal runs a command in code-server's own terminal. It waits until the first file that the command makes exists,
// and then closes the tab.
func (e *environments) terminal(t *testing.T, id, command string) {
	t.Helper()
	b := e.tab(t, id, "/", `.monaco-workbench .part.editor`)
	b.command("Terminal: Create New Terminal")
	b.do("the terminal", chromedp.WaitVisible(chromedp.CSS(`.terminal-wrapper.active .xterm-screen`)))
	wait.For(t, "the command runs", func() error {
		b.insert("touch /home/coder/began; " + command)
		b.do("running it", chromedp.KeyEvent(kb.Enter))
		for range 20 {
			if _, err := e.docker.ContainerStatPath(t.Context(), "ws-"+id, "/home/coder/began"); err == nil {
				return nil
			}
			pause(t, 100*time.Millisecond)
		}
		return errors.New("the shell has not begun it")
	})
	b.do("closing the tab", chromedp.Navigate("about:blank"))
}

// printing: a terminal with output keeps the workspace awake without a tab.
func (e *environments) printing(t *testing.T) {
	id := e.open(t, e.codeServer)
	e.terminal(t, id, `for i in $(seq 250); do date; sleep 1; done`)
	e.stays(t, id, "RUNNING", ideBusy)
}

// sleep600: a command that only waits does not keep the workspace awake.
func (e *environments) sleep600(t *testing.T) {
	id := e.open(t, e.codeServer)
	e.terminal(t, id, `sleep 600`)
	e.asleepAfter(t, id, time.Now())
}

// compiling: a compiler keeps the workspace awake; on a quick machine it runs again and again.
func (e *environments) compiling(t *testing.T) {
	id := e.open(t, e.codeServer)
	e.terminal(t, id, `mkdir -p src && cd src && for i in $(seq 3000); do printf '#include <stdio.h>\n#include <stdlib.h>\n#include <math.h>\nint f%d(int a) { return printf("%%d", a * %d); }\n' $i $i >f$i.c; done; while make -sB $(seq -f 'f%.0f.o' 3000); do :; done`)
	e.stays(t, id, "RUNNING", ideBusy)
}

// debugging: Run and Debug starts a program that prints into the debug console. The program keeps the workspace awake.
// The program has no terminal, and belongs to the same process session as the application. The program ends with its
// tab.
func (e *environments) debugging(t *testing.T) {
	id := e.open(t, e.codeServer)
	e.terminal(t, id, `mkdir -p .vscode && `+
		`echo '{"version":"0.2.0","configurations":[{"type":"node","request":"launch","name":"it","program":"${workspaceFolder}/app.js","runtimeExecutable":"/usr/lib/code-server/lib/node"}]}' >.vscode/launch.json && `+
		`echo 'require("fs").writeFileSync("/home/coder/debugged", ""); setInterval(() => console.log(Date.now()), 1000)' >app.js`)
	b := e.tab(t, id, "/", `.monaco-workbench .part.editor`)
	wait.For(t, "the program runs", func() error {
		pause(t, time.Second)
		b.do("starting it, and going on where it stops at the beginning", chromedp.KeyEvent(kb.F5))
		_, err := e.docker.ContainerStatPath(t.Context(), "ws-"+id, "/home/coder/debugged")
		return err
	})
	e.stays(t, id, "RUNNING", ideBusy)
}

// wokenElsewhere: the tab of a sleeping workspace shows the workspace again when a person wakes it elsewhere.
func (e *environments) wokenElsewhere(t *testing.T) {
	id := e.open(t, e.codeServer)
	b := e.tab(t, id, "/", `.monaco-workbench .part.editor`)
	e.asleepAfter(t, id, time.Now())
	read(b, "marking the page", chromedp.Evaluate[bool](`window.before = true`))
	e.me.setDesiredState(t, id, "RUNNING")
	wait.For(t, "the page is another one", func() error {
		if read(b, "the mark", chromedp.Evaluate[bool](`window.before === true`)) {
			return errors.New("it is still the old one")
		}
		return nil
	})
	b.do("the workbench", chromedp.WaitVisible(chromedp.CSS(`.monaco-workbench .part.editor`)))
}

// notebook is a Jupyter server, as a program uses it.
type notebook struct {
	*environments
	t    *testing.T
	id   string
	xsrf string
}

func (e *environments) notebook(t *testing.T) *notebook {
	t.Helper()
	n := &notebook{environments: e, t: t, id: e.open(t, e.jupyter)}
	res, _ := e.me.get(t, n.url("tree"), program)
	for _, c := range res.Cookies() {
		if c.Name == "_xsrf" {
			n.xsrf = c.Value
		}
	}
	if n.xsrf == "" {
		t.Fatalf("Jupyter gives no token: %s", res.Status)
	}
	return n
}

func (n *notebook) url(path string) string { return byPath.base(n.installation, n.id) + path }

// send makes a request that changes something.
func (n *notebook) send(method, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(n.t.Context(), method, n.url(path), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Xsrftoken", n.xsrf)
	r.Header.Set("Referer", n.url("tree")) // Jupyter hands files out to its own pages
	r.AddCookie(&http.Cookie{Name: "_xsrf", Value: n.xsrf})
	client := *n.me.http
	client.Timeout = 0
	return client.Do(r)
}

// execute starts a kernel that runs code, waits for a message of the given type, and then disconnects from the kernel.
func (n *notebook) execute(code, until string) {
	n.t.Helper()
	res, err := n.send(http.MethodPost, "api/kernels", strings.NewReader(`{"name": "python3"}`))
	if err != nil {
		n.t.Fatal(err)
	}
	var kernel struct{ ID string }
	if err := json.Unmarshal([]byte(text(n.t, res)), &kernel); err != nil || kernel.ID == "" {
		n.t.Fatalf("starting a kernel: %s, %v", res.Status, err)
	}
	ctx, cancel := context.WithTimeout(n.t.Context(), 2*wait.Timeout)
	defer cancel()
	c, _, err := websocket.Dial(ctx, n.url("api/kernels/"+kernel.ID+"/channels"), &websocket.DialOptions{HTTPClient: n.me.http})
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(1 << 20)
	// Jupyter asks a new kernel for its description. After its answer the kernel reports that it is idle, even if it is
	// already computing. Messages that a kernel sends before Jupyter listens are lost; in that case the kernel is asked
	// again.
	wait.For(n.t, "the kernel is idle", func() error {
		n.ask(ctx, c, "kernel_info_request", map[string]any{}, "kernel_info_reply")
		res, body := n.me.get(n.t, n.url("api/kernels/"+kernel.ID), program)
		if !strings.Contains(body, `"idle"`) {
			return fmt.Errorf("%s %s", res.Status, body)
		}
		return nil
	})
	n.ask(ctx, c, "execute_request", map[string]any{
		"code": code, "silent": false, "store_history": true, "user_expressions": map[string]any{}, "allow_stdin": false,
	}, until)
}

// ask sends a message to a kernel, and reads until a message of the given type comes.
func (n *notebook) ask(ctx context.Context, c *websocket.Conn, kind string, content map[string]any, until string) {
	n.t.Helper()
	message, err := json.Marshal(map[string]any{
		"header":        map[string]any{"msg_id": kind, "username": "", "session": "test", "msg_type": kind, "version": "5.3"},
		"parent_header": map[string]any{}, "metadata": map[string]any{}, "channel": "shell", "buffers": []any{}, "content": content,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	if err := c.Write(ctx, websocket.MessageText, message); err != nil {
		n.t.Fatal(err)
	}
	for {
		_, answer, err := c.Read(ctx)
		if err != nil {
			n.t.Fatalf("waiting for %s: %v", until, err)
		}
		if strings.Contains(string(answer), `"`+until+`"`) {
			return
		}
	}
}

// computingCell: a cell that computes and prints nothing keeps the workspace awake, with its tab open or closed.
func (e *environments) computingCell(t *testing.T) {
	n := e.notebook(t)
	n.execute("import time\nend = time.time() + 600\nwhile time.time() < end: time.sleep(0.01)", "execute_input")
	e.stays(t, n.id, "RUNNING", ideBusy)
}

// idleKernel: a waiting kernel does not keep the workspace awake.
func (e *environments) idleKernel(t *testing.T) {
	n := e.notebook(t)
	n.execute("1 + 1", "execute_reply")
	e.asleepAfter(t, n.id, time.Now())
}

// slowly is a reader that yields a chunk of bytes every second until a given time.
type slowly struct {
	t     *testing.T
	end   time.Time
	chunk []byte
}

func (s *slowly) Read(p []byte) (int, error) {
	if time.Now().After(s.end) {
		return 0, io.EOF
	}
	select {
	case <-time.After(time.Second):
	case <-s.t.Context().Done():
		return 0, s.t.Context().Err()
	}
	return copy(p, s.chunk), nil
}

// largeUpload: an upload keeps the workspace awake while bytes flow.
func (e *environments) largeUpload(t *testing.T) {
	n := e.notebook(t)
	body := io.MultiReader(strings.NewReader(`{"type": "file", "format": "text", "content": "`),
		&slowly{t, time.Now().Add(ideBusy), []byte(strings.Repeat("x", 16<<10))}, strings.NewReader(`"}`))
	done := make(chan error, 1)
	go func() {
		res, err := n.send(http.MethodPut, "api/contents/big.txt", body)
		if err == nil {
			defer res.Body.Close()
			if res.StatusCode != http.StatusCreated {
				err = errors.New(res.Status)
			}
		}
		done <- err
	}()
	e.stays(t, n.id, "RUNNING", ideBusy)
	if err := <-done; err != nil {
		t.Errorf("the upload: %v", err)
	}
}

// largeDownload: a download keeps the workspace awake, too, while bytes flow.
func (e *environments) largeDownload(t *testing.T) {
	n := e.notebook(t)
	n.execute(`open("big.bin", "wb").truncate(1 << 30)`, "execute_reply")
	res, err := n.send(http.MethodGet, "files/big.bin", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("the download: %s", res.Status)
	}
	for begin := time.Now(); time.Since(begin) < ideBusy; {
		if _, err := io.CopyN(io.Discard, res.Body, 2<<20); err != nil {
			t.Fatalf("the download ended: %v", err)
		}
		e.stays(t, n.id, "RUNNING", 2*time.Second)
	}
}
