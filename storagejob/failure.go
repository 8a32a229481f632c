package main

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/object"
	"github.com/codehub/gateway/storagejob/tree"
)

// The job's exit codes are its contract with the coordinator.
const (
	exitOK          = 0
	exitOther       = 1
	exitUsage       = 2
	exitCorrupted   = 10 // the archive is damaged or hostile; trying again does not help
	exitMissing     = 11 // the archive or its .meta does not exist
	exitUnreachable = 12 // the object store does not answer, or refuses
	exitDiskFull    = 13 // no room in the volume
)

// errUsage marks what the caller of the program got wrong.
var errUsage = errors.New("usage")

// exitCode tells an error's kind. What the store did comes first: a connection
// that breaks also breaks the archive that is read from it.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return exitOther
	case errors.Is(err, object.ErrUnreachable):
		return exitUnreachable
	case errors.Is(err, object.ErrMissing):
		return exitMissing
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return exitDiskFull
	case errors.Is(err, tree.ErrCorrupt), errors.Is(err, object.ErrMalformed):
		return exitCorrupted
	default:
		return exitOther
	}
}
