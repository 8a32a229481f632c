package api_test

import (
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
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// socket is the client's end of a command.
type socket struct {
	t    *testing.T
	conn *websocket.Conn
	ctx  context.Context
}

// openSocket opens a WebSocket for the command that start describes.
func openSocket(t *testing.T, c *apitest.Client, w map[string]any, start any, header ...string) *socket {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	t.Cleanup(cancel)
	h := http.Header{"Cookie": {"session=" + c.Cookie}}
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		h.Set(name, value)
	}
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }}
	conn, resp, err := websocket.Dial(ctx, "http://"+c.Host+apitest.WorkspacePath(w)+"/exec", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: transport}, HTTPHeader: h, Subprotocols: []string{v1.ExecProtocol},
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, resp)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	s := &socket{t, conn, ctx}
	s.say(start)
	return s
}

func (s *socket) say(v any) {
	s.t.Helper()
	text, err := json.Marshal(v)
	if err == nil {
		err = s.conn.Write(s.ctx, websocket.MessageText, text)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) write(message ...byte) {
	s.t.Helper()
	if err := s.conn.Write(s.ctx, websocket.MessageBinary, message); err != nil {
		s.t.Fatal(err)
	}
}

func (s *socket) input(text string) { s.t.Helper(); s.write(append([]byte{v1.ExecStdin}, text...)...) }

// next returns the next message: output of the command, or a message of the server.
func (s *socket) next() (channel byte, text string, said v1.ExecSaid) {
	s.t.Helper()
	kind, message, err := s.conn.Read(s.ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	if kind == websocket.MessageBinary {
		return message[0], string(message[1:]), said
	}
	if err := json.Unmarshal(message, &said); err != nil {
		s.t.Fatal(err)
	}
	return 0, "", said
}

// last reads all remaining messages. The last of them says how the command ended.
func (s *socket) last() (printed string, taken int, end v1.ExecSaid) {
	s.t.Helper()
	for {
		_, text, said := s.next()
		printed, taken = printed+text, taken+said.Taken
		if said.ExitCode != nil || said.Problem != nil {
			return printed, taken, said
		}
	}
}

type fields = map[string]any

func command(words ...string) fields { return fields{"command": words, "stdin": true} }

// echo prints its input piece by piece, alternately on both streams, and then prints how the input ended.
func echo(_ context.Context, _ workspace.ID, c backend.Command, stdout, stderr io.Writer) (int, error) {
	if c.Stdin == nil {
		return 0, errors.New("there is no input")
	}
	piece := make([]byte, 10_000)
	for i := 0; ; i++ {
		n, err := c.Stdin.Read(piece)
		if n > 0 {
			if _, err := []io.Writer{stdout, stderr}[i%2].Write(piece[:n]); err != nil {
				return 0, err
			}
		}
		if err != nil {
			fmt.Fprint(stdout, " the end: ", err)
			return 7, nil
		}
	}
}

// TestACommandWithInput: input arrives unchanged, and only as fast as the command reads it. The end of the input
// arrives even while the command is still printing.
func TestACommandWithInput(t *testing.T) {
	in := newHarness(t, withExec(echo))
	ann := in.signedIn("ann")
	w := ann.Create("one")
	s := openSocket(t, ann, w, command("cat"))
	s.input("한글 \xff\x00\n")
	if _, _, said := s.next(); said.Taken != len("한글 \xff\x00\n") {
		t.Errorf("it says %+v", said)
	}
	if channel, text, _ := s.next(); channel != v1.ExecStdout || text != "한글 \xff\x00\n" {
		t.Errorf("channel %d: %q", channel, text)
	}
	s.input("more")
	s.write(v1.ExecClose, v1.ExecStdin)
	printed, taken, end := s.last()
	if printed != "more the end: EOF" || taken != 4 || end.ExitCode == nil || *end.ExitCode != 7 {
		t.Errorf("%q, %d bytes taken, %+v", printed, taken, end)
	}
	var program string
	if err := in.db.QueryRow(t.Context(), `SELECT details ->> 'program' FROM audit_log WHERE action = 'workspace.exec'`).Scan(&program); err != nil || program != "cat" {
		t.Errorf("the audit has %q, %v", program, err)
	}
	// If the first message does not ask for stdin, the command has no input. POST works as before.
	s = openSocket(t, ann, w, fields{"command": []string{"cat"}})
	if _, _, end := s.last(); end.Problem == nil {
		t.Errorf("a command without input got some: %+v", end)
	}
}

// TestInputThatACommandDoesNotTake: if a command does not read its input, the server buffers only a limited part of it,
// and still receives the client's other messages.
func TestInputThatACommandDoesNotTake(t *testing.T) {
	ended, sizes := make(chan error, 2), make(chan backend.Size, 10)
	in := newHarness(t, withExec(func(ctx context.Context, _ workspace.ID, c backend.Command, stdout, _ io.Writer) (int, error) {
		if c.Terminal != nil {
			sizes <- c.Terminal.Size
			go func() { sizes <- <-c.Terminal.Resized }()
		}
		<-ctx.Done()
		_, err := io.Copy(io.Discard, c.Stdin)
		ended <- err
		return 0, ctx.Err()
	}))
	ann := in.signedIn("ann")
	w := ann.Create("one")
	start := command("sleep")
	start["terminal"] = fields{"columns": 80, "rows": 24, "type": "xterm"}
	s := openSocket(t, ann, w, start)
	piece := strings.Repeat("x", v1.ExecPiece)
	for range v1.ExecWindow / v1.ExecPiece {
		s.input(piece)
	}
	s.say(fields{"terminal": fields{"columns": 100, "rows": 40}})
	for _, want := range []backend.Size{{Columns: 80, Rows: 24}, {Columns: 100, Rows: 40}} {
		if got := <-sizes; got != want {
			t.Errorf("the terminal has %+v, want %+v", got, want)
		}
	}
	_ = s.conn.CloseNow()
	if err := <-ended; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("the client has gone, and the input ends with %v", err)
	}
	s = openSocket(t, ann, w, command("sleep"))
	for range v1.ExecWindow / v1.ExecPiece {
		s.input(piece)
	}
	s.input("x")
	if _, _, err := s.conn.Read(s.ctx); websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("more than the window: %v", err)
	}
	<-ended
}

