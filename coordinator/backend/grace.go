package backend

import (
	"fmt"
	"time"
)

// DefaultStopGrace is how long the programs of a workspace have to end before its container is removed, unless a
// setting says otherwise (SPEC 7).
const DefaultStopGrace = 3 * time.Second

// MaxStopGrace is far below the limit of the operation that removes a container, 5 minutes (SPEC 3).
const MaxStopGrace = time.Minute

// CheckStopGrace returns an error for a grace period that is not allowed.
func CheckStopGrace(grace time.Duration) error {
	if grace < 0 || grace > MaxStopGrace {
		return fmt.Errorf("%s must be from 0, which kills immediately, to %s", grace, MaxStopGrace)
	}
	return nil
}
