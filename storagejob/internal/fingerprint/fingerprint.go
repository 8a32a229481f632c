// Package fingerprint tells whether anything in a folder has changed, without reading the
// content of a file.
//
// It relies on the change time (ctime). The kernel sets it at every change of a file's content,
// attributes, names and links, and no program can set it. It owns the decision where that can be
// relied on. Where it cannot, there is no fingerprint.
//
// A power cut loses change times that content has outlived: fdatasync writes content to the disk, and
// need not write times. So a fingerprint is only that of one mount of a file system under one boot of
// a kernel (SPEC 12.15). As long as that mount lives, no change time was lost and no other machine has
// written to the file system.
package fingerprint

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

const (
	// version begins every fingerprint. Another way to compute it needs another one. Those that begin
	// with "1:" name no boot and no mount: they prove nothing.
	version = "2:"
	// tick is more than the time for which the kernel's coarse clock, from which change
	// times are taken, stands still. Two changes in one tick have the same time.
	tick = 10 * time.Millisecond
	// maxWait is how long [Of] waits for the last change to be a tick ago. A longer wait
	// means that the file system has another clock, or that a program writes.
	maxWait = 100 * time.Millisecond
	// walkers is how many folders are walked at the same time. It does not depend on the number
	// of processors, so that the job takes no more memory on a large machine.
	walkers = 4
	// readBatch is how many names of a folder are in memory at the same time.
	readBatch = 1024
)

// Of returns a text that identifies the present state of a folder and everything below it, except
// the entry skip at its top. It covers names, types, sizes, modes, owners, modification and change
// times. It also covers inode numbers, device files, numbers of links, and link targets. A change of
// content or of an extended attribute shows in the change time: reading the attributes would take
// as long as all the rest. It also covers the kernel's boot and the mount of the file system.
//
// It is "" where a later change might not show: see package comment. It is so on a file system with
// coarse times, where the mount cannot be told from a later one, and when a change is less than a tick
// ago or in the future. It is "" as well when the folder holds another file system.
//
// If the folder itself was changed just now, as at the end of a restore, Of waits until a tick has
// passed. That is at most 100 ms. Memory does not grow with the folder.
func Of(ctx context.Context, dir, skip string) (string, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("opening %s: %w", dir, err)
	}
	root := os.NewFile(uintptr(fd), dir)
	defer root.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", fmt.Errorf("looking at %s: %w", dir, err)
	}
	mount := system.mount(fd, st.Dev)
	if mount == "" {
		return "", nil
	}
	began, err := settled(ctx, &st)
	if err != nil {
		return "", err
	}
	w := newWalk(ctx, st.Dev)
	w.group.Go(func() error { return w.folder(root, "", skip, &st) })
	if err := w.group.Wait(); err != nil {
		return "", err
	}
	if w.foreign || w.coarse() || w.newest > began-int64(tick) {
		return "", nil
	}
	sum := sha256.Sum256(appendText(binary.LittleEndian.AppendUint64(w.sum.bytes(), w.entries), mount))
	return version + hex.EncodeToString(sum[:]), nil
}

