package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// connection sends the same request again and again and checks every answer. It does little else, because it shares
// the processors with the measured program.
type connection struct {
	net.Conn
	in      *bufio.Reader
	request []byte
	// answer reads and checks one answer.
	answer func(*bufio.Reader) error
}

// connect opens n connections to the host of r, each of which sends request.
func connect(t testing.TB, n int, r *http.Request, request []byte, answer func(*bufio.Reader) error) []*connection {
	t.Helper()
	conns := make([]*connection, n)
	for i := range conns {
		conn, err := net.Dial("tcp", "127.0.0.1:"+r.URL.Port())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		// If a connection hangs, the benchmark fails instead of waiting forever.
		if err := conn.SetDeadline(time.Now().Add(benchDeadline)); err != nil {
			t.Fatal(err)
		}
		conns[i] = &connection{Conn: conn, in: bufio.NewReader(conn), request: request, answer: answer}
	}
	return conns
}

// connectHTTP opens n connections that send HTTP requests. Each answer must have that status and that many bytes.
func connectHTTP(t testing.TB, n int, url string, h http.Header, status, length int) []*connection {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.Header = h
	return connect(t, n, r, wireFormat(t, r), func(in *bufio.Reader) error {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		size, err := io.Copy(io.Discard, res.Body)
		if err != nil {
			return err
		}
		if res.StatusCode != status || size != int64(length) {
			return fmt.Errorf("%s with %d bytes", res.Status, size)
		}
		return nil
	})
}

// connectWebSocket opens n WebSockets at the container's echo. Each request is a message of 16 bytes, and its answer is
// the same message.
func connectWebSocket(t testing.TB, n int, url string, h http.Header) []*connection {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, url, nil)
	r.Header = h.Clone()
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "Y29kZWh1YiBnYXRld2F5IQ==")
	payload := []byte("sixteen byte msg")
	size := byte(len(payload))
	// The message is one binary frame (RFC 6455, section 5.2). The masking key is zero, so the masked payload is the
	// payload.
	message := slices.Concat([]byte{0x82, 0x80 | size, 0, 0, 0, 0}, payload)
	echo := slices.Concat([]byte{0x82, size}, payload)
	conns := connect(t, n, r, message, func(in *bufio.Reader) error {
		got, err := in.Peek(len(echo))
		if err != nil {
			return err
		}
		if !bytes.Equal(got, echo) {
			return fmt.Errorf("the echo is %q", got)
		}
		_, err = in.Discard(len(echo))
		return err
	})
	handshake := wireFormat(t, r)
	for _, c := range conns {
		if _, err := c.Write(handshake); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(c.in, r)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusSwitchingProtocols {
			t.Fatalf("a WebSocket handshake is answered with %s", res.Status)
		}
	}
	return conns
}

func wireFormat(t testing.TB, r *http.Request) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// exchange sends n requests on every connection, on all of them at once, and returns
// when all answers have arrived.
func exchange(conns []*connection, n int) error {
	errs := make([]error, len(conns))
	var group sync.WaitGroup
	for i, c := range conns {
		group.Go(func() {
			for range n {
				if _, errs[i] = c.Write(c.request); errs[i] != nil {
					return
				}
				if errs[i] = c.answer(c.in); errs[i] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// cpuTime returns the processor time that the program has used so far.
func (in *installation) cpuTime(t testing.TB) time.Duration {
	t.Helper()
	// This is the id of another process's CPU clock (MAKE_PROCESS_CPUCLOCK in Linux's posix-timers.h). This clock
	// counts nanoseconds, whereas /proc/PID/stat counts only hundredths of a second.
	const cpuClockSched = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^in.cmd.Process.Pid)<<3|cpuClockSched, &ts); err != nil {
		t.Fatalf("reading the processor time of the program: %v", err)
	}
	return time.Duration(ts.Nano())
}

// allocations returns how many objects the program has allocated so far.
func (in *installation) allocations(t testing.TB) uint64 {
	t.Helper()
	var vars struct {
		Memstats struct{ Mallocs uint64 } `json:"memstats"`
	}
	if err := json.Unmarshal(in.debug(t, "vars"), &vars); err != nil {
		t.Fatal(err)
	}
	return vars.Memstats.Mallocs
}

// debug fetches a page below /debug/ from Caddy's administration endpoint.
func (in *installation) debug(t testing.TB, page string) []byte {
	t.Helper()
	c := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", in.adminSocket)
		},
	}}
	res, err := c.Get("http://localhost/debug/" + page)
	if err != nil {
		t.Fatal(err)
	}
	body := text(t, res)
	if res.StatusCode != http.StatusOK {
		t.Fatalf("/debug/%s: %s %s", page, res.Status, body)
	}
	return []byte(body)
}
