// Package install installs the programs that are needed and missing, where that can
// be done without asking: by apt on Debian and Ubuntu, as root or with sudo.
package install

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

//go:embed install.sh
var script string

// Need is something that must be there.
type Need struct {
	// Program is what is needed, for people.
	Program string
	// Package is the Debian package that has it.
	Package string
	// Missing tells that it is not there.
	Missing func() bool
}

// What can be needed.
var (
	PostgreSQL = Need{"PostgreSQL", "postgresql", func() bool { return server.PostgreSQLInstalled() != nil }}
	Redis      = Need{"Redis", "redis-server", func() bool { return server.RedisInstalled() != nil }}
	Authority  = Need{"certificate authorities", "ca-certificates", func() bool { return !image.HasAuthorities() }}
	Busybox    = Need{"a static BusyBox", "busybox-static", func() bool { return !image.HasBusybox() }}
	Chromium   = Need{"Chromium", "chromium", func() bool { return !inPath("chromium", "chromium-browser", "google-chrome") }}
	Docker     = Need{"a Docker engine", "docker.io", func() bool {
		_, err := server.AnsweringEngine(context.Background())
		return err != nil && os.Getenv("DOCKER_HOST") == "" && !server.EngineInstalled()
	}}
)

func inPath(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
}

// ManualError says what somebody has to install by hand, and how.
type ManualError struct {
	// Missing is what is not there.
	Missing []Need
	// Command is the command that installs it, if there is one.
	Command string
}

func (e *ManualError) Error() string {
	var programs, packages []string
	for _, n := range e.Missing {
		programs = append(programs, n.Program)
		packages = append(packages, n.Package)
	}
	text := "missing: " + strings.Join(programs, ", ") + ". "
	if e.Command != "" {
		return text + "Install them with\n\n\t" + e.Command + "\n\nand run this again"
	}
	return text + "Install them (their Debian packages: " + strings.Join(packages, " ") + ") and run this again"
}

// Ensure installs what is missing of needs and prints the installation to out. Where
// it cannot, the error is a [ManualError].
func Ensure(ctx context.Context, out io.Writer, needs ...Need) error {
	missing := missingOf(needs)
	if len(missing) == 0 {
		return nil
	}
	command, err := plan(missing, host{
		apt: inPath("apt-get"), root: os.Getuid() == 0,
		// sudo may ask for a password on a terminal.
		sudo: inPath("sudo") && (isTerminal() || exec.CommandContext(ctx, "sudo", "-n", "true").Run() == nil),
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "installing %s\n", strings.Join(packagesOf(missing), " "))
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, out
	// On Ctrl-C the script must put back what it changed for the time being.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("installing packages: %w", err)
	}
	if still := missingOf(missing); len(still) > 0 {
		return &ManualError{Missing: still}
	}
	return nil
}

// host is what decides how packages can be installed.
type host struct{ apt, root, sudo bool }

// plan returns the command that installs what is missing.
func plan(missing []Need, h host) ([]string, error) {
	packages := packagesOf(missing)
	run := append([]string{"sh", "-c", script, "install"}, packages...)
	switch {
	case h.apt && h.root:
		return run, nil
	case h.apt && h.sudo:
		return append([]string{"sudo"}, run...), nil
	case h.apt:
		return nil, &ManualError{Missing: missing, Command: "apt-get install " + strings.Join(packages, " ")}
	}
	return nil, &ManualError{Missing: missing}
}

func missingOf(needs []Need) []Need {
	return slices.DeleteFunc(slices.Clone(needs), func(n Need) bool { return !n.Missing() })
}

func packagesOf(needs []Need) []string {
	var names []string
	for _, n := range needs {
		names = append(names, n.Package)
	}
	return names
}

func isTerminal() bool {
	info, err := os.Stdin.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
