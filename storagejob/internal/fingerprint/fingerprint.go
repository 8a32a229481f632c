// Package fingerprint tells whether anything in a folder has changed, without reading the content of files.
//
// It relies on the change time (ctime), which the kernel sets at every change of a file's content, attributes, names
// and links, and which no program can set. It decides where the change time is reliable. Elsewhere there is no
// fingerprint.
//
// A power cut can lose a change time although the new content survives: fdatasync writes content to the disk, but not
// necessarily times. A fingerprint is therefore valid only for one mount of a file system under one boot of a kernel
// (SPEC 12.15). During that mount, no change time was lost and no other machine has written to the file system.
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
	// version begins every fingerprint. A different algorithm needs a different version. Fingerprints that begin with
	// "1:" contain no boot and no mount: they prove nothing.
	version = "2:"
	// tick is longer than the interval at which the kernel's coarse clock, which sets change times, advances. Two
	// changes in one tick have the same time.
	tick = 10 * time.Millisecond
	// maxWait is the longest time that [Of] waits for the last change to be a tick old. If that is not enough, the file
	// system uses a different clock, or a program is writing.
	maxWait = 100 * time.Millisecond
	// walkers is how many folders are walked at the same time. It does not depend on the number of processors, so that
	// the job needs no more memory on a large machine.
	walkers = 4
	// readBatch is how many names of a folder are in memory at the same time.
	readBatch = 1024
)

// Of returns a text that identifies the current state of a folder and everything below it, except the entry skip at its
// top. It covers names, types, sizes, modes, owners, modification and change times, inode numbers, device files,
// numbers of links, and link targets. The change time covers content and extended attributes: reading the attributes
// would take as long as everything else. The text also covers the kernel's boot and the mount of the file system.
//
// Of returns "" if a later change might go unnoticed (see the package comment): on a file system with coarse times, if
// the mount cannot be told from a later one, if the last change is less than a tick ago or in the future, or if the
// folder contains another file system.
//
// If the folder itself was changed just now, as at the end of a restore, Of waits until a tick has passed, for at most
// 100 ms. Its memory does not grow with the folder.
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

// settled waits until the change time of a folder is a tick ago, but no longer than maxWait. It returns the time by the
// clock that sets change times.
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

// found sums up the entries of some folders.
type found struct {
	sum     total
	entries uint64
	newest  int64 // change time, in nanoseconds
	fine    bool  // at least one change time has nanoseconds
	foreign bool  // an entry is on another file system
}

// coarse reports whether all change times are whole seconds, as on file systems whose inodes have no room for a
// fraction.
func (f *found) coarse() bool { return !f.fine }

// walk sums up a folder and everything below it, with several walkers.
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

// folder adds an open folder with its own walker; st, if any, describes the folder itself.
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

// walker sums up folders. One goroutine uses it.
type walker struct {
	walk *walk
	found

	record []byte
	target [unix.PathMax]byte // of a link
}

// folder adds the content of an open folder; name is its name with a trailing slash, or "" for the root.
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

// child adds one name of an open folder and, for a folder, its content.
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

// entry adds the metadata of one file of any type.
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

// appendText appends a text with its length, so that no two sequences of texts look alike.
func appendText[T string | []byte](r []byte, s T) []byte {
	return append(binary.LittleEndian.AppendUint64(r, uint64(len(s))), s...)
}

// total is a sum of checksums modulo 2^256, which is independent of their order. So the order of a folder's
// listing does not matter, and nothing is sorted in memory.
type total [4]uint64

// checksum converts a checksum to a number.
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

// bytes encodes the sum.
func (t *total) bytes() []byte {
	var b []byte
	for _, n := range t {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	return b
}
