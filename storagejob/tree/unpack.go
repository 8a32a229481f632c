package tree

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/sys/unix"
)

// holeSize is the unit, in bytes, in which zeros become holes: the usual block size of a
// file system.
const holeSize = 4 << 10

// unpacker creates the entries of a tar stream below an open, empty folder. It trusts
// nothing in the stream. One goroutine uses it.
type unpacker struct {
	ctx     context.Context
	folders folders
	count   *Counter
	buf     []byte
	root    *attributes // of the "./" entry, if there was one
	limit   int64       // of the stream, and of count.Bytes
	room    room
}

// unpack reads r to its end. Errors that come from the stream's content are
// ErrCorrupt; errors that r itself returned are in the chain too, so that the
// caller can tell a broken archive from a broken connection.
func (u *unpacker) unpack(r io.Reader) error {
	defer u.folders.abandon()
	r = &boundedReader{r: r, limit: u.limit, left: u.limit}
	tr := tar.NewReader(r)
	for {
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w: %w", ErrCorrupt, err)
		}
		if err := u.entry(tr, h); err != nil {
			return fmt.Errorf("unpacking %q: %w", h.Name, err)
		}
	}
	if err := u.folders.leave(0); err != nil {
		return err
	}
	// Tar programs fill up the last block of the stream.
	if _, err := io.Copy(io.Discard, r); err != nil {
		return fmt.Errorf("reading the archive to its end: %w: %w", ErrCorrupt, err)
	}
	return nil
}

// entry creates one entry. Its folder becomes the innermost of the chain, so that
// entries of the same folder, which follow one another, do not open it again. Types
// that Pack does not write, such as devices, are ErrCorrupt.
func (u *unpacker) entry(tr *tar.Reader, h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // comments by other programs
	}
	parts, err := components(h.Name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("the root is not a folder: %w", ErrCorrupt)
		}
		root := attributesOf(h)
		u.root = &root
		return nil
	}
	if err := u.room.take(entryRoom); err != nil {
		return err
	}
	if !isOwner(h.Uid) || !isOwner(h.Gid) {
		return fmt.Errorf("the owner %d:%d is none: %w", h.Uid, h.Gid, ErrCorrupt)
	}
	u.count.Files.Add(1)
	if h.Typeflag == tar.TypeDir {
		if err := u.folders.enter(parts); err != nil {
			return err
		}
		attrs := attributesOf(h)
		u.folders.open[len(parts)-1].attrs = &attrs
		return nil
	}
	if err := u.folders.enter(parts[:len(parts)-1]); err != nil {
		return err
	}
	name := parts[len(parts)-1]
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		err = u.file(tr, h, name)
	case tar.TypeSymlink:
		err = u.symlink(h, name)
	case tar.TypeLink:
		err = u.link(h, name)
	default:
		err = fmt.Errorf("entries of type %q are not allowed: %w", h.Typeflag, ErrCorrupt)
	}
	return damage(err, u.folders.fd(), name)
}

// isOwner reports whether a number can be a user or a group. The kernel takes the largest
// one for "leave it".
func isOwner(id int) bool { return id >= 0 && int64(id) < 1<<32-1 }

