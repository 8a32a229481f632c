package tree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
)

// A restore works in one folder inside the volume, the staging folder:
//
//	tree             the files unpacked so far, not verified
//	root             an empty folder with the root's attributes
//	verified-<sum>   complete, on disk, equal to the archive <sum>
//	cleared-<sum>    the same, and the volume is empty otherwise
//	restored-<sum>   all files are in place, if the volume cannot keep the mark
//
// It is not in the scratch folder, because that is another file system and may be small. The volume must hold the
// whole home anyway. Within the volume, moving is a rename, independent of the size. The archive is read once and
// hashed while it is unpacked, and the user's files stay unchanged until the hash is known.
//
// Each step ends with one rename. A kill at any instruction therefore leaves one of these states, and a restore can
// start again from each of them. Before verified, it discards everything, and the volume is unchanged. From verified
// on, it finishes the swap without reading the archive again. So a second run never needs space for a third copy. Once
// all files are in place, the mark says so: see mark.go.
const (
	stageTree     = "tree"
	stageRoot     = "root"
	stageVerified = "verified-"
	stageCleared  = "cleared-"
	stageRestored = "restored-"
)

// Volume is a folder that a restore makes equal to an archive. It holds the volume's lock until Close. Unless Verified
// reports true, a restore calls Unpack and Commit. In either case it then calls Swap. After a failed Unpack it calls
// Discard instead. It is not safe for concurrent use.
type Volume struct {
	// Step, if set, is called before every change of the volume. Its error stops the restore there, like a kill. Tests
	// use it.
	Step func(what string) error

	root      *os.Root
	dir       *os.File
	mtime     time.Time // of the volume when it was opened
	operation string    // the restore's; "" for none
	staging   string
}

// OpenVolume opens and locks a volume for the restore of an operation. It does not wait: if another process has locked
// the volume, the error is ErrBusy.
func OpenVolume(dir, operation string) (*Volume, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	f, err := root.Open(".")
	if err != nil {
		root.Close()
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	v := &Volume{root: root, dir: f, operation: operation, staging: StagingName(operation)}
	var st unix.Stat_t
	if err := unix.Fstat(v.fd(), &st); err != nil {
		v.Close()
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	v.mtime = time.Unix(st.Mtim.Unix())
	if err := lock(f); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

// Lock keeps other storage jobs away from a volume until unlock is called. It does not wait: if another process has
// locked the volume, the error is ErrBusy. The kernel releases the lock of a killed process.
func Lock(dir string) (unlock func() error, err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	if err := lock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f.Close, nil
}

// lock locks the open folder of a volume. On a file system without locks it succeeds: there, only the backend prevents
// a second job (SPEC 12.4).
func lock(dir *os.File) error {
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return ErrBusy
	}
	return nil
}

// Close releases the volume and its lock. It changes nothing.
func (v *Volume) Close() error {
	return errors.Join(v.dir.Close(), v.root.Close())
}

// fd returns the descriptor of the volume's root.
func (v *Volume) fd() int { return int(v.dir.Fd()) }

// about announces a change before it is made, so that a test can stop there.
func (v *Volume) about(what string) error {
	if v.Step == nil {
		return nil
	}
	return v.Step(what)
}

// staged returns the name of a part of the staging folder.
func (v *Volume) staged(part string) string { return v.staging + "/" + part }

// Verified reports whether an earlier run has unpacked and verified the archive with this checksum, so that only
// [Volume.Swap] is left to do. A run of an early release, which knew no operations, also counts.
func (v *Volume) Verified(sum string) (bool, error) {
	for _, staging := range []string{v.staging, legacyStaging} {
		for _, stage := range []string{stageVerified, stageCleared} {
			there, err := v.isFolder(staging + "/" + stage + sum)
			if err != nil {
				return false, fmt.Errorf("checking for an earlier restore: %w", err)
			}
			if there {
				v.staging = staging
				return true, nil
			}
		}
	}
	return false, nil
}

// isFolder reports whether a folder with that name exists.
func (v *Volume) isFolder(name string) (bool, error) {
	info, err := v.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return false, nil
	}
	return err == nil && info.IsDir(), err
}

// ErrOccupied reports that a volume holds files although it should be empty.
var ErrOccupied = errors.New("the volume holds files, although it was made for this restore: they may be newer " +
	"than the archive")

// ErrUnfinished reports that a volume holds neither all files from before a restore nor all files of the archive, but a
// part of each.
var ErrUnfinished = errors.New("the volume is incomplete: a restore was interrupted while it replaced the files; " +
	"restore the same archive again, which finishes it, before the volume is archived")

// CheckFinished returns [ErrUnfinished] if the restore of that operation has verified its archive and may have begun to
// replace the files of the folder. It changes nothing, and does not lock the folder.
func CheckFinished(dir, operation string) error {
	// Open the name only if it is a folder.
	name := StagingName(operation)
	fd, err := unix.Open(path.Join(dir, name), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for an unfinished restore: %w", err)
	}
	staging := os.NewFile(uintptr(fd), name)
	defer staging.Close()
	names, err := staging.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("looking for an unfinished restore: %w", err)
	}
	if slices.ContainsFunc(names, isUnfinished) {
		return ErrUnfinished
	}
	return nil
}

// isUnfinished reports whether a name in a staging folder is that of a verified archive that is not in place yet.
func isUnfinished(name string) bool {
	for _, stage := range []string{stageVerified, stageCleared} {
		if sum, ok := strings.CutPrefix(name, stage); ok {
			_, err := hex.DecodeString(sum)
			return err == nil && len(sum) == hex.EncodedLen(sha256.Size)
		}
	}
	return false
}

