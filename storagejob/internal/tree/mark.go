package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
)

// markName is the extended attribute of a volume's root in which a restore keeps its mark. It
// is no part of the home: an archive does not hold it.
const markName = "user.codehub.restored"

// mark says that a restore has put all files of an archive in place. It outlives the job, whose
// result may be lost. So the next run of the same operation knows that its work is done (SPEC
// 12.12). Another operation does not know it: each has a volume of its own, and must not replace
// what users have written since.
//
// A file system without extended attributes keeps the staging folder in its place.
type mark struct {
	// Operation is a hash of the restore's operation. Its name stays unknown in the workspace,
	// so that the staging folder's name does, too.
	Operation string `json:"operation"`
	// Sum is the checksum of the archive.
	Sum string `json:"sha256"`
	// ModTime is the modification time of the root, which removing the staging folder changes.
	ModTime time.Time `json:"mtime"`
	// Closed says that nothing remains to be done. From then on the home is the user's.
	Closed bool `json:"closed"`
}

// hashed is the operation as it stands in the mark.
func hashed(operation string) string {
	sum := sha256.Sum256([]byte("restore " + operation))
	return hex.EncodeToString(sum[:])
}

// mark writes the mark to disk. It reports false if the volume keeps none.
func (v *Volume) mark(m mark) (bool, error) {
	what := "mark as restored"
	if m.Closed {
		what = "close the mark"
	}
	if err := v.about(what); err != nil {
		return false, err
	}
	m.Operation = hashed(v.operation)
	text, err := json.Marshal(m)
	if err != nil {
		return false, fmt.Errorf("writing the mark of the restore: %w", err)
	}
	if err := unix.Fsetxattr(v.fd(), markName, text, 0); errors.Is(err, unix.EIO) {
		return false, fmt.Errorf("writing the mark of the restore: %w", err)
	} else if err != nil {
		return false, nil // the file system has no such attributes, or no room for one
	}
	if err := v.dir.Sync(); err != nil {
		return false, fmt.Errorf("writing the mark of the restore to disk: %w", err)
	}
	return true, nil
}

// marked reads the mark of the volume's operation. It reports false if there is none.
func (v *Volume) marked() (m mark, ok bool) {
	buf := make([]byte, 1<<10)
	n, err := unix.Fgetxattr(v.fd(), markName, buf)
	if err != nil || json.Unmarshal(buf[:n], &m) != nil {
		return mark{}, false
	}
	return m, m.Operation == hashed(v.operation)
}

// Restored reports whether an earlier run of the same operation has put all files of the
// archive of this checksum in place. Then it does what a kill has left undone of the end, and
// otherwise changes nothing: the files may have been changed since.
func (v *Volume) Restored(sum string) (bool, error) {
	if v.operation == "" {
		return false, nil
	}
	if m, ok := v.marked(); ok && m.Sum == sum {
		if m.Closed {
			return true, nil
		}
		return true, v.close(m)
	}
	kept, err := v.isFolder(v.staged(stageRestored + sum))
	if err != nil || !kept {
		return false, err
	}
	return true, v.closeStaging()
}

// close removes the staging folder, and then closes the mark.
func (v *Volume) close(m mark) error {
	if err := v.leave(m.ModTime); err != nil {
		return err
	}
	m.Closed = true
	_, err := v.mark(m)
	return err
}

// keepStaging makes the staging folder the mark.
func (v *Volume) keepStaging(sum string, mtime time.Time) error {
	if err := v.rename(v.staged(stageCleared+sum), v.staged(stageRestored+sum)); err != nil {
		return err
	}
	if err := attrs.SetModTime(v.fd(), mtime); err != nil {
		return err
	}
	return v.closeStaging()
}

// closeStaging sets the root's modification time, if no run has done that, and then removes
// what it is known from.
func (v *Volume) closeStaging() error {
	f, err := v.root.Open(v.staged(stageRoot))
	if err != nil {
		return v.sync() // it is set, or was never another one
	}
	defer f.Close()
	root, err := attrs.Of(int(f.Fd()))
	if err != nil {
		return fmt.Errorf("reading the root's attributes: %w", err)
	}
	if err := v.about("set root time"); err != nil {
		return err
	}
	if err := attrs.SetModTime(v.fd(), root.ModTime); err != nil {
		return err
	}
	if err := v.about("forget root attributes"); err != nil {
		return err
	}
	if err := v.root.Remove(v.staged(stageRoot)); err != nil {
		return fmt.Errorf("removing a part of the staging folder: %w", err)
	}
	return v.sync()
}
