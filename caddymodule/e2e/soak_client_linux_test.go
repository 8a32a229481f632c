package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/e2e/soak"
)

// visitor is a simulated user. Unlike [user], whose requests must succeed, it tolerates failures while servers are
// away, and tries again.
type visitor struct {
	s      *soaking
	name   string
	random *rand.Rand
	http   *http.Client
	token  string // of the user's programs
	home   string // the id of the workspace that the user works in; none: ""
	diary  *soak.Diary
	typed  int // commands so far
}

func (s *soaking) visitor(name string, number uint64) (*visitor, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := newHTTPClient(jar)
	client.Timeout = soakRequest
	return &visitor{s: s, name: name, random: rand.New(rand.NewPCG(s.seed, number)), http: client, diary: soak.NewDiary()}, nil
}

// passing are the statuses with which a process may answer while a server is away or busy. All other error statuses are
// wrong at any time.
var passing = []int{
	http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	http.StatusConflict, http.StatusTooManyRequests,
}

// send sends a request, counts it, and returns the answer. An answer that is not among the expected ones, and that no
// fault explains, is recorded as a problem of the run.
func (v *visitor) send(ctx context.Context, kind, method, url string, header http.Header, body any, expected ...int) (*http.Response, string, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, "", err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, url, content)
	if err != nil {
		return nil, "", err
	}
	if header != nil {
		req.Header = header.Clone()
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	v.s.held.Add(1)
	defer v.s.held.Add(-1)
	v.s.rec.Count("requests/" + kind)
	res, err := v.http.Do(req)
	var answer []byte
	if err == nil {
		answer, err = io.ReadAll(res.Body)
		_ = res.Body.Close()
	}
	if err != nil {
		v.failed(ctx, err)
		return nil, "", err
	}
	if res.StatusCode >= 400 && !slices.Contains(expected, res.StatusCode) {
		if !slices.Contains(passing, res.StatusCode) {
			v.s.problem("%s %s of %s was answered with %s %.400s", method, url, v.name, res.Status, answer)
		}
		if res.StatusCode != http.StatusConflict {
			v.s.failedNow(v.name, fmt.Sprint(res.StatusCode), fmt.Sprintf("%s %.300s", url, answer))
		}
	}
	return res, string(answer), nil
}

// failed counts a broken connection as an error, unless the user has left.
func (v *visitor) failed(ctx context.Context, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	kind := "broken"
	var network net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		kind = "refused"
	case errors.As(err, &network) && network.Timeout(), errors.Is(err, context.DeadlineExceeded):
		kind = "timeout"
	}
	v.s.failedNow(v.name, kind, err.Error())
}

// until sends a request of the API again and again until it gets one of the wanted answers. It returns false if the
// user leaves before that, or if an answer comes that no fault explains.
func (v *visitor) until(ctx context.Context, method, path string, header http.Header, body any, out any, wanted ...int) bool {
	for ctx.Err() == nil {
		res, answer, err := v.send(ctx, "api", method, v.s.url(path), header, body, wanted...)
		if err == nil && slices.Contains(wanted, res.StatusCode) {
			if out == nil {
				return true
			}
			if err := json.Unmarshal([]byte(answer), out); err != nil {
				v.s.problem("%s %s: %v in %.400s", method, path, err, answer)
			}
			return true
		}
		if err == nil && !slices.Contains(passing, res.StatusCode) {
			return false // it is a problem already
		}
		v.pause(ctx, 200*time.Millisecond, 800*time.Millisecond)
	}
	return false
}

// pause waits for a random time, or until the user leaves.
func (v *visitor) pause(ctx context.Context, least, most time.Duration) {
	select {
	case <-time.After(least + time.Duration(v.random.Int64N(int64(most-least)))):
	case <-ctx.Done():
	}
}

// bearer authenticates the user's programs.
func (v *visitor) bearer() http.Header {
	h := program.Clone()
	h.Set("Authorization", "Bearer "+v.token)
	return h
}

// open opens the user's workspace in a browser, and waits for its page. It records how long a sleeping workspace
// takes.
func (v *visitor) open(ctx context.Context) bool {
	began, slept := time.Now(), false
	for ctx.Err() == nil {
		switch shown, asleep := v.navigate(ctx); {
		case shown && slept:
			v.s.rec.Took("wake", time.Now(), time.Since(began))
			v.s.rec.Count("wakes/by pages")
			return true
		case shown:
			return true
		case asleep:
			slept = true
		}
		v.pause(ctx, 150*time.Millisecond, 400*time.Millisecond)
	}
	return false
}

// navigate opens the page once, including the sign-in on the workspace's own host.
func (v *visitor) navigate(ctx context.Context) (shown, asleep bool) {
	url := byHost.base(v.s.installation, v.home)
	for range 8 {
		res, body, err := v.send(ctx, "pages", http.MethodGet, url, navigation, nil, http.StatusBadGateway)
		if err != nil {
			return false, false
		}
		next := res.Header.Get("Location")
		if next == "" {
			return res.StatusCode == http.StatusOK && strings.Contains(body, `id="terminal"`), res.StatusCode == http.StatusBadGateway
		}
		to, err := res.Request.URL.Parse(next)
		if err != nil {
			v.s.problem("%s redirects to %q", url, next)
			return false, false
		}
		url = to.String()
	}
	v.s.problem("opening %s: too many redirects", url)
	return false, false
}

// dial opens the workspace's terminal.
func (v *visitor) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, soakRequest)
	defer cancel()
	v.s.rec.Count("requests/terminals")
	conn, _, err := websocket.Dial(ctx, strings.Replace(byHost.base(v.s.installation, v.home), "http", "ws", 1)+"ws",
		&websocket.DialOptions{HTTPClient: v.http})
	if err != nil {
		v.failed(ctx, err)
		return nil, err
	}
	conn.SetReadLimit(4 << 20)
	return conn, nil
}

// run types a command into the workspace's terminal, and returns its output.
func (v *visitor) run(ctx context.Context, conn *websocket.Conn, command string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, soakRequest)
	defer cancel()
	v.typed++
	v.s.rec.Count("requests/keys")
	// The shell computes the marks, so they do not occur in the echo of the typed command.
	line := fmt.Sprintf("echo A$((40+2))B%d,; %s; echo C$((40+2))D%[1]d,\n", v.typed, command)
	if err := conn.Write(limited, websocket.MessageBinary, []byte(line)); err != nil {
		v.failed(ctx, err)
		return "", err
	}
	var seen strings.Builder
	for {
		_, b, err := conn.Read(limited)
		if err != nil {
			v.failed(ctx, err)
			return "", err
		}
		seen.Write(b)
		if _, rest, ok := strings.Cut(seen.String(), fmt.Sprintf("A42B%d,", v.typed)); ok {
			if out, _, ok := strings.Cut(rest, fmt.Sprintf("C42D%d,", v.typed)); ok {
				return strings.TrimSpace(strings.ReplaceAll(out, "\r", "")), nil
			}
		}
	}
}

// leave closes the connections of the user's browser.
func (v *visitor) leave() { v.http.CloseIdleConnections() }