// file creates a regular file. O_EXCL refuses a name that exists, so an archive cannot
// write through a symlink or a hard link that an earlier entry has created.
func (u *unpacker) file(tr *tar.Reader, h *tar.Header, name string) error {
	// A sparse file may be far larger than its part of the stream, so the limit of the
	// stream alone does not bound it.
	if h.Size > u.limit-u.count.Bytes.Load() {
		return fmt.Errorf("%w: %w", ErrCorrupt, tooLarge(u.limit))
	}
	fd, err := unix.Openat(u.folders.fd(), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	size, err := u.content(tr, fd)
	if err != nil {
		return err
	}
	if size != h.Size {
		return fmt.Errorf("%d of %d bytes: %w", size, h.Size, ErrCorrupt)
	}
	skipped, err := attributesOf(h).apply(fd)
	u.count.Skipped.Add(int64(skipped))
	return err
}

// content writes everything from r, with holes in place of whole blocks of zeros, and
// returns its size. It checks the free space as it writes; holes need none.
func (u *unpacker) content(r io.Reader, fd int) (size int64, err error) {
	hole := false
	for {
		n, readErr := io.ReadFull(r, u.buf)
		for chunk := u.buf[:n]; len(chunk) > 0; {
			run, empty := extentOf(chunk)
			if !empty {
				if err := u.room.take(int64(run)); err != nil {
					return size, err
				}
				if err := writeAt(fd, chunk[:run], size); err != nil {
					return size, err
				}
			}
			hole = empty
			size += int64(run)
			chunk = chunk[run:]
		}
		u.count.Bytes.Add(int64(n))
		if errors.Is(readErr, io.EOF) {
			break
		}
		if errors.Is(readErr, io.ErrUnexpectedEOF) && n > 0 && n < len(u.buf) {
			// Either the file or the stream ends here. The next read shows which, and the
			// caller compares the size.
			if _, readErr = r.Read(u.buf[:1]); errors.Is(readErr, io.EOF) {
				break
			}
		}
		if readErr != nil {
			return size, fmt.Errorf("reading the archive: %w: %w", ErrCorrupt, readErr)
		}
		if u.ctx.Err() != nil {
			return size, context.Cause(u.ctx)
		}
	}
	// A hole at the end was not written, so the file is too short by it.
	if hole {
		if err := unix.Ftruncate(fd, size); err != nil {
			return size, err
		}
	}
	return size, nil
}

// extentOf returns the length of the first run of blocks that are all zeros, or all
// not, and which of the two it is. An incomplete block at the end counts as data.
func extentOf(chunk []byte) (run int, empty bool) {
	for run < len(chunk) {
		block := chunk[run:min(run+holeSize, len(chunk))]
		isZero := len(block) == holeSize && block[0] == 0 && bytes.Equal(block, zeros[:holeSize])
		if run == 0 {
			empty = isZero
		} else if isZero != empty {
			break
		}
		run += len(block)
	}
	return run, empty
}

// writeAt writes all of p at the offset, however many calls that takes.
func writeAt(fd int, p []byte, offset int64) error {
	for len(p) > 0 {
		n, err := unix.Pwrite(fd, p, offset)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		p, offset = p[n:], offset+int64(n)
	}
	return nil
}

// symlink creates a symlink with its owner and time. It may point anywhere: the target
// is the user's data, and this package never follows it.
func (u *unpacker) symlink(h *tar.Header, name string) error {
	parent := u.folders.fd()
	ts, err := timespecs(h.ModTime)
	if err != nil {
		return err
	}
	if h.Linkname == "" || len(h.Linkname) >= unix.PathMax || strings.ContainsRune(h.Linkname, 0) {
		return fmt.Errorf("a symlink to what no path can be, of %d bytes: %w", len(h.Linkname), ErrCorrupt)
	}
	if err := unix.Symlinkat(h.Linkname, parent, name); err != nil {
		return err
	}
	if err := unix.Fchownat(parent, name, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("setting the owner: %w", err)
	}
	return unix.UtimesNanoAt(parent, name, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// link creates a hard link to an earlier file of the same archive. The target is looked
// up like a folder, one component at a time and without following symlinks, so it
// cannot be a file outside.
func (u *unpacker) link(h *tar.Header, name string) error {
	parts, err := components(h.Linkname)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("a hard link to the root: %w", ErrCorrupt)
	}
	from, err := u.folders.find(parts[:len(parts)-1])
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to := parts[len(parts)-1]
	err = unix.Linkat(from, to, u.folders.fd(), name, 0)
	// The same error comes for a folder and from a file system without hard links.
	var st unix.Stat_t
	isFolder := errors.Is(err, unix.EPERM) && unix.Fstatat(from, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		st.Mode&unix.S_IFMT == unix.S_IFDIR
	if errors.Is(err, unix.ENOENT) || isFolder {
		return fmt.Errorf("a hard link to %q, which is not an earlier file: %w: %w", h.Linkname, ErrCorrupt, err)
	}
	return err
}
