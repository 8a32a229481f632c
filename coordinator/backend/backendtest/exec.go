package backendtest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// These are the commands of the program in testworkspace. ExecPrint prints the arguments after the exit code, one per
// line, alternately on both streams. ExecInput prints the number of bytes in its input, and ExecEcho prints its input.
// ExecFlood prints endlessly. ExecServe listens on a port and prints nothing. ExecTerminal prints TERM and the size of
// its terminal and each further size, one per line, then the first line of its input in quotes, and exits with 3.
// ExecHungUp prints whether the terminal of an ExecTerminal has hung up.
const (
	ExecProgram  = "/testworkspace"
	ExecPrint    = "exec"
	ExecInput    = "input"
	ExecEcho     = "echo"
	ExecFlood    = "flood"
	ExecServe    = "listen"
	ExecTerminal = "terminal"
	ExecHungUp   = "hungup"
)

// longWord is too long for a single message of any engine.
var longWord = strings.Repeat("한글 x%", 6_000)

func testExec(t *testing.T, f Fixture) {
	installation, id := Installation(), newID()
	b, ctx := f.New(t, installation), Context(t)
	run := func(command ...string) (stdout, stderr string, code int) {
		t.Helper()
		var out, errs bytes.Buffer
		code, err := b.Exec(ctx, id, backend.Command{Words: command}, &out, &errs)
		must(t, err)
		return out.String(), errs.String(), code
	}
	missing := func(what string, b backend.Backend) {
		t.Helper()
		var out bytes.Buffer
		_, err := b.Exec(ctx, id, backend.Command{Words: []string{ExecProgram}}, &out, &out)
		if !errors.Is(err, backend.ErrNotFound) || out.Len() != 0 {
			t.Errorf("a command in %s: %v, %q; want %v", what, err, &out, backend.ErrNotFound)
		}
	}
	missing("no container", b)
	endpoint := started(t, b, id)
	for _, code := range []string{"0", "1", "77"} {
		out, errs, got := run(ExecProgram, ExecPrint, code, "a b", "$HOME", "한글")
		if out != "a b\n한글\n" || errs != "$HOME\n" || string(rune('0'+got%10)) != code[len(code)-1:] {
			t.Errorf("exit code %d, want %s; %q and %q", got, code, out, errs)
		}
	}
	if out, errs, code := run("/no/such/program"); code != 126 && code != 127 || strings.TrimSpace(out+errs) == "" {
		t.Errorf("a program that is not there: exit code %d, %q, %q", code, out, errs)
	}
	if out, errs, code := run(ExecProgram, ExecInput); out != "0 bytes\n" || errs != "" || code != 0 {
		t.Errorf("a command that reads its input: exit code %d, %q, %q", code, out, errs)
	}
	if out, errs, code := run(ExecProgram, ExecPrint, "3", longWord, longWord); out != longWord+"\n" || errs != out || code != 3 {
		t.Errorf("a long word: exit code %d, %d and %d bytes of %d", code, len(out), len(errs), len(longWord)+1)
	}
	missing("another installation's container", f.New(t, Installation()))

	// A reader that accepts nothing blocks the command. When its context ends, the call ends, even while the command
	// prints nothing.
	stop, cancel := context.WithCancel(ctx)
	slow := &stuck{begun: make(chan struct{}), ended: stop.Done()}
	flood := inBackground(stop, b, id, slow, ExecProgram, ExecFlood)
	silent := inBackground(stop, b, id, slow, ExecProgram, ExecServe, "9090")
	<-slow.begun
	cancel()
	for _, ended := range []<-chan error{flood, silent} {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a command that was given up has ended")
			}
		case <-time.After(10 * time.Second):
			t.Error("a command that was given up holds the caller")
		}
	}
	// A command is also abandoned if its output cannot be forwarded. None of this affects other commands.
	if _, err := b.Exec(ctx, id, backend.Command{Words: []string{ExecProgram, ExecFlood}}, gone{}, gone{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a command whose client has gone: %v", err)
	}
	if out, _, code := run(ExecProgram, ExecPrint, "0", "again"); out != "again\n" || code != 0 {
		t.Errorf("after others were given up: exit code %d, %q", code, out)
	}
	exitWith(t, endpoint, 0)
	must(t, b.Delete(ctx, id))
	missing("a container that is gone", b)
}

// maxAhead bounds the input that an engine and the systems in between may buffer before the command reads it, in bytes.
// The bound is far more than they buffer, and far less than the host's memory.
const maxAhead = 64 << 20

