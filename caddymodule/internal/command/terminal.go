package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// exitUsage is the exit code for a command line, a configuration or an address that cannot be understood. The code of
// other failures is 1.
const exitUsage = 2

// Group makes sub the sub-commands of parent, which does nothing by itself.
func Group(parent *cobra.Command, sub ...*cobra.Command) {
	parent.AddCommand(sub...)
	parent.SuggestionsMinimumDistance = 2
	parent.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usage(cmd, errors.New("a command is missing"))
		}
		err := fmt.Errorf("there is no command %q", args[0])
		if nearest := cmd.SuggestionsFor(args[0]); len(nearest) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(nearest, " or "))
		}
		return Usage(cmd, err)
	}
}

// Usage prints what is wrong with the command line, and makes Caddy exit with code 2.
func Usage(cmd *cobra.Command, err error) error {
	return Fail(cmd, exitUsage, fmt.Errorf("%w\nSee: %s --help", err, cmd.CommandPath()))
}

// Fail prints an error, and makes Caddy exit with the code. Only Caddy's own wrapper can set one.
func Fail(cmd *cobra.Command, code int, err error) error {
	if code <= 1 {
		return err // the root prints it
	}
	cmd.PrintErrf("Error: %v\n", err)
	return Exit(cmd, code)
}

// Exit makes Caddy exit with the code, and prints nothing.
func Exit(cmd *cobra.Command, code int) error {
	cmd.SilenceErrors = true
	if code == 1 { // the wrapper treats it as success
		return errors.New("exit code 1")
	}
	return caddycmd.WrapCommandFuncForCobra(func(caddycmd.Flags) (int, error) { return code, nil })(cmd, nil)
}

// Arguments refuses any other number of arguments.
func Arguments(cmd *cobra.Command, n int) func([]string) error {
	return func(args []string) error {
		if len(args) != n {
			return fmt.Errorf("%s instead of %d: write %s", Count(len(args), "argument"), n, cmd.UseLine())
		}
		return nil
	}
}

// Confirm asks on standard input whether to continue. Any answer but yes is an error.
func Confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s\nWrite yes to go on: ", question)
	line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer from standard input: %w", err)
	}
	if err != nil { // the end of the input, at a terminal or not
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	if !strings.EqualFold(strings.TrimSpace(line), "yes") {
		return errors.New("nothing was changed, because the answer was not yes; add --yes to be asked nothing")
	}
	return nil
}

// PrintJSON prints v as indented JSON.
func PrintJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Count returns a number of things in words: 1 user, 2 users.
func Count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

// OneLine puts a message on one line.
func OneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// writtenDuration returns a duration as written in a setting: 2h, not 2h0m0s.
func writtenDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-len("0s")]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-len("0m")]
	}
	return s
}
