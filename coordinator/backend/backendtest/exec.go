package backendtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// What the program in testworkspace does as a command. With ExecPrint it prints its arguments after the exit code, one a
// line, in turn on both streams. With ExecInput it prints how many bytes its input has. With ExecFlood it prints without
// an end, and with ExecServe it listens at a port and prints nothing.
const (
	ExecProgram = "/testworkspace"
	ExecPrint   = "exec"
	ExecInput   = "input"
	ExecFlood   = "flood"
	ExecServe   = "listen"
)

// longWord is longer than what fits into one message of any engine.
var longWord = strings.Repeat("한글 x%", 6_000)

func testExec(t *testing.T, f Fixture) {
	installation, id := Installation(), newID()
	b, ctx := f.New(t, installation), Context(t)
	run := func(command ...string) (stdout, stderr string, code int) {
		t.Helper()
		var out, errs bytes.Buffer
		code, err := b.Exec(ctx, id, command, &out, &errs)
		must(t, err)
		return out.String(), errs.String(), code
	}
	missing := func(what string, b backend.Backend) {
		t.Helper()
		var out bytes.Buffer
		_, err := b.Exec(ctx, id, []string{ExecProgram}, &out, &out)
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

	// A reader that takes nothing holds the command up, and the end of the request ends the call, also
	// while the command is silent.
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
	// One whose output cannot be passed on is given up as well, and nothing of this harms the others.
	if _, err := b.Exec(ctx, id, []string{ExecProgram, ExecFlood}, gone{}, gone{}); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a command whose client has gone: %v", err)
	}
	if out, _, code := run(ExecProgram, ExecPrint, "0", "again"); out != "again\n" || code != 0 {
		t.Errorf("after others were given up: exit code %d, %q", code, out)
	}
	exitWith(t, endpoint, 0)
	must(t, b.Delete(ctx, id))
	missing("a container that is gone", b)
}

// inBackground runs a command, and returns a channel with its error.
func inBackground(ctx context.Context, b backend.Backend, id workspace.ID, out io.Writer, command ...string) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := b.Exec(ctx, id, command, out, out)
		ended <- err
	}()
	return ended
}

// gone takes nothing any more.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// stuck takes nothing until the request ends.
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
