// Package install installs missing Debian packages, as root or with sudo. On other systems it only names what is
// missing.
package install

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
)

//go:embed install.sh
var script string

// Ensure installs the packages whose programs are missing. The script knows which program belongs to which package. It
// prints the installation to out.
func Ensure(ctx context.Context, out io.Writer, packages ...string) error {
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", script, "install"}, packages...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, out // sudo may ask for a password
	// On Ctrl-C the script must undo its changes.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("installing what is missing: %w", err)
	}
	return nil
}
