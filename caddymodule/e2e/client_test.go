package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi/openapitest"
	"github.com/codehub/gateway/coordinator/wait"
)

// user is a client of the API and the gateway that has the cookies of one user.
type user struct {
	in   *installation
	http *http.Client
}

// workspace has the fields of a workspace in the API's answers that the tests read.
type workspace struct {
	ID           string `json:"id"`
	Phase        string `json:"phase"`
	Operation    string `json:"operation"`
	DesiredState string `json:"desired_state"`
	ArchiveKey   string `json:"archive_key"`
	DozeAt       string `json:"doze_at"`
	ErrorReason  string `json:"error_reason"`
	ErrorMessage string `json:"error_message"`
}

// keepAwake keeps a workspace awake for some hours; 0 ends that.
func (u *user) keepAwake(t testing.TB, id string, hours int) {
	t.Helper()
	u.call(t, http.MethodPost, "/api/v1/workspaces/"+id+"/keep-awake", map[string]int{"hours": hours}, http.StatusOK, nil)
}

// testDomain is a domain that test browsers and clients resolve to this machine.
const testDomain = "codehub.test"

// newHTTPClient returns a client that resolves *.localhost to this machine, as browsers
// and curl do, and testDomain, and returns redirects instead of following them.
func newHTTPClient(jar http.CookieJar) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	var d net.Dialer
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost") || host == testDomain) {
			addr = net.JoinHostPort("127.0.0.1", port)
		}
		return d.DialContext(ctx, network, addr)
	}
	return &http.Client{Jar: jar, Transport: transport, Timeout: 2 * wait.Timeout, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

// request sends a request with a JSON body, unless body is nil, and returns the answer.
func (u *user) request(t testing.TB, method, path string, body any) (*http.Response, string) {
	t.Helper()
	var content io.Reader
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
		content = bytes.NewReader(sent)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, u.in.url(path), content)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := u.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer := text(t, res)
	if err := openapitest.Check(openapitest.Exchange{Request: req, Sent: sent, Answer: res, Body: []byte(answer)}); err != nil {
		t.Error(err)
	}
	return res, answer
}

// call makes an API call, expects the status, and decodes the answer into out unless
// that is nil.
func (u *user) call(t testing.TB, method, path string, body any, status int, out any) {
	t.Helper()
	res, answer := u.request(t, method, path, body)
	if res.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d\n%s", method, path, res.Status, status, answer)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(answer), out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
}

// create creates a workspace and waits until it runs.
func (u *user) create(t testing.TB, name string) workspace {
	t.Helper()
	var w workspace
	u.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": name}, http.StatusCreated, &w)
	return u.awaitPhase(t, w.ID, "RUNNING")
}

// workspace returns the workspace as the API shows it now.
func (u *user) workspace(t testing.TB, id string) workspace {
	t.Helper()
	var w workspace
	u.call(t, http.MethodGet, "/api/v1/workspaces/"+id, nil, http.StatusOK, &w)
	return w
}

// awaitPhase waits until the workspace is in a phase and no operation is in progress.
func (u *user) awaitPhase(t testing.TB, id, phase string) workspace {
	t.Helper()
	var w workspace
	wait.For(t, id+" is "+phase, func() error {
		w = u.workspace(t, id)
		if w.Phase == "ERROR" && phase != "ERROR" {
			t.Fatalf("%s is ERROR: %s %s", id, w.ErrorReason, w.ErrorMessage)
		}
		if w.Phase != phase || w.Operation != "NONE" {
			return fmt.Errorf("phase %s operation %s desired %s", w.Phase, w.Operation, w.DesiredState)
		}
		return nil
	})
	return w
}

// setDesiredState sets the desired state of a workspace. It tries again while an
// operation is in progress.
func (u *user) setDesiredState(t testing.TB, id, state string) {
	t.Helper()
	wait.For(t, "the desired state of "+id+" may become "+state, func() error {
		res, answer := u.request(t, http.MethodPatch, "/api/v1/workspaces/"+id, map[string]string{"desired_state": state})
		switch res.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusConflict:
			return errors.New(answer)
		}
		t.Fatalf("setting the desired state of %s to %s: %s %s", id, state, res.Status, answer)
		return nil
	})
}

