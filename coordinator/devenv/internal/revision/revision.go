// Package revision names the commit of a working copy, for the programs that are built from it.
package revision

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// variable is the variable that the linker sets in a program.
const variable = "github.com/codehub/gateway/coordinator/version.revision"

// Of returns the commit of the repository in root, such as 82b487a3c1d2, with the suffix -dirty if tracked files are
// changed. It is empty without a repository, as in an archive of the source, or without git.
func Of(ctx context.Context, root string) string {
	// If the folder is inside another repository, the commit of that repository means nothing.
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil {
		return ""
	}
	cmd := exec.CommandContext(ctx, "git", "-C", root, "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	out, err := cmd.Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// Time returns when that commit was made, or the beginning of 1970 if there is none.
func Time(ctx context.Context, root string) time.Time {
	if Of(ctx, root) == "" {
		return time.Unix(0, 0)
	}
	out, err := exec.CommandContext(ctx, "git", "-C", root, "log", "-1", "--format=%ct").Output()
	if err != nil {
		return time.Unix(0, 0)
	}
	seconds, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64) // git prints a number
	return time.Unix(seconds, 0)
}

// LinkerFlag returns the part of -ldflags that sets the commit of the repository in root.
func LinkerFlag(ctx context.Context, root string) string {
	return "-X " + variable + "=" + Of(ctx, root)
}
