package backendtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// What the program in testworkspace does as a command. With ExecPrint it prints its arguments after the exit code, one a
// line, in turn on both streams. With ExecFlood it prints without an end.
const (
	ExecProgram = "/testworkspace"
	ExecPrint   = "exec"
	ExecFlood   = "flood"
)

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
	missing("another installation's container", f.New(t, Installation()))

	// A reader that takes nothing holds the command up, and the end of the request ends the call.
	stop, cancel := context.WithCancel(ctx)
	slow := &stuck{begun: make(chan struct{}), ended: stop.Done()}
	ended := make(chan error, 1)
	go func() {
		_, err := b.Exec(stop, id, []string{ExecProgram, ExecFlood}, slow, slow)
		ended <- err
	}()
	<-slow.begun
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
	missing("a container that is gone", b)
}

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
