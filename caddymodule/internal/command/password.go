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

// maxPasswordLine bounds the line that a password is read from, in bytes. It is longer than any valid password, so that
// a longer password is refused instead of cut off.
const maxPasswordLine = 64 << 10

// readPassword reads a new password from the command's input. At a terminal the person types it twice, without echo.
// Otherwise it is the first line of the input.
func readPassword(cmd *cobra.Command) (string, error) {
	return ReadSecret(cmd, "password", "Password: ", "Once more: ")
}

// IsTerminal reports whether the command can ask a person.
func IsTerminal(cmd *cobra.Command) bool {
	f, ok := cmd.InOrStdin().(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// ReadSecret reads a secret from the command's input. At a terminal it shows each of the prompts, and the person types
// the secret after each, without echo. Otherwise the secret is the first line of the input. what names the secret in
// errors.
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

// askSecret asks at the terminal tty. In raw mode Ctrl-C arrives as a character, so the terminal is also restored when
// the user gives up.
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