// settled waits until the change time of a folder is a tick ago, but not for longer than maxWait.
// It returns the time by the clock from which change times are taken.
func settled(ctx context.Context, st *unix.Stat_t) (now int64, err error) {
	for deadline := time.Now().Add(maxWait); ; {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
			return 0, fmt.Errorf("reading the clock: %w", err)
		}
		now = ts.Nano()
		left := time.Duration(st.Ctim.Nano() - now + int64(tick))
		if left <= 0 || time.Until(deadline) <= 0 {
			return now, nil
		}
		select {
		case <-time.After(min(left, time.Until(deadline))):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

// found is what there is in some folders.
type found struct {
	sum     total
	entries uint64
	newest  int64 // change time, in nanoseconds
	fine    bool  // a change time has nanoseconds
	foreign bool  // an entry is on another file system
}

// coarse reports whether no change time has a fraction of a second, as where inodes have
// no room for it.
func (f *found) coarse() bool { return !f.fine }

// walk adds up a folder and everything below it, with several walkers.
type walk struct {
	ctx   context.Context
	dev   uint64
	group *errgroup.Group

	mu sync.Mutex // guards found until all walkers are done
	found
}

func newWalk(ctx context.Context, dev uint64) *walk {
	w := &walk{dev: dev}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(walkers)
	return w
}

// folder adds an open folder with a walker of its own; st, if any, describes the folder itself.
func (w *walk) folder(f *os.File, name, skip string, st *unix.Stat_t) error {
	r := walker{walk: w}
	if st != nil {
		if err := r.entry(int(f.Fd()), ".", "", st); err != nil {
			return err
		}
	}
	if err := r.folder(f, name, skip); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sum.add(r.sum)
	w.entries += r.entries
	w.newest = max(w.newest, r.newest)
	w.fine = w.fine || r.fine
	w.foreign = w.foreign || r.foreign
	return nil
}

// walker adds up folders. One goroutine uses it.
type walker struct {
	walk *walk
	found

	record []byte
	target [unix.PathMax]byte // of a link
}

// folder adds what an open folder holds; name is its name with a slash at its end, and ""
// for the root.
func (w *walker) folder(f *os.File, name, skip string) error {
	for {
		names, err := f.Readdirnames(readBatch)
		for _, child := range names {
			if child == skip {
				continue
			}
			if w.walk.ctx.Err() != nil {
				return context.Cause(w.walk.ctx)
			}
			if err := w.child(int(f.Fd()), child, name+child); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF) || err == nil && len(names) == 0:
			return nil
		case err != nil:
			return fmt.Errorf("listing %q: %w", name, err)
		}
	}
}

// child adds one name of an open folder and, if it is a folder, what it holds.
func (w *walker) child(parent int, child, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(parent, child, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("looking at %q: %w", name, err)
	}
	if err := w.entry(parent, child, name, &st); err != nil {
		return fmt.Errorf("looking at %q: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || w.foreign {
		return nil
	}
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Openat(parent, child, flags|unix.O_NOATIME, 0)
	if errors.Is(err, unix.EPERM) {
		fd, err = unix.Openat(parent, child, flags, 0)
	}
	if err != nil {
		return fmt.Errorf("opening %q: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	if w.walk.group.TryGo(func() error {
		defer f.Close()
		return w.walk.folder(f, name+"/", "", nil)
	}) {
		return nil
	}
	defer f.Close()
	return w.folder(f, name+"/", "")
}

// entry adds what is known of one file, whatever its type.
func (w *walker) entry(parent int, child, name string, st *unix.Stat_t) error {
	w.entries++
	w.foreign = w.foreign || st.Dev != w.walk.dev
	w.newest = max(w.newest, st.Ctim.Nano())
	w.fine = w.fine || st.Ctim.Nsec != 0
	r := w.record[:0]
	for _, n := range []uint64{
		st.Ino, uint64(st.Mode), uint64(st.Nlink), uint64(st.Uid), uint64(st.Gid), st.Rdev, uint64(st.Size),
		uint64(st.Mtim.Sec), uint64(st.Mtim.Nsec), uint64(st.Ctim.Sec), uint64(st.Ctim.Nsec),
	} {
		r = binary.LittleEndian.AppendUint64(r, n)
	}
	r = appendText(r, name)
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		n, err := unix.Readlinkat(parent, child, w.target[:])
		if err != nil {
			return err
		}
		r = appendText(r, w.target[:n])
	}
	w.record = r
	w.sum.add(checksum(sha256.Sum256(r)))
	return nil
}

// appendText appends a text with its length, so that two texts never look like others.
func appendText[T string | []byte](r []byte, s T) []byte {
	return append(binary.LittleEndian.AppendUint64(r, uint64(len(s))), s...)
}

// total is a sum of checksums modulo 2^256, which is the same in whatever order they are added. So
// the order of a folder's listing does not matter, and none is sorted in memory.
type total [4]uint64

// checksum is one as a number.
func checksum(sum [sha256.Size]byte) (t total) {
	for i := range t {
		t[i] = binary.LittleEndian.Uint64(sum[8*i:])
	}
	return t
}

// add adds another sum.
func (t *total) add(other total) {
	var carry uint64
	for i := range t {
		t[i], carry = bits.Add64(t[i], other[i], carry)
	}
}

// bytes is the sum as text.
func (t *total) bytes() []byte {
	var b []byte
	for _, n := range t {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}
