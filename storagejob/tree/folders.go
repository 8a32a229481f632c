package tree

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// folders is the chain of open folders from the top of the staging tree to the folder
// of the last entry. Every folder is opened through the descriptor of its parent and
// never through a symlink, so no name in an archive can lead out of the tree. Paths may
// therefore be longer than the kernel accepts in one call.
//
// A folder's attributes are set when the chain leaves it, because creating an entry
// changes the time of its folder, and because its mode may forbid creating entries. A
// chain has as many open files as folders, so the depth of a tree is bounded by the
// limit of open files.
type folders struct {
	top   int // descriptor of the tree, not owned
	open  []folder
	count *Counter
}

// folder is one open folder of the chain.
type folder struct {
	name  string
	fd    int
	attrs *attributes // to set on leaving; nil if only the time is to be restored
	mtime time.Time   // the time to restore if attrs is nil
}

// fd returns the descriptor of the innermost folder, in which the next entry is made.
func (f *folders) fd() int {
	if len(f.open) == 0 {
		return f.top
	}
	return f.open[len(f.open)-1].fd
}

// enter makes parts the chain: it leaves the folders that are not among them and opens
// the others. It creates folders that do not exist, because other tar programs may
// leave out their entries.
func (f *folders) enter(parts []string) error {
	// Keep the folders that both chains share: entries of one folder follow one another.
	same := 0
	for same < len(parts) && same < len(f.open) && f.open[same].name == parts[same] {
		same++
	}
	if err := f.leave(same); err != nil {
		return err
	}
	for _, name := range parts[same:] {
		err := unix.Mkdirat(f.fd(), name, 0o755)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("creating folder %q: %w", name, err)
		}
		fd, err := openFolder(f.fd(), name)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return fmt.Errorf("reading folder %q: %w", name, err)
		}
		f.open = append(f.open, folder{name: name, fd: fd, mtime: time.Unix(st.Mtim.Unix())})
	}
	return nil
}

// leave closes all but the outermost keep folders of the chain, innermost first.
func (f *folders) leave(keep int) error {
	for len(f.open) > keep {
		last := f.open[len(f.open)-1]
		f.open = f.open[:len(f.open)-1]
		var err error
		if last.attrs != nil {
			var skipped int
			skipped, err = last.attrs.apply(last.fd)
			f.count.Skipped.Add(int64(skipped))
		} else {
			err = setMtime(last.fd, last.mtime)
		}
		unix.Close(last.fd)
		if err != nil {
			return fmt.Errorf("folder %q: %w", last.name, err)
		}
	}
	return nil
}

// abandon closes everything without setting attributes, after an error or at the end.
func (f *folders) abandon() {
	for _, open := range slices.Backward(f.open) {
		unix.Close(open.fd)
	}
	f.open = nil
}

// find opens the folder parts from the top, which must exist, without changing
// the chain. The caller closes it.
func (f *folders) find(parts []string) (int, error) {
	fd, err := unix.FcntlInt(uintptr(f.top), unix.F_DUPFD_CLOEXEC, 0)
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

// openFolder opens a folder inside an open one. If the name belongs to anything else,
// such as a symlink, or does not exist, the error is ErrCorrupt: the archive named it. It
// is EEXIST if the file system only takes the name for that of another file.
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
