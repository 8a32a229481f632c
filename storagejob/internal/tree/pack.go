package tree

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
	"github.com/codehub/gateway/storagejob/internal/pax"
)

// readBatch is how many names of a folder are in memory at the same time. A folder may contain millions.
const readBatch = 1024

// zeros is used as the content of holes and as padding for blocks.
var zeros [holeSize]byte

// Pack writes the folder dir as a tar stream to w, its headers also to headers, and adds to count. A folder comes
// before its content. Pack leaves out the staging folder and the mark of that operation's restore. It never follows a
// symlink. Its memory is bounded, except for one map entry per file with hard links that are not all packed yet.
//
// A file that changes or disappears while it is packed is ErrChanged: only the job may write to the volume, and the
// archive would hold a state that never existed. After an error the stream is incomplete, so that no reader accepts it
// as an archive. When ctx ends, the error is its cause.
func Pack(ctx context.Context, dir, operation string, w, headers io.Writer, count *Counter) error {
	root, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	p := &packer{ctx: ctx, staging: StagingName(operation), out: w, headers: headers, count: count,
		links: make(map[inode]*linked), buf: make([]byte, copyBuffer)}
	if err := p.folder(root, "./"); err != nil {
		return err
	}
	return p.write(zeros[:2*pax.BlockSize]) // the end of the archive
}

// inode identifies a file independently of its names.
type inode struct{ dev, ino uint64 }

// linked is a file with several names. The first name is packed with the content; each further one becomes a hard link
// to it.
type linked struct {
	name string
	left uint64 // names not seen yet
}

// packer is the state of one Pack. One goroutine uses it.
type packer struct {
	ctx     context.Context
	staging string // left out
	out     io.Writer
	headers io.Writer
	sparse  int // number of sparse files so far
	count   *Counter
	links   map[inode]*linked
	head    []byte             // a file's header
	buf     []byte             // a file's content
	target  [unix.PathMax]byte // of a symlink
}

// header packs a header.
func (p *packer) header(h *tar.Header) (err error) {
	p.head, err = pax.AppendHeader(p.head[:0], h)
	return p.headed(h, err)
}

// headed packs the header in head, unless building it has failed.
func (p *packer) headed(h *tar.Header, err error) error {
	if err != nil {
		return fmt.Errorf("packing %q: %w", h.Name, err)
	}
	if _, err := p.headers.Write(p.head); err != nil {
		return fmt.Errorf("writing the list of packed entries: %w", err)
	}
	return p.write(p.head)
}

// write writes to the stream.
func (p *packer) write(b []byte) error {
	if _, err := p.out.Write(b); err != nil {
		return fmt.Errorf("writing the archive: %w", err)
	}
	return nil
}

// folder packs an open folder, whose name ends in "/", and everything below it. It closes fd.
func (p *packer) folder(fd int, name string) error {
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var before, after unix.Stat_t
	if err := unix.Fstat(fd, &before); err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	extended, err := attrs.Extended(fd)
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	if name == "./" {
		delete(extended, markName)
	}
	h := attrs.Header(name, &before, extended)
	h.Typeflag = tar.TypeDir
	if err := p.header(h); err != nil {
		return err
	}
	for {
		names, err := f.Readdirnames(readBatch)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("listing %q: %w", name, err)
		}
		for _, child := range names {
			if name == "./" && child == p.staging {
				continue
			}
			if err := p.entry(fd, child, name+child); err != nil {
				return err
			}
		}
	}
	if err := unix.Fstat(fd, &after); err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	// A folder's time changes when a name is added or removed: the list may be incomplete.
	if !sameFile(&before, &after) {
		return &ChangedError{name, fmt.Errorf("folder %q: %w", name, ErrChanged)}
	}
	return nil
}