// CheckEmpty returns [ErrOccupied] if the volume holds anything but the staging folder and the entries that file
// systems create by themselves.
func (v *Volume) CheckEmpty() error {
	dir, err := v.root.Open(".")
	if err != nil {
		return fmt.Errorf("looking into the volume: %w", err)
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(readBatch)
		for _, name := range names {
			if name != v.staging && name != legacyStaging && name != "lost+found" {
				return ErrOccupied
			}
		}
		switch {
		case errors.Is(err, io.EOF) || err == nil && len(names) == 0:
			return nil
		case err != nil:
			return fmt.Errorf("looking into the volume: %w", err)
		}
	}
}

// Unpack reads a tar stream to its end into the staging folder, after discarding what an earlier run left there. It
// does not change the user's files. It opens folders one by one and never through a symlink. It refuses with
// ErrCorrupt: absolute names, "..", duplicate names, hard links to anything but an earlier file of the same archive,
// devices, fifos, sockets, and archives that exceed the limits. Here and in the methods below, a refusal by the
// volume's file system is a [RefusedError].
func (v *Volume) Unpack(ctx context.Context, r io.Reader, limits Limits, count *Counter) (err error) {
	defer func() { err = refused(err) }()
	if err := v.Discard(); err != nil {
		return err
	}
	if err := v.about("make staging"); err != nil {
		return err
	}
	if err := v.root.Mkdir(v.staging, 0o700); err != nil {
		return fmt.Errorf("creating the staging folder: %w", err)
	}
	if err := v.root.Mkdir(v.staged(stageTree), 0o700); err != nil {
		return fmt.Errorf("creating the staging folder: %w", err)
	}
	top, err := v.root.Open(v.staged(stageTree))
	if err != nil {
		return fmt.Errorf("opening the staging folder: %w", err)
	}
	defer top.Close()
	if err := v.about("unpack"); err != nil {
		return err
	}
	disk, err := v.root.Open(".")
	if err != nil {
		return fmt.Errorf("opening the volume: %w", err)
	}
	defer disk.Close()
	flusher := newFlusher(flushAt(disk))
	defer func() {
		if failed := flusher.stop(); err == nil && failed != nil {
			err = fmt.Errorf("writing the staging folder to disk: %w", failed)
		}
	}()
	writers := newWriters(count)
	u := &unpacker{
		ctx: ctx, count: count, buf: make([]byte, copyBuffer), writers: writers, flusher: flusher,
		folders:  folders{top: newFolder("", int(top.Fd())), writers: writers},
		reserved: v.staging, limit: limits.Bytes, room: room{fd: v.fd(), share: limits.KeepFree},
	}
	if err := u.unpack(r); err != nil {
		return err
	}
	if u.root == nil {
		return nil
	}
	if err := v.about("root attributes"); err != nil {
		return err
	}
	if err := v.root.Mkdir(v.staged(stageRoot), 0o700); err != nil {
		return fmt.Errorf("keeping the root's attributes: %w", err)
	}
	if err := v.applyTo(v.staged(stageRoot), *u.root, count); err != nil {
		return fmt.Errorf("keeping the root's attributes: %w", err)
	}
	return nil
}

// applyTo sets the attributes of a folder of the volume and counts skipped ones.
func (v *Volume) applyTo(name string, a attrs.Attributes, count *Counter) error {
	f, err := v.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	skipped, err := a.Apply(int(f.Fd()))
	count.Skipped.Add(int64(skipped))
	return err
}

// Commit records that the unpacked files equal the archive with this checksum. Everything is written to disk first:
// after a power failure, a record without its files would make the next run swap in a damaged home.
func (v *Volume) Commit(sum string) error {
	if err := unix.Syncfs(v.fd()); err != nil {
		return refused(fmt.Errorf("writing the staging folder to disk: %w", err))
	}
	return refused(v.rename(v.staged(stageTree), v.staged(stageVerified+sum)))
}

// Discard removes the staging folder and restores the volume's modification time, so that a refused archive leaves no
// trace.
func (v *Volume) Discard() error {
	if err := v.about("discard staging"); err != nil {
		return err
	}
	if err := v.root.RemoveAll(v.staging); err != nil {
		return fmt.Errorf("removing the staging folder: %w", err)
	}
	return attrs.SetModTime(v.fd(), v.mtime)
}

// sync writes the whole volume to disk.
func (v *Volume) sync() error {
	if err := v.about("write to disk"); err != nil {
		return err
	}
	if err := unix.Syncfs(v.fd()); err != nil {
		return fmt.Errorf("writing the volume to disk: %w", err)
	}
	return nil
}

// rename renames an entry within the volume. It is the only kind of step that the next run can see, and it is atomic.
func (v *Volume) rename(from, to string) error {
	if err := v.about("rename " + strings.TrimPrefix(from, v.staging+"/")); err != nil {
		return err
	}
	if err := v.root.Rename(from, to); err != nil {
		return fmt.Errorf("renaming %q to %q: %w", from, to, err)
	}
	return nil
}

// each calls fn, which removes or moves a name, for the names in a folder of the volume, batch by batch. It lists the
// folder until it is empty, because removing names during a listing may hide others from it.
func (v *Volume) each(ctx context.Context, dir string, fn func(name string) error) error {
	for {
		met := 0
		f, err := v.root.Open(dir)
		if err != nil {
			return err
		}
		for {
			names, err := f.Readdirnames(readBatch)
			for _, name := range names {
				if ctx.Err() != nil {
					f.Close()
					return context.Cause(ctx)
				}
				if name != v.staging {
					met++
				}
				if err := fn(name); err != nil {
					f.Close()
					return err
				}
			}
			if err != nil || len(names) == 0 {
				f.Close()
				if err != nil && !errors.Is(err, io.EOF) {
					return err
				}
				break
			}
		}
		if met == 0 {
			return nil
		}
	}
}