// testExecInput checks that the input arrives completely and in order, as fast as the command reads it, and that the
// command sees the end of its input while it still prints.
func testExecInput(t *testing.T, f Fixture) {
	id := newID()
	b, ctx := f.New(t, Installation()), Context(t)
	endpoint := started(t, b, id)
	run := func(in io.Reader, words ...string) (string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		code, err := b.Exec(ctx, id, backend.Command{Words: words, Stdin: in}, &out, &errs)
		must(t, err)
		if errs.Len() != 0 {
			t.Errorf("%q prints %q", words, &errs)
		}
		return out.String(), code
	}
	bytesOf := func(n int) string {
		all := make([]byte, n)
		_, _ = rand.NewChaCha8([32]byte{1}).Read(all)
		return string(all)
	}
	for _, text := range []string{"", "x", bytesOf(4 << 20)} {
		if got, code := run(strings.NewReader(text), ExecProgram, ExecEcho); got != text || code != 0 {
			t.Errorf("%d bytes of input: %d come back, exit code %d", len(text), len(got), code)
		}
		if got, code := run(strings.NewReader(text), ExecProgram, ExecInput); got != fmt.Sprintln(len(text), "bytes") || code != 0 {
			t.Errorf("%d bytes of input: it says %q, exit code %d", len(text), got, code)
		}
	}
	// A command that reads no input ends anyway, and its input is not buffered without limit.
	if got, code := run(new(endless), ExecProgram, ExecPrint, "7", "a"); got != "a\n" || code != 7 {
		t.Errorf("a command that takes no input: %q, exit code %d", got, code)
	}
	stop, cancel := context.WithCancel(ctx)
	defer cancel()
	input, held := new(endless), &stuck{begun: make(chan struct{}), ended: stop.Done()}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Exec(stop, id, backend.Command{Words: []string{ExecProgram, ExecFlood}, Stdin: input}, held, held)
		ended <- err
	}()
	<-held.begun
	for range 4 { // as much as would have been buffered by now
		if got, _ := run(strings.NewReader(bytesOf(maxAhead/4)), ExecProgram, ExecInput); got != fmt.Sprintln(maxAhead/4, "bytes") {
			t.Errorf("input beside: %q", got)
		}
	}
	if n := input.read.Load(); n > maxAhead {
		t.Errorf("%d bytes are read for a command that takes none", n)
	}
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("a command that was given up has ended")
		}
	case <-time.After(10 * time.Second):
		t.Error("a command that was given up holds the caller")
	}
	exitWith(t, endpoint, 0)
	must(t, b.Delete(ctx, id))
}

// endless is endless input that counts how much of it is read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.read.Add(int64(len(p)))
	return len(p), nil
}

// testTerminal checks that a command has a terminal of the requested size, that a person can type into the terminal,
// and that the terminal hangs up when the person leaves.
func testTerminal(t *testing.T, f Fixture) {
	id := newID()
	b, ctx := f.New(t, Installation()), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: f.ShellImage(t)})) // hanging up requires a shell
	endpoint := Ready(t, b, id)
	begin := func(ctx context.Context) (typed *io.PipeWriter, sizes chan<- backend.Size, shown *bufio.Reader, ended <-chan error) {
		in, typed := io.Pipe()
		out, printed := io.Pipe()
		resized, end := make(chan backend.Size), make(chan error, 1)
		go func() {
			code, err := backend.ExecInTerminal(ctx, b, id, backend.Command{
				Words: []string{ExecProgram, ExecTerminal}, Stdin: in,
				Terminal: &backend.Terminal{Type: "xterm-test", Size: backend.Size{Columns: 91, Rows: 23}, Resized: resized},
			}, printed)
			if err == nil && code != 3 {
				err = fmt.Errorf("exit code %d", code)
			}
			_ = in.Close()
			_ = printed.Close()
			end <- err
		}()
		return typed, resized, bufio.NewReader(out), end
	}
	// The program may print its size before the terminal has the new one, and then prints it again.
	next := func(shown *bufio.Reader, want string) {
		t.Helper()
		var all strings.Builder
		for got := ""; got != want+"\r\n"; all.WriteString(got) {
			var err error
			if got, err = shown.ReadString('\n'); err != nil {
				t.Fatalf("the terminal shows no %q: %q, %v", want, all.String()+got, err)
			}
		}
	}
	hungUp := func() bool {
		t.Helper()
		var out bytes.Buffer
		_, err := b.Exec(ctx, id, backend.Command{Words: []string{ExecProgram, ExecHungUp}}, &out, io.Discard)
		must(t, err)
		return out.String() == "true\n"
	}
	typed, sizes, shown, ended := begin(ctx)
	next(shown, "xterm-test")
	next(shown, "91 23")
	sizes <- backend.Size{Columns: 100, Rows: 40}
	next(shown, "100 40")
	_, err := io.WriteString(typed, "한글\r")
	must(t, err)
	next(shown, "한글") // the echo
	next(shown, `"한글\n"`)
	must(t, <-ended)
	if hungUp() {
		t.Error("a terminal has hung up whose command has ended")
	}
	stop, leave := context.WithCancel(ctx)
	_, _, shown, ended = begin(stop)
	next(shown, "xterm-test")
	next(shown, "91 23")
	leave()
	if err := <-ended; err == nil {
		t.Error("a terminal that was left has ended well")
	}
	wait.Until(t, "the terminal hangs up", hungUp)
	// If a program cannot be started, its terminal shows that.
	var out bytes.Buffer
	code, err := b.Exec(ctx, id, backend.Command{
		Words: []string{"/no/such/program"}, Stdin: strings.NewReader(""), Terminal: &backend.Terminal{Size: backend.Size{Columns: 80, Rows: 24}},
	}, &out, io.Discard)
	must(t, err)
	if code != 126 && code != 127 || strings.TrimSpace(out.String()) == "" {
		t.Errorf("a program that is not there, in a terminal: exit code %d, %q", code, &out)
	}
	exitWith(t, endpoint, 0)
	must(t, b.Delete(ctx, id))
}

// inBackground runs a command in the background and returns a channel for its error.
func inBackground(ctx context.Context, b backend.Backend, id workspace.ID, out io.Writer, command ...string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := b.Exec(ctx, id, backend.Command{Words: command}, out, out)
		ended <- err
	}()
	return ended
}

// gone is a writer whose reader no longer exists.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// stuck blocks each write until the request ends.
type stuck struct {
	begun chan struct{}
	ended <-chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case <-s.begun:
	default:
		close(s.begun)
	}
	<-s.ended
	return len(p), nil
}
