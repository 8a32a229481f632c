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
	"net/http/cookiejar"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
)

// person is somebody who is signed in.
type person struct {
	in   *installation
	http *http.Client
}

// item is a workspace as the API shows it, as far as these tests look.
type item struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Phase        string `json:"phase"`
	Operation    string `json:"operation"`
	DesiredState string `json:"desired_state"`
	ArchiveKey   string `json:"archive_key"`
	ErrorReason  string `json:"error_reason"`
	ErrorMessage string `json:"error_message"`
	URL          string `json:"url"`
}

// signIn returns the person with that name.
func (in *installation) signIn(t testing.TB, username, password string) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &person{in: in, http: browserLike(jar)}
	p.call(t, http.MethodPost, "/api/v1/auth/login", map[string]string{"username": username, "password": password}, http.StatusOK, nil)
	return p
}

// browserLike returns a client that knows, as browsers and curl do, that
// *.localhost is this machine, and that shows redirects instead of following them.
func browserLike(jar http.CookieJar) *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	var d net.Dialer
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err == nil && (host == "localhost" || strings.HasSuffix(host, ".localhost")) {
			addr = net.JoinHostPort("127.0.0.1", port)
		}
		return d.DialContext(ctx, network, addr)
	}
	return &http.Client{Jar: jar, Transport: transport, Timeout: 2 * patience, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func (in *installation) admin(t testing.TB) *person {
	t.Helper()
	return in.signIn(t, "admin", in.password)
}

// addUser makes a user with the command line, and signs in as them.
func (in *installation) addUser(t testing.TB, username string) *person {
	t.Helper()
	const password = "correct horse battery staple"
	cmd := exec.Command(program(t), "codehub", "user", "add", username)
	cmd.Env = in.env
	cmd.Stdin = strings.NewReader(password + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("adding %s: %v\n%s", username, err, out)
	}
	return in.signIn(t, username, password)
}

// call makes an API call and expects the status.
func (p *person) call(t testing.TB, method, path string, in any, status int, out any) {
	t.Helper()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, p.in.url(path), body)
	if err != nil {
		t.Fatal(err)
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := p.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	answer := text(t, res)
	if res.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d\n%s", method, path, res.Status, status, answer)
	}
	if out != nil {
		if err := json.Unmarshal([]byte(answer), out); err != nil {
			t.Fatalf("%s %s: %v in %s", method, path, err, answer)
		}
	}
}

// create makes a workspace and waits until it runs.
func (p *person) create(t testing.TB, name string) item {
	t.Helper()
	var w item
	p.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": name}, http.StatusCreated, &w)
	return p.await(t, w.ID, "RUNNING")
}

// await waits until the workspace has come to rest in a phase.
func (p *person) await(t testing.TB, id, phase string) item {
	t.Helper()
	var w item
	eventually(t, id+" is "+phase, func() error {
		p.call(t, http.MethodGet, "/api/v1/workspaces/"+id, nil, http.StatusOK, &w)
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

// wish asks for a state, again while an operation is in progress.
func (p *person) wish(t testing.TB, id, state string) {
	t.Helper()
	eventually(t, id+" may be asked to become "+state, func() error {
		b := strings.NewReader(fmt.Sprintf(`{"desired_state":%q}`, state))
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, p.in.url("/api/v1/workspaces/"+id), b)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := p.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer := text(t, res)
		switch res.StatusCode {
		case http.StatusOK:
			return nil
		case http.StatusConflict:
			return errors.New(answer)
		}
		t.Fatalf("wishing %s for %s: %s %s", state, id, res.Status, answer)
		return nil
	})
}

// address is how a workspace is reached: below a path, or at a host of its own.
type address struct {
	name string
	base func(in *installation, id string) string
}

var addresses = []address{
	{"path", func(in *installation, id string) string { return in.url("/w/" + id + "/") }},
	{"host", func(in *installation, id string) string {
		return fmt.Sprintf("http://ws-%s.localhost:%d/", id, in.port)
	}},
}

// headers of a page navigation, of what a page sends by itself, and of a program.
var (
	navigation = http.Header{"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Accept": {"text/html"}}
	background = http.Header{"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}}
	asProgram  = http.Header{"User-Agent": {"curl/8"}}
)

// get fetches a URL without following redirects.
func (p *person) get(t testing.TB, url string, h http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = h.Clone()
	res, err := p.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return res, text(t, res)
}

// cookie returns the Cookie header that the browser sends with a request for url.
func (p *person) cookie(t testing.TB, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.http.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	return r.Header.Get("Cookie")
}

// enter opens an address as a browser does, and returns where that ends. At a
// workspace's own host the redirects on the way are what signs in there.
func (p *person) enter(t testing.TB, base string) (*http.Response, string) {
	t.Helper()
	url := base
	for range 8 {
		res, body := p.get(t, url, navigation)
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
	t.Fatalf("entering %s goes round in circles", base)
	return nil, ""
}

// dial opens a WebSocket at the workspace. A test that waits too long for a message
// finds it closed.
func (p *person) dial(t testing.TB, url string) *websocket.Conn {
	t.Helper()
	conn, res, err := websocket.Dial(t.Context(), strings.Replace(url, "http", "ws", 1), &websocket.DialOptions{HTTPClient: p.http})
	if err != nil {
		t.Fatalf("opening a WebSocket at %s: %v (%v)", url, err, res)
	}
	patient := time.AfterFunc(patience, func() { _ = conn.CloseNow() })
	t.Cleanup(func() { patient.Stop(); _ = conn.CloseNow() })
	conn.SetReadLimit(1 << 20)
	return conn
}

// run types a command into the workspace's terminal and returns what it printed.
func (p *person) run(t testing.TB, base, command string) string {
	t.Helper()
	conn := p.dial(t, base+"ws")
	defer conn.CloseNow()
	// The marks are computed by the shell, so the echo of the typing is not taken for
	// the output.
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

func eventsOptions(id string) events.ListOptions {
	return events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", "container"), filters.Arg("event", "start"), filters.Arg("label", "codehub.workspace="+id))}
}
