// Package commandtest runs `caddy codehub` as registered in Caddy, for tests of its commands. It runs command lines, if
// needed on the servers of an installation without a leader. Only tests may import it, and it must not contain rules of
// the commands.
package commandtest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	_ "github.com/codehub/gateway/caddymodule" // registers the command
)

// The developer may be logged in somewhere.
func init() {
	for _, name := range []string{"CODEHUB_URL", "CODEHUB_TOKEN"} {
		_ = os.Unsetenv(name)
	}
	_ = os.Setenv("XDG_CONFIG_HOME", filepath.Join(os.TempDir(), "codehub-logged-in-nowhere"))
}

// CommandLine returns `caddy codehub` as registered in Caddy, below a root of its own.
func CommandLine() *cobra.Command {
	c := caddycmd.Commands()["codehub"]
	cmd := &cobra.Command{Use: c.Name + " " + c.Usage, Short: c.Short}
	c.CobraFunc(cmd)
	root := &cobra.Command{Use: "caddy", SilenceUsage: true}
	root.AddCommand(cmd)
	return root
}

// Outcome is the result of a command.
type Outcome struct {
	Code           int
	Stdout, Stderr string
}

// Run runs `caddy codehub args…` in this process.
func Run(t *testing.T, stdin io.Reader, args ...string) Outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := CommandLine()
	root.SetIn(stdin)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	root.SetArgs(append([]string{"codehub"}, args...))
	code := 0
	if err := root.ExecuteContext(t.Context()); err != nil {
		code = 1
		// Caddy passes other exit codes on in this error. That the process really exits with them can be tested only in
		// a separate process: see TestCommandExitCodes.
		_, _ = fmt.Sscanf(err.Error(), "exiting with status %d", &code)
	}
	return Outcome{code, stdout.String(), stderr.String()}
}

// Complete returns the shell's completions of the last argument.
func Complete(t *testing.T, args ...string) string {
	t.Helper()
	var stdout bytes.Buffer
	root := CommandLine()
	root.SetOut(&stdout)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{cobra.ShellCompRequestCmd, "codehub"}, args...))
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Error(err)
	}
	return stdout.String()
}

// Want checks the exit code and the output, which is on standard error if the command fails. The output must contain
// the parts, and report a failure once.
func (o Outcome) Want(t *testing.T, code int, parts ...string) {
	t.Helper()
	text, other := o.Stdout, o.Stderr
	if code != 0 {
		text, other = other, text
	}
	if o.Code != code || other != "" || (code != 0 && strings.Count(text, "Error: ") != 1) {
		t.Errorf("exit code %d, want %d\nstdout: %s\nstderr: %s", o.Code, code, o.Stdout, o.Stderr)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("printed %q without %q", text, p)
		}
	}
}
