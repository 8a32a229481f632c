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
// The stream is PAX tar, which any tar program reads. The package owns the way from a
// folder to the stream and back, and the staging folder in a volume. It must trust
// nothing in a stream (see [Volume.Unpack]), and know nothing of compression,
// checksums or the object store.
package tree

import (
	"errors"
	"sync/atomic"
)

// StagingName is the folder at the top of a volume in which a restore works. It is
// the only reserved name: it is never packed, and an archive that holds it is
// refused.
const StagingName = ".codehub-staging"

// The errors that callers must tell apart.
var (
	// ErrChanged says that the tree changed while it was packed. What was written so
	// far is incomplete. Another attempt may succeed.
	ErrChanged = errors.New("changed while it was read")
	// ErrCorrupt says that a stream is not an archive, or one that must not be
	// unpacked: it leads out of the volume or is too large.
	ErrCorrupt = errors.New("corrupted archive")
	// ErrBusy says that another process has locked the volume.
	ErrBusy = errors.New("another storage job works on the volume")
)

// Counter is the progress of a Pack or Unpack. It is safe for concurrent use, so that
// another goroutine can report it.
type Counter struct {
	// Bytes is the size of all regular files so far, holes included.
	Bytes atomic.Int64
	// Files counts entries of every kind except the root.
	Files atomic.Int64
	// Skipped counts what an archive cannot hold: sockets, fifos, devices; and, while
	// unpacking, extended attributes that the file system cannot hold.
	Skipped atomic.Int64
}
