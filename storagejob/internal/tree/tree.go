// Package tree turns a folder into a tar stream and back, byte for byte.
//
// What survives the round trip (SPEC 7): file content, names in any bytes, and folders of any depth
// (empty ones too). So do symlinks whatever they point at, and hard links of files and of symlinks.
// Modes survive with setuid, setgid and sticky, and so do numeric owners, and modification times in
// nanoseconds. So do extended attributes of the user, POSIX ACLs and file capabilities, and holes
// of sparse files.
//
// What does not, and why:
//
//   - sockets, fifos and devices: only the program that made one can use it, and a device
//     would open the host; they are skipped and counted;
//   - times of access, change and birth: a program cannot set the latter two, and reading
//     a home for its archive is no access;
//   - attributes in the "trusted" and "security" namespaces other than file capabilities,
//     and the flags and project quotas of chattr: they belong to the machine;
//   - attributes and ACLs of a kind that the new file system does not have: counted;
//   - blocks that are allotted and hold zeros, whether written or only reserved: they become
//     holes, which read the same. Of a file with more than 16,384 holes the smallest ones
//     are archived as zeros, and become holes again;
//   - blocks that files share (reflinks): each file gets its own;
//   - times that the new file system cannot express (ext4: before 1901, after 2446), which
//     the kernel moves to the nearest one;
//   - names that a file has outside the folder: they are not the home's.
//
// In two cases a home is not archived at all, and the error says why. A file has more than 1 MiB of
// name and attributes, which no reader would accept. Or folders are nested deeper than the process
// may open files.
//
// The stream is PAX tar, which any tar program reads; sparse files are in the form that
// GNU tar and bsdtar write. The package owns the way from a folder to the stream and back,
// and the staging folder in a volume. It must trust nothing in a stream (see
// [Volume.Unpack]), and know nothing of compression, checksums or the object store.
package tree

import (
	"errors"
	"sync/atomic"
)

// legacyStaging is the staging folder of a restore without an operation, as all were once.
const legacyStaging = ".codehub-staging"

// StagingName is the folder at the top of a volume in which the restore of an operation
// works, and which an archive leaves out. It is the only reserved name, and one that no user
// comes upon: others like it are the user's own.
func StagingName(operation string) string {
	if operation == "" {
		return legacyStaging
	}
	return ".codehub-restore-" + operation
}

// The errors that callers must tell apart.
var (
	// ErrChanged says that the tree changed while it was packed. What was written so
	// far is incomplete. Another attempt may succeed.
	ErrChanged = errors.New("changed while it was read")
	// ErrCorrupt says that a stream is not an archive, or one that must not be unpacked. Such a one
	// leads out of the volume or is too large.
	ErrCorrupt = errors.New("corrupted archive")
	// ErrBusy says that another process has locked the volume.
	ErrBusy = errors.New("another storage job works on the volume")
)

// ChangedError is an [ErrChanged] that says which file or folder of the volume changed.
type ChangedError struct {
	Name string
	Err  error
}

// Error implements error.
func (e *ChangedError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ChangedError) Unwrap() error { return e.Err }

// Counter is the progress of a Pack or Unpack. It is safe for concurrent use, so that
// another goroutine can report it.
type Counter struct {
	// Bytes is the size of all regular files so far, holes included.
	Bytes atomic.Int64
	// Holes is how much of Bytes is holes that the stream only describes.
	Holes atomic.Int64
	// Files counts entries of every kind except the root.
	Files atomic.Int64
	// Skipped counts what an archive cannot hold: sockets, fifos, devices; and, while
	// unpacking, extended attributes that the file system cannot hold.
	Skipped atomic.Int64
}
