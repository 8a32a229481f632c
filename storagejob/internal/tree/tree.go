// Package tree turns a folder into a tar stream and back, byte for byte.
//
// The round trip preserves (SPEC 7): file content; names of any bytes; folders of any depth, including empty ones;
// symlinks, whatever their targets; hard links of files and of symlinks; modes with setuid, setgid and sticky; numeric
// owners; modification times in nanoseconds; extended attributes of the user, POSIX ACLs and file capabilities; and the
// holes of sparse files.
//
// It does not preserve:
//
//   - sockets, fifos and devices, which are skipped and counted: only the program that created one can use it,
//     and a device would open the host;
//   - times of access, change and birth: a program cannot set the latter two, and reading a home for its archive
//     is not an access;
//   - attributes in the "trusted" and "security" namespaces other than file capabilities, and the flags and
//     project quotas of chattr: they belong to the machine;
//   - attributes and ACLs that the new file system does not support, which are counted;
//   - allocated blocks that contain zeros, whether written or only reserved: they become holes, which read the
//     same. In a file with more than 16,384 holes the smallest ones are archived as zeros, and become holes again;
//   - blocks that files share (reflinks): each file gets its own;
//   - times that the new file system cannot express (ext4: before 1901, after 2446), which the kernel moves to
//     the nearest one;
//   - a file's names outside the folder: they do not belong to the home.
//
// A home is not archived at all in two cases, which the error explains: a file has more than 1 MiB of name and
// attributes, which no reader would accept, or folders are nested deeper than the number of files that the process may
// open.
//
// The stream is PAX tar, which any tar program reads; sparse files have the form that GNU tar and bsdtar write. The
// package owns the way from a folder to the stream and back, and the staging folder in a volume. It must trust nothing
// in a stream (see [Volume.Unpack]), and know nothing about compression, checksums or the object store.
package tree

import (
	"errors"
	"sync/atomic"
)

// legacyStaging is the staging folder of a restore without an operation, as in early releases.
const legacyStaging = ".codehub-staging"

// StagingName returns the folder at the top of a volume in which an operation's restore works. Archives leave it out.
// It is the only reserved name, and users do not come upon it by chance: similar names are the user's own.
func StagingName(operation string) string {
	if operation == "" {
		return legacyStaging
	}
	return ".codehub-restore-" + operation
}

// The errors that callers must tell apart.
var (
	// ErrChanged reports that the tree changed while it was packed. The stream is incomplete. Another attempt may
	// succeed.
	ErrChanged = errors.New("changed while it was read")
	// ErrCorrupt reports that a stream is not an archive, or is one that must not be unpacked because it leads out of
	// the volume or is too large.
	ErrCorrupt = errors.New("corrupted archive")
	// ErrBusy reports that another process has locked the volume.
	ErrBusy = errors.New("another storage job works on the volume")
)

// ChangedError is an [ErrChanged] that names the changed file or folder of the volume.
type ChangedError struct {
	Name string
	Err  error
}

// Error implements error.
func (e *ChangedError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *ChangedError) Unwrap() error { return e.Err }

// Counter is the progress of a Pack or Unpack. It is safe for concurrent use, so that another goroutine can report it.
type Counter struct {
	// Bytes is the total size of all regular files so far, including holes.
	Bytes atomic.Int64
	// Holes is the part of Bytes that lies in holes, which the stream only describes.
	Holes atomic.Int64
	// Files counts entries of every kind except the root.
	Files atomic.Int64
	// Skipped counts the sockets, fifos and devices that an archive cannot hold. While unpacking, it counts the
	// extended attributes that the file system cannot hold.
	Skipped atomic.Int64
}
