// Package version reports which release a program is, and from which commit it was built.
package version

import "github.com/codehub/gateway/storagejob/contract"

// revision is set by the linker to the commit from which the program was built. The name is in
// coordinator/devenv/internal/revision.
var revision string

// String returns the version in the form of semver.org, such as 0.1.0+82b487a3c1d2. The version of a working copy with
// changes ends with -dirty; that of a program built without a commit is 0.1.0+dev.
func String() string { return contract.Release + "+" + Revision() }

// Revision returns the commit, such as 82b487a3c1d2 or 82b487a3c1d2-dirty, or dev if there is none.
func Revision() string {
	if revision == "" {
		return "dev"
	}
	return revision
}
