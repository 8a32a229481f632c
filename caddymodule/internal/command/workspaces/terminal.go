package workspaces

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
)

// terminal is the person's terminal.
type terminal struct{ in, out *os.File }

// terminalOf returns the terminal in which the command runs.
func terminalOf(cmd *cobra.Command) (*terminal, error) {
	in, _ := cmd.InOrStdin().(*os.File)
	out, _ := cmd.OutOrStdout().(*os.File)
	if in == nil || out == nil || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil, errors.New("-t needs a terminal, and standard input or standard output is none: leave it out")
	}
	return &terminal{in, out}, nil
}

// size returns the terminal's size and type.
func (t *terminal) size() *v1.ExecTerminal {
	columns, rows, err := term.GetSize(int(t.out.Fd()))
	if err != nil {
		columns, rows = 0, 0 // not known
	}
	return &v1.ExecTerminal{Columns: uint16(columns), Rows: uint16(rows), Type: os.Getenv("TERM")} //nolint:gosec // from as many bits
}

// raw passes on every key, including Ctrl-C, until restore is called.
func (t *terminal) raw() (restore func(), err error) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("preparing the terminal: %w", err)
	}
	return func() { _ = term.Restore(int(t.in.Fd()), before) }, nil
}
