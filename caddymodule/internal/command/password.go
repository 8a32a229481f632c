package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// maxPasswordLine bounds the line that a password is read from, in bytes. It is longer
// than any password may be, so that a longer one is refused and never cut off.
const maxPasswordLine = 64 << 10

// readPassword reads a new password from the command's input: its first line, or, from
// a terminal, what is typed twice and not shown.
func readPassword(cmd *cobra.Command) (string, error) {
	return ReadSecret(cmd, "password", "Password: ", "Once more: ")
}

// IsTerminal reports whether a person can be asked.
func IsTerminal(cmd *cobra.Command) bool {
	f, ok := cmd.InOrStdin().(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ReadSecret reads a secret, which is called what, from the command's input: its first line, or, from
// a terminal, what is typed after each of the prompts and not shown.
func ReadSecret(cmd *cobra.Command, what string, prompts ...string) (string, error) {
	in := cmd.InOrStdin()
	if IsTerminal(cmd) {
		return askSecret(in.(*os.File), cmd.ErrOrStderr(), what, prompts)
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the %s from standard input: %w", what, err)
	}
	secret := strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if secret == "" {
		return "", fmt.Errorf("standard input has no %s: write it as the first line, "+
			"or run this at a terminal to be asked", what)
	}
	return secret, nil
}

// askSecret asks at the terminal tty. In raw mode Ctrl-C arrives as a letter, so
// the terminal is restored also when the user gives up.
func askSecret(tty *os.File, out io.Writer, what string, prompts []string) (string, error) {
	before, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return "", fmt.Errorf("preparing the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(tty.Fd()), before) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{tty, out}, "")
	first := ""
	for i, prompt := range prompts {
		typed, err := t.ReadPassword(prompt)
		switch {
		case err != nil:
			return "", fmt.Errorf("no %s was typed: %w", what, err)
		case i == 0:
			first = typed
		case typed != first:
			return "", fmt.Errorf("the two %ss differ: try again", what)
		}
	}
	return first, nil
}