// address is a way to reach a workspace: below a path, or at its own host.
type address struct {
	name string
	base func(in *installation, id string) string // the URL of the workspace's root
}

var (
	byPath = address{"path", func(in *installation, id string) string { return in.url("/w/" + id + "/") }}
	byHost = address{"host", func(in *installation, id string) string {
		return fmt.Sprintf("http://ws-%s.localhost:%d/", id, in.port)
	}}
	addresses = []address{byPath, byHost}
)

// These are the headers that the three kinds of clients send (SPEC 8): a browser that opens a page, a page that loads
// something by itself, and a program.
var (
	navigation  = http.Header{"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Accept": {"text/html"}}
	subresource = http.Header{"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}}
	program     = http.Header{"User-Agent": {"curl/8"}}
)

// get fetches a URL without following redirects.
func (u *user) get(t testing.TB, url string, h http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h.Clone()
	res, err := u.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res, text(t, res)
}

// navigate opens a URL as a browser does, and returns the last answer. It follows redirects, which sign the user in
// on a workspace's own host.
func (u *user) navigate(t testing.TB, url string) (*http.Response, string) {
	t.Helper()
	start := url
	for range 8 {
		res, body := u.get(t, url, navigation)
		next := res.Header.Get("Location")
		if next == "" {
			return res, body
		}
		to, err := res.Request.URL.Parse(next)
		if err != nil {
			t.Fatal(err)
		}
		url = to.String()
	}
	t.Fatalf("opening %s: too many redirects, the last one to %s", start, url)
	return nil, ""
}

// enter signs the user in on the workspace's own host, as a browser does when it opens the running workspace, and
// returns the URL of that host. From then on, programs have the session there.
func (u *user) enter(t testing.TB, id string) string {
	t.Helper()
	base := byHost.base(u.in, id)
	wait.For(t, "the workspace is opened", func() error {
		if res, _ := u.navigate(t, base); res.StatusCode != http.StatusOK {
			return errors.New(res.Status)
		}
		return nil
	})
	return base
}

// showsTerminal returns an error unless the address shows the workspace's own page.
func (u *user) showsTerminal(t testing.TB, base string) error {
	t.Helper()
	res, body := u.get(t, base, navigation)
	if res.StatusCode != http.StatusOK || !strings.Contains(body, `id="terminal"`) {
		return errors.New(res.Status)
	}
	return nil
}

// dial opens a WebSocket to the workspace. The connection is closed after the wait timeout, so that a test does not
// wait forever for a message that never comes.
func (u *user) dial(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{HTTPClient: u.http})
	if err != nil {
		t.Fatalf("opening a WebSocket at %s: %v (%v)", url, err, res)
	}
	timeout := time.AfterFunc(wait.Timeout, func() { _ = conn.CloseNow() })
	t.Cleanup(func() { timeout.Stop(); _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn
}

// run types a command into the workspace's terminal and returns its output.
func (u *user) run(t testing.TB, base, command string) string {
	t.Helper()
	conn := u.dial(t, base+"ws")
	defer conn.CloseNow()
	// The shell computes the marks, so they do not occur in the echo of the typed command.
	line := fmt.Sprintf("echo A$((40+2))B; %s; echo C$((40+2))D\n", command)
	if err := conn.Write(t.Context(), websocket.MessageBinary, []byte(line)); err != nil {
		t.Fatal(err)
	}
	var seen strings.Builder
	for {
		_, b, err := conn.Read(t.Context())
		if err != nil {
			t.Fatalf("running %q: %v after %q", command, err, seen.String())
		}
		seen.Write(b)
		if _, rest, ok := strings.Cut(seen.String(), "A42B"); ok {
			if out, _, ok := strings.Cut(rest, "C42D"); ok {
				return strings.TrimSpace(strings.ReplaceAll(out, "\r", ""))
			}
		}
	}
}

// text reads the body of a response.
func text(t testing.TB, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
