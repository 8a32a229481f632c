package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/wait"
)

func serve(t *testing.T) string {
	t.Helper()
	srv := httptest.NewServer(newHandler())
	t.Cleanup(srv.Close)
	return srv.URL
}

func dial(t *testing.T, url string, header http.Header) (*websocket.Conn, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: header})
	if err == nil {
		t.Cleanup(func() { conn.CloseNow() })
	}
	return conn, err
}

func TestTerminalRunsWhatIsTyped(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	conn, err := dial(t, serve(t)+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	send := func(kind websocket.MessageType, text string) {
		t.Helper()
		if err := conn.Write(ctx, kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	send(websocket.MessageText, `{"cols":123,"rows":45}`)
	// The terminal also shows the typed text. So the commands are chosen such that their output does not occur in it.
	send(websocket.MessageBinary, "stty size; echo $((6*7))-done\n")
	var seen bytes.Buffer
	for !strings.Contains(seen.String(), "42-done") {
		_, b, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("reading the terminal: %v; it showed %q", err, seen.String())
		}
		seen.Write(b)
	}
	if !strings.Contains(seen.String(), "45 123") {
		t.Errorf("the shell does not know its size: %q", seen.String())
	}
	send(websocket.MessageBinary, "exit\n")
	for err == nil {
		_, _, err = conn.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusNormalClosure {
		t.Errorf("after the shell's end: %v", err)
	}
}

func TestForeignOriginIsRefused(t *testing.T) {
	url := serve(t)
	for _, path := range []string{"/ws", "/echo"} {
		if _, err := dial(t, url+path, http.Header{"Origin": {"https://elsewhere.example"}}); err == nil {
			t.Errorf("%s accepts a page of another host", path)
		}
		if _, err := dial(t, url+path, http.Header{"Origin": {url}}); err != nil {
			t.Errorf("%s refuses its own page: %v", path, err)
		}
	}
}

func TestEcho(t *testing.T) {
	url := serve(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/echo?a=b", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Probe", "seen")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"POST /echo?a=b HTTP/1.1", "X-Probe: seen", "Host: " + req.Host} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in %q", want, b)
		}
	}

	conn, err := dial(t, url+"/echo", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("x"), 100<<10) // more than the library's default limit
	if err := conn.Write(t.Context(), websocket.MessageBinary, want); err != nil {
		t.Fatal(err)
	}
	conn.SetReadLimit(maxMessage)
	kind, got, err := conn.Read(t.Context())
	if err != nil || kind != websocket.MessageBinary || !bytes.Equal(got, want) {
		t.Fatalf("%d bytes of kind %v come back as %d, %v", len(want), kind, len(got), err)
	}
}

// Everything that the page needs is there, at addresses that work below a path.
func TestPageIsSelfContained(t *testing.T) {
	url := serve(t)
	for _, path := range []string{"/", "/page.js", "/page.css", "/vendor/xterm.js", "/vendor/xterm.css",
		"/vendor/addon-fit.js", "/healthz"} {
		resp, err := http.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || len(b) == 0 {
			t.Errorf("%s: %s, %d bytes, %v", path, resp.Status, len(b), err)
		}
		if path == "/" && (strings.Contains(string(b), `="/`) || strings.Contains(string(b), "//")) {
			t.Errorf("the page has an absolute address: %s", b)
		}
	}
}

func TestSIGTERMEndsOpenTerminals(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", "/") }()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(wait.Timeout):
		t.Fatal("still serving after the context has ended")
	}
}

func TestSecretsAreRemembered(t *testing.T) {
	t.Setenv("CODEHUB_WORKSPACE_ID", "one")
	url := serve(t)
	for path, header := range map[string]http.Header{
		"/nowhere": {"Secret": {"of the header"}}, "/healthz": {"Cookie": {"a=b; secret=of-the-cookie"}}, "/kilobyte": {},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	res, err := http.Get(url + "/seen")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(body), "one\nof the header\nof-the-cookie\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
