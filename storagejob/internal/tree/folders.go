package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
)

// folders is the chain of open folders from the top of the staging tree to the folder of the last entry. Every folder
// is opened through its parent's descriptor and never through a symlink, so that no name in an archive can lead out of
// the tree. Paths may therefore be longer than the kernel accepts in one call.
//
// A folder's attributes are set after the chain has left it and its last file was written: creating an entry changes
// the folder's time, and the folder's mode may forbid creating entries. A chain needs one open file per folder, so the
// depth of a tree is bounded by the limit of open files.
//
// Only the goroutine that reads the stream uses a chain; the writers use its folders.
type folders struct {
	top     *folder // of the tree, held by the caller
	open    []*folder
	writers *writers
}

// folder is an open folder.
type folder struct {
	name  string
	fd    int
	attrs *attrs.Attributes // to set at the end; nil if only the time is restored
	mtime time.Time         // the time to restore if attrs is nil
	users atomic.Int32      // the chain, and each unwritten file in it
}

func newFolder(name string, fd int) *folder {
	f := &folder{name: name, fd: fd}
	f.hold()
	return f
}

// hold keeps the folder open until release is called.
func (f *folder) hold() { f.users.Add(1) }

// release closes the folder when it has no more users. It sets the folder's attributes first, unless the unpacking has
// failed.
func (f *folder) release(count *Counter, failed bool) error {
	if f.users.Add(-1) > 0 {
		return nil
	}
	defer unix.Close(f.fd)
	var err error
	switch {
	case failed:
	case f.attrs != nil:
		var skipped int
		skipped, err = f.attrs.Apply(f.fd)
		count.Skipped.Add(int64(skipped))
	default:
		err = attrs.SetModTime(f.fd, f.mtime)
	}
	if err != nil {
		return fmt.Errorf("folder %q: %w", f.name, err)
	}
	return nil
}

// last returns the innermost folder, in which the next entry is created.
func (f *folders) last() *folder {
	if len(f.open) == 0 {
		return f.top
	}
	return f.open[len(f.open)-1]
}

// enter makes parts the chain: it leaves the folders that are not in parts and opens the others. It creates missing
// folders, because other tar programs may omit their entries.
func (f *folders) enter(parts []string) error {
	// Keep the folders that both chains share: the entries of a folder follow one another.
	same := 0
	for same < len(parts) && same < len(f.open) && f.open[same].name == parts[same] {
		same++
	}
	if err := f.leave(same); err != nil {
		return err
	}
	for _, name := range parts[same:] {
		err := unix.Mkdirat(f.last().fd, name, 0o755)
		if errors.Is(err, unix.EEXIST) {
			// The existing name may belong to a folder whose time is not set yet, or to a file that was just created.
			err = f.writers.drain()
		}
		if err != nil {
			return fmt.Errorf("creating folder %q: %w", name, err)
		}
		fd, err := openFolder(f.last().fd, name)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return fmt.Errorf("reading folder %q: %w", name, err)
		}
		opened := newFolder(name, fd)
		opened.mtime = time.Unix(st.Mtim.Unix())
		f.open = append(f.open, opened)
	}
	return nil
}

// leave gives up all but the outermost keep folders of the chain, innermost first.
func (f *folders) leave(keep int) error {
	for len(f.open) > keep {
		last := f.last()
		f.open = f.open[:len(f.open)-1]
		if err := last.release(f.writers.count, f.writers.haveFailed()); err != nil {
			return err
		}
	}
	return nil
}

// abandon closes all folders without setting attributes, after an error or at the end. The writers must have stopped.
func (f *folders) abandon() {
	for _, open := range slices.Backward(f.open) {
		unix.Close(open.fd)
	}
	f.open = nil
}

// find opens an existing folder by its path from the top, without changing the chain. The caller closes it.
func (f *folders) find(parts []string) (int, error) {
	fd, err := unix.FcntlInt(uintptr(f.top.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	for _, name := range parts {
		next, err := openFolder(fd, name)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// openFolder opens a folder inside an open one. If the name does not exist or belongs to anything else, such as a
// symlink, the error is ErrCorrupt, because the archive named it. The error is EEXIST if the file system confuses the
// name with that of another file.
func openFolder(parent int, name string) (int, error) {
	fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	isOther := errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
	switch {
	case isOther && !holds(parent, name):
		return -1, fmt.Errorf("opening folder %q: %w", name, unix.EEXIST)
	case errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOENT):
		return -1, fmt.Errorf("%q is used as a folder and is not one: %w", name, ErrCorrupt)
	case err != nil:
		return -1, fmt.Errorf("opening folder %q: %w", name, err)
	}
	return fd, nil
}

// components splits a name in an archive at its slashes; the root has no components. Names that lead out of the tree
// ("..", absolute paths), ambiguous names and the reserved name are ErrCorrupt. A name may start with "./", which tar
// programs write.
func components(name, reserved string) ([]string, error) {
	rest := strings.TrimSuffix(name, "/")
	if rest == "." {
		return nil, nil
	}
	parts := strings.Split(strings.TrimPrefix(rest, "./"), "/")
	bad := func(p string) bool {
		return p == "" || p == "." || p == ".." || len(p) > 255 || strings.ContainsRune(p, 0)
	}
	if slices.ContainsFunc(parts, bad) {
		return nil, fmt.Errorf("the name %q leads out of the volume or is invalid: %w", name, ErrCorrupt)
	}
	if parts[0] == reserved {
		return nil, fmt.Errorf("the name %q is reserved: %w", name, ErrCorrupt)
	}
	return parts, nil
}
