package backend

import (
	"fmt"
	"regexp"
	"time"
)

// DefaultStopGrace is how long the programs of a workspace have to end before its container is removed, unless a
// setting says otherwise (SPEC 7).
const DefaultStopGrace = 3 * time.Second

// MaxStopGrace is far below 5 minutes, the limit of the operation that removes a container (SPEC 3).
const MaxStopGrace = time.Minute

// CheckStopGrace returns an error for a grace period that is not allowed.
func CheckStopGrace(grace time.Duration) error {
	if grace < 0 || grace > MaxStopGrace {
		return fmt.Errorf("%s must be from 0, which kills immediately, to %s", grace, MaxStopGrace)
	}
	return nil
}

// installationForm is the form of a Kubernetes label's value, in lower case.
var installationForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CheckInstallation returns an error for a name that no installation can have.
func CheckInstallation(name string) error {
	if !installationForm.MatchString(name) {
		return fmt.Errorf("%q must be 1 to 63 lower-case letters, digits, '.', '_' and '-', with a letter or digit at both ends",
			name)
	}
	return nil
}
