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

// markName is the extended attribute of a volume's root in which a restore keeps its mark. It is not part of the home:
// archives do not contain it.
const markName = "user.codehub.restored"

// mark says that a restore has put all files of an archive in place. It outlives the job, whose result may be lost, so
// that the next run of the same operation knows that the work is done (SPEC 12.12). Another operation ignores it: each
// has its own volume, and must not replace what users have written since.
//
// On a file system without extended attributes, the staging folder takes the mark's place.
type mark struct {
	// Operation is a hash of the operation's id. This keeps the id, and with it the name of the staging folder, unknown
	// in the workspace.
	Operation string `json:"operation"`
	// Sum is the checksum of the archive.
	Sum string `json:"sha256"`
	// ModTime is the modification time of the root, which removing the staging folder changes.
	ModTime time.Time `json:"mtime"`
	// Closed reports that nothing is left to do. From then on the home belongs to the user.
	Closed bool `json:"closed"`
}

// hashed returns the form of the operation's id in the mark.
func hashed(operation string) string {
	sum := sha256.Sum256([]byte("restore " + operation))
	return hex.EncodeToString(sum[:])
}

// mark writes the mark to disk. It reports false if the volume cannot keep one.
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
		return false, nil // the file system does not support such attributes, or has no room for one
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

// Restored reports whether an earlier run of the same operation has put all files of the archive with this checksum in
// place. If so, it completes the steps at the end that a kill has interrupted. It changes nothing else: the files may
// have been changed since.
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

// keepStaging makes the staging folder serve as the mark.
func (v *Volume) keepStaging(sum string, mtime time.Time) error {
	if err := v.rename(v.staged(stageCleared+sum), v.staged(stageRestored+sum)); err != nil {
		return err
	}
	if err := attrs.SetModTime(v.fd(), mtime); err != nil {
		return err
	}
	return v.closeStaging()
}

// closeStaging sets the root's modification time, unless a run has already done that, and then removes the folder that
// records it.
func (v *Volume) closeStaging() error {
	f, err := v.root.Open(v.staged(stageRoot))
	if err != nil {
		return v.sync() // it is already set, or there was none to set
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