// entry packs one name of an open folder; full is its name in the archive. It counts and skips sockets, fifos and
// devices: only the program that created such a file can use it.
func (p *packer) entry(parent int, child, full string) error {
	if err := p.ctx.Err(); err != nil {
		return context.Cause(p.ctx)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(parent, child, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return vanished(full, err)
	}
	kind := st.Mode & unix.S_IFMT
	switch kind {
	case unix.S_IFREG, unix.S_IFDIR, unix.S_IFLNK:
		p.count.Files.Add(1)
	default:
		p.count.Skipped.Add(1)
		return nil
	}
	if kind != unix.S_IFDIR && st.Nlink > 1 {
		if done, err := p.link(full, &st); done || err != nil {
			return err
		}
	}
	switch kind {
	case unix.S_IFDIR:
		fd, err := openAt(parent, child, unix.O_DIRECTORY)
		if err != nil {
			return vanished(full, err)
		}
		return p.folder(fd, full+"/")
	case unix.S_IFLNK:
		// The kernel allows only privileged attributes on symlinks, and those are not kept.
		n, err := unix.Readlinkat(parent, child, p.target[:])
		if err != nil {
			return vanished(full, err)
		}
		h := attrs.Header(full, &st, nil)
		h.Typeflag, h.Linkname = tar.TypeSymlink, string(p.target[:n])
		return p.header(h)
	default:
		return p.file(parent, child, full, &st)
	}
}

// link packs a name of a file with several names. For the first name, it only records the name and reports false. For
// every further name, it packs a hard link.
func (p *packer) link(full string, st *unix.Stat_t) (done bool, err error) {
	key := inode{st.Dev, st.Ino}
	first, ok := p.links[key]
	if !ok {
		p.links[key] = &linked{name: full, left: uint64(st.Nlink) - 1}
		return false, nil
	}
	if first.left--; first.left == 0 {
		delete(p.links, key)
	}
	h := attrs.Header(full, st, nil)
	h.Typeflag, h.Linkname = tar.TypeLink, first.name
	return true, p.header(h)
}

// file packs a regular file. It fails with ErrChanged unless seen describes the file both before and after it is read.
func (p *packer) file(parent int, child, full string, seen *unix.Stat_t) error {
	fd, err := openAt(parent, child, unix.O_NONBLOCK)
	if err != nil {
		return vanished(full, err)
	}
	defer unix.Close(fd)
	extended, err := attrs.Extended(fd)
	if err != nil {
		return fmt.Errorf("reading %q: %w", full, err)
	}
	h := attrs.Header(full, seen, extended)
	h.Typeflag, h.Size = tar.TypeReg, seen.Size
	whole := extent(0, seen.Size)
	data := []pax.Extent{whole}
	if seen.Size >= minHole && seen.Blocks*512 < seen.Size {
		if data, err = dataOf(p.ctx, fd, seen.Size); err != nil {
			return err
		}
	}
	if seen.Size > 0 && !slices.Equal(data, []pax.Extent{whole}) {
		err = p.sparseFile(fd, h, data)
	} else if err = p.header(h); err == nil {
		err = p.content(fd, full, data)
	}
	if err != nil {
		return err
	}
	var after unix.Stat_t
	if err := unix.Fstat(fd, &after); err != nil {
		return fmt.Errorf("reading %q: %w", full, err)
	}
	if !sameFile(seen, &after) {
		return &ChangedError{full, fmt.Errorf("file %q: %w", full, ErrChanged)}
	}
	return nil
}

// sparseFile packs a regular file with holes: h describes it, and data lists the parts that are not holes.
func (p *packer) sparseFile(fd int, h *tar.Header, data []pax.Extent) error {
	p.sparse++
	head, err := pax.AppendSparseHeader(p.head[:0], h, data, p.sparse)
	p.head = head
	if err := p.headed(h, err); err != nil {
		return err
	}
	if err := p.content(fd, h.Name, data); err != nil {
		return err
	}
	holes := h.Size
	for _, part := range data {
		holes -= part.Length
	}
	p.count.Bytes.Add(holes)
	p.count.Holes.Add(holes)
	return nil
}

// content packs exactly these parts of a file, as announced in its header, and pads their last block.
func (p *packer) content(fd int, full string, parts []pax.Extent) error {
	size := int64(0)
	for _, part := range parts {
		size += part.Length
		for offset := part.Offset; offset < part.End(); {
			if err := p.ctx.Err(); err != nil {
				return context.Cause(p.ctx)
			}
			n, err := unix.Pread(fd, p.buf[:min(int64(len(p.buf)), part.End()-offset)], offset)
			if err != nil {
				return fmt.Errorf("reading %q: %w", full, err)
			}
			if n == 0 {
				return &ChangedError{full, fmt.Errorf("file %q shrank to %d bytes: %w", full, offset, ErrChanged)}
			}
			if err := p.write(p.buf[:n]); err != nil {
				return err
			}
			offset += int64(n)
			p.count.Bytes.Add(int64(n))
		}
	}
	return p.write(zeros[:pax.Padding(size)])
}

// openAt opens a name of an open folder for reading. It does not follow a symlink and, if the kernel allows it, does
// not change the access time.
func openAt(parent int, child string, flags int) (int, error) {
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, child, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		fd, err = unix.Openat(parent, child, flags, 0)
	}
	return fd, err
}

// vanished returns the error for a file that was just listed and cannot be opened: ErrChanged if it was removed or
// replaced in the meantime.
func vanished(full string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return &ChangedError{full, fmt.Errorf("%q: %w: %w", full, ErrChanged, err)}
	}
	return fmt.Errorf("reading %q: %w", full, err)
}

// sameFile reports whether a file's content and attributes are the same at two times. A program cannot set ctime, so no
// change goes unnoticed.
func sameFile(a, b *unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mode == b.Mode && a.Mtim == b.Mtim &&
		a.Ctim == b.Ctim
}
