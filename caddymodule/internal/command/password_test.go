package command_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
)

// terminalCommand runs `caddy codehub args…` at a terminal, answers each prompt, and
// returns its outcome and what the terminal showed.
func terminalCommand(t *testing.T, answers []string, args ...string) (o commandtest.Outcome, shown string) {
	t.Helper()
	keyboard, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	before, err := term.GetState(int(tty.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan commandtest.Outcome, 1)
	screen := make(chan string, 1)
	go func() {
		// The prompts go to standard error, which is the same terminal.
		var stdout bytes.Buffer
		root := commandtest.CommandLine()
		root.SetIn(tty)
		root.SetOut(&stdout)
		root.SetErr(tty)
		root.SetArgs(append([]string{"codehub"}, args...))
		o := commandtest.Outcome{}
		if root.ExecuteContext(t.Context()) != nil {
			o.Code = 1
		}
		o.Stdout = stdout.String()
		if after, err := term.GetState(int(tty.Fd())); err != nil || *after != *before {
			t.Errorf("the terminal is left changed (%v)", err)
		}
		tty.Close() // ends the reading below
		done <- o
	}()
	go func() {
		var b strings.Builder
		buf := make([]byte, 1024)
		for next := 0; ; {
			n, err := keyboard.Read(buf)
			b.Write(buf[:n])
			if next < len(answers) && strings.Count(b.String(), ": ") > next {
				_, _ = keyboard.WriteString(answers[next])
				next++
			}
			if err != nil {
				screen <- b.String()
				return
			}
		}
	}()
	o = <-done
	return o, <-screen
}

func TestCommandAsksAtATerminal(t *testing.T) {
	a := emptyDatabase(t)
	o, shown := terminalCommand(t, []string{"korrekt\x7f\x7f horse\r", "korre horse\r"}, "user", "add", "ann")
	o.Want(t, 0, "Added ann (user).")
	if strings.Count(shown, "Password: ") != 1 || strings.Count(shown, "Once more: ") != 1 || strings.Contains(shown, "orre") {
		t.Errorf("the terminal shows %q", shown)
	}
	login(t, a, "ann", "korre horse")

	for _, c := range []struct {
		answers []string
		problem string
	}{
		{[]string{otherPassword + "\r", "another one\r"}, "the two passwords differ"},
		{[]string{otherPassword + "\r", "\x03"}, "no password was typed"}, // Ctrl-C
		{[]string{"\x04"}, "no password was typed"},                       // Ctrl-D
		{[]string{"\r", "\r"}, "the password must have at least 8 characters, not 0"},
	} {
		o, shown := terminalCommand(t, c.answers, "user", "passwd", "ann")
		if o.Code != 1 || !strings.Contains(shown, c.problem) || strings.Contains(shown, otherPassword) {
			t.Errorf("%q: %+v, the terminal shows %q", c.answers, o, shown)
		}
	}
	login(t, a, "ann", "korre horse")
}
