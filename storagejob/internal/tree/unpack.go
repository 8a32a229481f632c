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

	"github.com/codehub/gateway/storagejob/internal/attrs"
	"github.com/codehub/gateway/storagejob/internal/pax"
)

// holeSize is the unit, in bytes, in which zeros become holes: the usual block size of a file system.
const holeSize = 4 << 10

// copyBuffer is how much of a large file is read and written at once, in bytes.
const copyBuffer = 256 << 10

// writeAhead is how much of a large file is written before the kernel is asked to start flushing it to disk, while the
// rest is still being read.
const writeAhead = 8 << 20

// unpacker creates the entries of a tar stream below an open, empty folder. It trusts nothing in the stream. One
// goroutine uses it, and its writers create the small files.
type unpacker struct {
	ctx      context.Context
	folders  folders
	writers  *writers
	flusher  *flusher
	count    *Counter
	buf      []byte
	root     *attrs.Attributes // of the "./" entry, if there was one
	reserved string            // a name that no entry may have
	limit    int64             // of the stream, and of count.Bytes
	room     room
}

// unpack reads r to its end. Errors caused by the stream's content are ErrCorrupt. Errors returned by r itself are also
// in the chain, so that the caller can tell a broken archive from a broken connection. Nothing is written after it
// returns.
func (u *unpacker) unpack(r io.Reader) error {
	defer u.folders.abandon()
	stream := pax.NewReader(&boundedReader{r: r, limit: u.limit, left: u.limit})
	err := u.entries(stream)
	if err == nil {
		err = u.folders.leave(0)
	}
	// Entries that a writer still has come before the entries read since, so an error with them is returned first.
	if failed := u.writers.stop(); failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if err := stream.Finish(); err != nil {
		return fmt.Errorf("reading the archive to its end: %w: %w", ErrCorrupt, err)
	}
	return nil
}

// entries creates all entries, until a writer fails.
func (u *unpacker) entries(tr *pax.Reader) error {
	for !u.writers.haveFailed() {
		if u.ctx.Err() != nil {
			return context.Cause(u.ctx)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the archive: %w: %w", ErrCorrupt, err)
		}
		if err := u.entry(tr, h); err != nil {
			return fmt.Errorf("unpacking %q: %w", h.Name, err)
		}
	}
	return nil // the writers have the error
}

// entry creates one entry. Its folder becomes the innermost of the chain. Entries of the same folder follow one
// another, so they need not open it again. Types that Pack does not write, such as devices, are ErrCorrupt.
func (u *unpacker) entry(tr *pax.Reader, h *tar.Header) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // comments by other programs
	}
	parts, err := components(h.Name, u.reserved)
	if err != nil {
		return err
	}
	if _, err := attrs.Times(h.ModTime); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if len(parts) == 0 {
		if h.Typeflag != tar.TypeDir {
			return fmt.Errorf("the root is not a folder: %w", ErrCorrupt)
		}
		root := attrs.FromHeader(h)
		root.Drop(markName)
		u.root = &root
		return nil
	}
	if err := u.room.take(entryRoom); err != nil {
		return err
	}
	if !isOwner(h.Uid) || !isOwner(h.Gid) {
		return fmt.Errorf("the owner %d:%d is invalid: %w", h.Uid, h.Gid, ErrCorrupt)
	}
	u.count.Files.Add(1)
	if h.Typeflag == tar.TypeDir {
		if err := u.folders.enter(parts); err != nil {
			return err
		}
		of := attrs.FromHeader(h)
		u.folders.open[len(parts)-1].attrs = &of
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
	return damage(err, u.folders.last().fd, name)
}

// isOwner reports whether a number can be a user or a group. The largest number tells the kernel to keep the owner.
func isOwner(id int) bool { return id >= 0 && int64(id) < 1<<32-1 }

// createFile creates a regular file in an open folder. O_EXCL refuses an existing name, so an archive cannot write
// through a symlink or a hard link that an earlier entry has created.
func createFile(parent int, name string) (int, error) {
	return unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
}

