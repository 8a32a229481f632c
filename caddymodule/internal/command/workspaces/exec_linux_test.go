package workspaces_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
)

// A command that runs in a terminal gets the size of the person's terminal and every key. The person's terminal is
// restored afterwards.
func TestExecInATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm-test")
	execServer(t, func(_ context.Context, c backend.Command, stdout, _ io.Writer) int {
		if c.Terminal == nil {
			return 9
		}
		fmt.Fprintf(stdout, "%q %s %v\r\n", c.Words, c.Terminal.Type, c.Terminal.Size)
		fmt.Fprintf(stdout, "%v\r\n", <-c.Terminal.Resized)
		keys := make([]byte, 3)
		_, err := io.ReadFull(c.Stdin, keys)
		fmt.Fprintf(stdout, "%q %v\r\n", keys, err)
		return 5
	})
	own, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	defer tty.Close()
	size := func(columns, rows uint16) {
		if err := pty.Setsize(own, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
	size(91, 23)
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	root := commandtest.CommandLine()
	root.SetIn(tty)
	root.SetOut(tty)
	root.SetErr(tty)
	root.SetArgs([]string{"codehub", "workspace", "exec", "-it", "one", "bash", "-l"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	lines := bufio.NewReader(own)
	next := func(want string) {
		t.Helper()
		if got, err := lines.ReadString('\n'); got != want+"\r\n" {
			t.Fatalf("the terminal shows %q, %v; want %q", got, err, want)
		}
	}
	next(`["bash" "-l"] xterm-test {91 23}`)
	size(100, 40)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil { // this terminal is not that of the process
		t.Fatal(err)
	}
	next("{100 40}")
	if _, err := own.WriteString("\x03\x04a"); err != nil {
		t.Fatal(err)
	}
	next(`"\x03\x04a" <nil>`)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "status 5") {
		t.Errorf("it ends with %v", err)
	}
	if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
		t.Errorf("the terminal is another one: %+v, %v; it was %+v", after, err, before)
	}
}
