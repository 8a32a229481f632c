package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// leads is the message that a process logs when it becomes the leader.
const leads = "this process is the leader now"

// withGlobal writes a new file that contains the settings and these additional global options and server options.
func (in *installation) withGlobal(t *testing.T, options, servers string) {
	t.Helper()
	text, err := os.ReadFile(in.config)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(text), "\n\tservers {\n", "\n"+options+"\n\tservers {\n"+servers+"\n", 1)
	if changed == string(text) {
		t.Fatalf("%s has no block servers", in.config)
	}
	in.config = filepath.Join(t.TempDir(), "Caddyfile")
	if err := os.WriteFile(in.config, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
}

// drainable returns an installation whose program the test ends.
func drainable(t *testing.T, settings ...string) *installation {
	t.Helper()
	in := prepareWithoutEngine(t, t.TempDir(), settings...)
	t.Cleanup(func() {
		if in.cmd != nil && in.cmd.Process != nil {
			in.stop(t)
		}
		in.keepLog(t)
	})
	return in
}

// beside starts another process of the installation on the same port, and returns it once it serves.
func (in *installation) beside(t *testing.T) *installation {
	t.Helper()
	next := *in
	next.adminSocket, next.log = filepath.Join(t.TempDir(), "admin.sock"), &logBuffer{}
	next.env = append(slices.Clone(in.env), "CODEHUB_ADMIN_ADDRESS=unix/"+next.adminSocket)
	next.start(t)
	t.Cleanup(func() { next.stop(t) })
	wait.Until(t, "the new process serves", func() bool { return strings.Contains(next.log.String(), "serving initial configuration") })
	return &next
}

// begun sends a sign-in request over a new connection, but not the end of its body. The returned function sends the
// rest, and returns the answer.
func (in *installation) begun(t *testing.T) (finish func() *http.Response) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(in.url(""), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	body := fmt.Sprintf(`{"username":"admin","password":%q}`, in.password)
	if _, err := fmt.Fprintf(conn, "POST /api/v1/auth/login HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n{",
		strings.TrimPrefix(in.url(""), "http://"), len(body)); err != nil {
		t.Fatal(err)
	}
	return func() *http.Response {
		t.Helper()
		if _, err := io.WriteString(conn, body[1:]); err != nil {
			t.Fatalf("the request was cut: %v", err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("the request was cut: %v", err)
		}
		return res
	}
}

// streams sends one request after the other. The requests are such that no HTTP client repeats them by itself. The
// returned function stops this, and returns the error of the first request whose connection was cut. Only requests on
// established connections count: a new connection may reach a socket that the kernel closes.
func streams(in *installation, transport *http.Transport) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	answers := make(chan error, 1)
	once := func() error {
		reused := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
		r, err := http.NewRequestWithContext(traced, http.MethodPost, in.url("/health"), io.MultiReader(strings.NewReader("x")))
		if err != nil {
			return err
		}
		res, err := transport.RoundTrip(r)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !reused && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)):
			return nil
		case err != nil:
			return fmt.Errorf("over a connection that is reused (%t): %w", reused, err)
		}
		defer res.Body.Close()
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	go func() {
		defer close(answers)
		for ctx.Err() == nil {
			if err := once(); err != nil && ctx.Err() == nil {
				answers <- err
				return
			}
		}
	}()
	return func() error { cancel(); return <-answers }
}

// TestATerminationIsPolite: one of two processes is the leader, and is told to end while it handles a request. The
// other process becomes the leader before that request is finished. The old leader finishes the request and cuts no
// client's connection, neither over HTTP/1.1 nor over HTTP/2.
func TestATerminationIsPolite(t *testing.T) {
	t.Parallel()
	in := drainable(t, "CODEHUB_SHARE_PORTS=true")
	in.withGlobal(t, "", "\t\tprotocols h1 h2 h2c")
	in.start(t)
	wait.Until(t, "the first process leads", func() bool { return strings.Contains(in.log.String(), leads) })
	finish := in.begun(t)
	second := new(http.Transport)
	second.Protocols = new(http.Protocols)
	second.Protocols.SetUnencryptedHTTP2(true)
	ends := map[string]func() error{"HTTP/1.1": streams(in, new(http.Transport)), "HTTP/2": streams(in, second)}
	next := in.beside(t)
	if strings.Contains(next.log.String(), leads) {
		t.Fatal("the second process leads already")
	}
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the second process leads", func() bool { return strings.Contains(next.log.String(), leads) })
	select {
	case <-in.exited:
		t.Fatal("the first process has ended before its request")
	default:
	}
	if res := finish(); res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("the request that had begun got %s, and its connection is closed: %t", res.Status, res.Close)
	}
	<-in.exited
	for protocol, end := range ends {
		if err := end(); err != nil {
			t.Errorf("%s: a request was cut: %v", protocol, err)
		}
	}
	in.cmd = nil // the installation is the second process's now
}

// TestAProcessServesOnForItsShutdownDelay: a process that is told to end keeps serving for its shutdown_delay. A Pod
// behind a Kubernetes Service must do so, because the other parts of the cluster learn later that the Pod is ending.
// Its listener stays open meanwhile, and it reports that it is not ready.
func TestAProcessServesOnForItsShutdownDelay(t *testing.T) {
	t.Parallel()
	in := drainable(t)
	in.withGlobal(t, "\tshutdown_delay 3s", "")
	in.start(t)
	wait.Until(t, "it leads", func() bool { return strings.Contains(in.log.String(), leads) })
	finish := in.begun(t)
	if err := in.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it has resigned", func() bool { return strings.Contains(in.log.String(), "this process has resigned as the leader") })
	res, err := (&http.Transport{}).RoundTrip(get(t, in.url("/health/ready")))
	if err != nil {
		t.Fatalf("a new connection during the delay: %v", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable || !res.Close {
		t.Errorf("ready says %s, and its connection is closed: %t", res.Status, res.Close)
	}
	if res := finish(); res.StatusCode != http.StatusOK || !res.Close {
		t.Errorf("the request that had begun got %s, and its connection is closed: %t", res.Status, res.Close)
	}
	<-in.exited
	in.cmd = nil
}

func get(t *testing.T, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