// file creates a regular file, or hands it to the writers.
func (u *unpacker) file(tr *pax.Reader, h *tar.Header, name string) error {
	// A sparse file may be far larger than its part of the stream, so the limit of the stream alone does not bound it.
	// Holes count: see Limits.
	if h.Size > u.limit-u.count.Bytes.Load() {
		return fmt.Errorf("%w: %w", ErrCorrupt, tooLarge(u.limit))
	}
	data, isSparse := tr.Sparse()
	if h.Size <= batchBytes && !isSparse {
		return u.small(tr, h, name)
	}
	fd, err := createFile(u.folders.last().fd, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	size, err := int64(0), error(nil)
	if isSparse {
		size, err = u.sparse(tr.Data(), data, fd, h.Size)
	} else {
		size, err = u.content(tr, fd, 0)
	}
	if err != nil {
		return err
	}
	if size != h.Size {
		return fmt.Errorf("%d of %d bytes: %w", size, h.Size, ErrCorrupt)
	}
	skipped, err := attrs.FromHeader(h).Apply(fd)
	u.count.Skipped.Add(int64(skipped))
	return err
}

// small reads a file of at most batchBytes bytes for the writers.
func (u *unpacker) small(tr *pax.Reader, h *tar.Header, name string) error {
	if err := u.room.take(h.Size); err != nil {
		return err
	}
	n, err := io.ReadFull(tr, u.writers.buffer(int(h.Size)))
	u.count.Bytes.Add(int64(n))
	if err != nil {
		return fmt.Errorf("reading the archive: %w: %w", ErrCorrupt, err)
	}
	f := smallFile{parent: u.folders.last(), name: name, full: h.Name, size: n, attrs: attrs.FromHeader(h)}
	for key, value := range h.PAXRecords {
		f.records += len(key) + len(value)
	}
	u.writers.add(f)
	u.flusher.wrote(u.count.Bytes.Load())
	return nil
}

// content writes everything from r at the offset size, with holes instead of whole blocks of zeros, and returns the end
// offset. It checks the free space as it writes; holes need none.
func (u *unpacker) content(r io.Reader, fd int, size int64) (end int64, err error) {
	hole, begun := false, size
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
		if size-begun >= writeAhead {
			// Only a hint: Commit waits for the disk and sees its errors.
			_ = unix.SyncFileRange(fd, begun, size-begun, unix.SYNC_FILE_RANGE_WRITE)
			begun = size
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if errors.Is(readErr, io.ErrUnexpectedEOF) && n > 0 && n < len(u.buf) {
			// Either the file or the stream ends here. The next read shows which, and the caller compares the size.
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
	// A hole at the end was not written, so the file is still too short by its size.
	if hole {
		if err := unix.Ftruncate(fd, size); err != nil {
			return size, err
		}
	}
	return size, nil
}

// sparse writes the data of a sparse file of this size according to its map, and returns the resulting size.
func (u *unpacker) sparse(r io.Reader, data []pax.Extent, fd int, size int64) (int64, error) {
	holes := size
	for _, part := range data {
		end, err := u.content(io.LimitReader(r, part.Length), fd, part.Offset)
		if err != nil {
			return end, err
		}
		if end != part.End() {
			return end, fmt.Errorf("reading the archive: %w: %w", ErrCorrupt, io.ErrUnexpectedEOF)
		}
		holes -= part.Length
	}
	u.count.Bytes.Add(holes)
	u.count.Holes.Add(holes)
	// The file may end with a hole.
	return size, unix.Ftruncate(fd, size)
}

// extentOf returns the length of the first run of blocks that are all zero or all non-zero, and whether they are zero.
// The last block may be incomplete.
func extentOf(chunk []byte) (run int, empty bool) {
	for run < len(chunk) {
		block := chunk[run:min(run+holeSize, len(chunk))]
		isZero := block[0] == 0 && bytes.Equal(block, zeros[:len(block)])
		if run == 0 {
			empty = isZero
		} else if isZero != empty {
			break
		}
		run += len(block)
	}
	return run, empty
}

// writeAt writes all of p at the offset, in as many calls as necessary.
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

// symlink creates a symlink with its owner and time. It may point anywhere: the target is the user's data, and this
// package never follows it.
func (u *unpacker) symlink(h *tar.Header, name string) error {
	parent := u.folders.last().fd
	ts, err := attrs.Times(h.ModTime)
	if err != nil {
		return err
	}
	if h.Linkname == "" || len(h.Linkname) >= unix.PathMax || strings.ContainsRune(h.Linkname, 0) {
		return fmt.Errorf("the target of a symlink, of %d bytes, is not a path: %w", len(h.Linkname), ErrCorrupt)
	}
	if err := unix.Symlinkat(h.Linkname, parent, name); err != nil {
		return err
	}
	if err := unix.Fchownat(parent, name, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("setting the owner: %w", err)
	}
	return unix.UtimesNanoAt(parent, name, ts, unix.AT_SYMLINK_NOFOLLOW)
}

// link creates a hard link to an earlier file of the same archive. The target is looked up like a folder, one component
// at a time and without following symlinks, so it cannot be a file outside.
func (u *unpacker) link(h *tar.Header, name string) error {
	parts, err := components(h.Linkname, u.reserved)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		return fmt.Errorf("a hard link to the root: %w", ErrCorrupt)
	}
	// A writer may still have the file.
	if err := u.writers.drain(); err != nil {
		return err
	}
	from, err := u.folders.find(parts[:len(parts)-1])
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to := parts[len(parts)-1]
	err = unix.Linkat(from, to, u.folders.last().fd, name, 0)
	// The kernel returns the same error for a folder and for a file system without hard links.
	var st unix.Stat_t
	isFolder := errors.Is(err, unix.EPERM) && unix.Fstatat(from, to, &st, unix.AT_SYMLINK_NOFOLLOW) == nil &&
		st.Mode&unix.S_IFMT == unix.S_IFDIR
	if errors.Is(err, unix.ENOENT) || isFolder {
		return fmt.Errorf("a hard link to %q, which is not an earlier file: %w: %w", h.Linkname, ErrCorrupt, err)
	}
	return err
}