func TestCommandsWithInputThatAreRefused(t *testing.T) {
	ran := 0
	in := newHarness(t, withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
		ran++
		return 0, fmt.Errorf("container x: %w", backend.ErrNotFound)
	}))
	ann, bob, admin := in.signedIn("ann"), in.signedIn("bob"), in.signedIn("admin")
	w := ann.Create("one")
	path := apitest.WorkspacePath(w) + "/exec"
	upgrade := []string{"Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	ann.Do("GET", path, nil).Problem(t, 426, "upgrade-needed")
	bob.Do("GET", path, nil, upgrade...).Problem(t, 404, "not-found")
	admin.Do("GET", path, nil, upgrade...).Problem(t, 404, "not-found")
	in.anyone().Do("GET", path, nil, upgrade...).Problem(t, 401, "not-signed-in")
	ann.Do("GET", path, nil, append(upgrade, bearer(token(ann, "read")))...).Problem(t, 403, "token-scope")
	ann.Do("GET", path, nil, append(upgrade, "Early-Data: 1")...).Problem(t, 425, "too-early")
	for _, from := range []string{"Origin: https://evil.example", "Origin: http://ws-1.codehub.test:8080", "Sec-Fetch-Site: same-site"} {
		ann.Do("GET", path, nil, append(upgrade, from)...).Problem(t, 403, "cross-site")
	}
	for field, start := range map[string]fields{
		"command": {}, "stdin": {"command": []string{"ls"}, "stdin": 1}, "shell": {"command": []string{"ls"}, "shell": true},
		"terminal.type": {"command": []string{"ls"}, "terminal": fields{"columns": 1, "rows": 1, "type": "a b"}},
	} {
		if _, _, end := openSocket(t, ann, w, start).last(); end.Problem == nil || end.Problem.Field != field {
			t.Errorf("%v: %+v", start, end.Problem)
		}
	}
	if ran != 0 {
		t.Errorf("%d commands ran", ran)
	}
	if _, _, end := openSocket(t, ann, w, command("ls")).last(); end.Problem == nil || end.Problem.Type != "urn:codehub:problem:not-running" {
		t.Errorf("got %+v", end.Problem)
	}
}

