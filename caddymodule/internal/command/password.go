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

// readPassword reads a password from the command's input: its first line, or, from
// a terminal, what is typed twice and not shown.
func readPassword(cmd *cobra.Command) (string, error) {
	in := cmd.InOrStdin()
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return askPassword(f, cmd.ErrOrStderr())
	}
	line, err := bufio.NewReader(io.LimitReader(in, maxPasswordLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading the password from standard input: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if password == "" {
		return "", errors.New("standard input has no password: write it as the first line, " +
			"or run this at a terminal to be asked")
	}
	return password, nil
}

// askPassword asks at the terminal tty. In raw mode Ctrl-C arrives as a letter, so
// the terminal is restored also when the user gives up.
func askPassword(tty *os.File, prompts io.Writer) (string, error) {
	before, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return "", fmt.Errorf("preparing the terminal: %w", err)
	}
	defer func() { _ = term.Restore(int(tty.Fd()), before) }()
	t := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{tty, prompts}, "")
	var typed [2]string
	for i, prompt := range []string{"Password: ", "Once more: "} {
		if typed[i], err = t.ReadPassword(prompt); err != nil {
			return "", fmt.Errorf("no password was typed: %w", err)
		}
	}
	if typed[0] != typed[1] {
		return "", errors.New("the two passwords differ: try again")
	}
	return typed[0], nil
}
