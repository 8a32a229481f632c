package tree

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// RefusedError reports that the volume's file system refuses something that a restore needs. The archive is not to
// blame, or is not proven to be damaged: see ByContent.
type RefusedError struct {
	// ByContent reports that the file system refuses names, links, attributes or sizes in the archive. Another file
	// system accepts them, unless the archive is damaged, which its checksum reveals.
	ByContent bool
	// Advice says what is wrong with the file system, and what to do.
	Advice string
	// Err is the error of the system call.
	Err error
}

// Error implements error.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("the volume's file system refuses: %v; %s", e.Err, e.Advice)
}

// Unwrap returns the error of the system call.
func (e *RefusedError) Unwrap() error { return e.Err }

// another is the advice for a file system that cannot hold a home.
const another = "; put the volume on ext4, XFS or btrfs"

// refusals are the kernel errors that concern the file system to which a restore writes. Other errors stay unexplained.
var refusals = []struct {
	errno     unix.Errno
	byContent bool
	advice    string
}{
	{unix.ENOSPC, false, "it is full: make room or enlarge it"},
	{unix.EDQUOT, false, "its quota is used up: make room or raise the quota"},
	{unix.EROFS, false, "it is mounted read-only, or has become so after an error of the disk: look into the " +
		"host's kernel log"},
	{unix.EIO, false, "its disk reports errors: look into the host's kernel log"},
	{unix.EACCES, false, "the storage job may not write there: check the volume's permissions, and that root is " +
		"not squashed on NFS"},
	{unix.ESTALE, false, "the file server has lost the volume: mount it again"},
	{unix.ENAMETOOLONG, true, "its names or links must be shorter than those of the home" + another},
	{unix.EINVAL, true, "it does not allow this name, owner or attribute" + another},
	{unix.EILSEQ, true, "it does not allow names that are not UTF-8" + another},
	{unix.EEXIST, true, "it takes two different names for the same, as one that ignores upper and lower case does" +
		another},
	{unix.EMLINK, true, "it allows fewer hard links to a file, or folders in a folder" + another},
	{unix.EXDEV, true, "it does not allow hard links here" + another},
	{unix.EPERM, true, "it does not allow this link, owner or attribute, or the storage job lacks the right to set it" +
		another},
	{unix.EOPNOTSUPP, true, "it does not support this" + another},
	{unix.ENOSYS, true, "it does not support this" + another},
	{unix.E2BIG, true, "it does not allow an attribute of this size" + another},
	{unix.ERANGE, true, "it does not allow an attribute of this size" + another},
	{unix.EFBIG, true, "it does not allow files of this size" + another},
	{unix.EOVERFLOW, true, "it does not allow a number this large" + another},
}

// refused turns an error of the volume's file system into a [RefusedError]. Errors of the archive and all other errors
// stay unchanged.
func refused(err error) error {
	var already *RefusedError
	if err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrBusy) || errors.As(err, &already) {
		return err
	}
	for _, r := range refusals {
		if errors.Is(err, r.errno) {
			return &RefusedError{ByContent: r.byContent, Advice: r.advice, Err: err}
		}
	}
	return err
}

// damage marks kernel errors as [ErrCorrupt] if only the archive can cause them, on any file system: a name that
// already exists, byte for byte, or a file that is used as a folder. parent is the open folder in which the entry was
// to be created, under that name.
func damage(err error, parent int, name string) error {
	isDamage := errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTDIR)
	if errors.Is(err, unix.EEXIST) {
		isDamage = holds(parent, name)
	}
	if isDamage && !errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}

// holds reports whether an open folder lists exactly this name. Opening the name would not show that: a file system
// that folds names also opens files with similar names.
func holds(folder int, name string) bool {
	fd, err := unix.Openat(folder, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	buf := make([]byte, 64<<10)
	for {
		n, err := unix.Getdents(fd, buf)
		if err != nil || n <= 0 {
			return false
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, found := range names {
			if found == name {
				return true
			}
		}
	}
}