// A size with a misspelt field is invalid.
func TestAMisspeltSizeIsRefused(t *testing.T) {
	in := newHarness(t, withExec(func(context.Context, workspace.ID, backend.Command, io.Writer, io.Writer) (int, error) {
		t.Error("it runs")
		return 0, nil
	}))
	ann := in.signedIn("ann")
	w := ann.Create("one")
	start := map[string]any{"command": []string{"ls"}, "terminal": map[string]any{"colums": 80, "rows": 24}}
	if _, _, end := openSocket(t, ann, w, start).last(); end.Problem == nil || end.Problem.Field != "terminal.colums" {
		t.Errorf("got %+v", end.Problem)
	}
}

// TestWhatEndsACommandsSocket: when the answer to a command ends, the call to the engine and the command's input end,
// too. A client that still listens is told why.
func TestWhatEndsACommandsSocket(t *testing.T) {
	ended, stopping, exit := make(chan error, 20), make(chan struct{}), make(chan struct{})
	core, logged := observer.New(zap.WarnLevel)
	in := newHarness(t, withExec(func(ctx context.Context, _ workspace.ID, c backend.Command, stdout, _ io.Writer) (int, error) {
		fmt.Fprint(stdout, "begun")
		<-ctx.Done()
		_, err := c.Stdin.Read(make([]byte, 1))
		ended <- err
		return 0, ctx.Err()
	}), func(o *api.Options) { o.Stopping, o.Exit, o.Logger = stopping, exit, zap.New(core) })
	ann := in.signedIn("ann")
	w := ann.Create("one")
	begin := func(c *apitest.Client, w map[string]any, header ...string) *socket {
		t.Helper()
		s := openSocket(t, c, w, command("sleep"), header...)
		if _, text, said := s.next(); text != "begun" {
			t.Fatalf("%q, %+v", text, said)
		}
		return s
	}
	awaitEnd := func(what string) {
		t.Helper()
		select {
		case err := <-ended:
			if !errors.Is(err, io.ErrClosedPipe) {
				t.Errorf("%s: the input ends with %v", what, err)
			}
		case <-time.After(wait.Timeout):
			t.Fatalf("%s does not end the command's call", what)
		}
	}
	_ = begin(ann, w).conn.CloseNow()
	awaitEnd("a client that has gone")
	made := token(ann, "write")
	s := begin(ann, w, bearer(made))
	if r := ann.Do("DELETE", "/api/v1/tokens/"+made["id"].(string), nil); r.StatusCode != 204 {
		t.Fatal(r.StatusCode)
	}
	awaitEnd("a revoked token")
	if _, _, end := s.last(); end.Problem == nil || end.Problem.Type != "urn:codehub:problem:command-lost" {
		t.Errorf("got %+v", end)
	}
	// Commands over HTTP and over a WebSocket count against the same limit of a user.
	bob := in.signedIn("bob")
	other := bob.Create("two")
	var sockets []*socket
	for range 16 {
		sockets = append(sockets, begin(bob, other))
	}
	run(bob, other, "ls").Problem(t, 429, "too-many-commands")
	close(stopping) // loading another configuration ends none of them
	run(bob, other, "ls").Problem(t, 429, "too-many-commands")
	close(exit)
	for _, s := range sockets {
		awaitEnd("the end of the process")
		if _, _, end := s.last(); end.Problem == nil || end.Problem.Type != "urn:codehub:problem:command-lost" {
			t.Errorf("got %+v", end)
		}
	}
	if logged.Len() != 0 {
		t.Errorf("none of this is the server's fault, and the log has %+v", logged.All())
	}
}
