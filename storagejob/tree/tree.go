// Package tree turns a folder into a tar stream and back, byte for byte.
//
// What survives the round trip (SPEC 7): file content, names in any bytes,
// folders (empty ones too), symlinks whatever they point at, hard links, modes
// with setuid, setgid and sticky, numeric owners, modification times in
// nanoseconds, extended attributes and POSIX ACLs, holes of sparse files. What
// does not: sockets, fifos and devices (skipped and counted), access and change
// times, attributes in the "trusted" and "security" namespaces other than file
// capabilities.
//
// The stream is PAX tar as any tar program reads it. Unpacking trusts nothing in
// it: see [Volume.Unpack].
package tree

import (
	"errors"
	"sync/atomic"
)

// StagingName is the one name at the top of a volume that is not the user's: a
// restore works below it. It is never packed, and an archive that holds it is
// refused.
const StagingName = ".codehub-staging"

var (
	// ErrChanged says that the tree changed while it was packed. What was written
	// so far is not an archive.
	ErrChanged = errors.New("changed while it was read")
	// ErrCorrupt says that a stream is not an archive, or one that must not be
	// unpacked because it would leave the volume.
	ErrCorrupt = errors.New("corrupted archive")
	// ErrBusy says that another process works on the volume.
	ErrBusy = errors.New("another storage job works on the volume")
)

// Counter shows how far a running Pack or Unpack is. It may be read at any time.
type Counter struct {
	// Bytes is the size of all regular files so far, holes included.
	Bytes atomic.Int64
	// Files counts entries of every kind except the root.
	Files atomic.Int64
	// Skipped counts what an archive cannot hold: sockets, fifos, devices; and, while
	// unpacking, extended attributes that the file system cannot hold.
	Skipped atomic.Int64
}
