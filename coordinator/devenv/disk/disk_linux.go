// Package disk gives tests a disk that can lose its power: a file system of its own on a loop device.
//
// It owns the file system and its mount. It must not know what a test keeps there.
package disk

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a mounted file system. The test's end removes it.
type Disk struct {
	// Dir is where it is mounted.
	Dir string

	image string // the file that is the disk
	cuts  int    // how many disks there were before
}

// New makes a file system of that kind, such as ext4, with that many MiB, and mounts it at the folder dir. It skips the
// test if the machine does not allow it.
func New(t testing.TB, kind string, size int64, dir string) *Disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a disk that loses its power")
	}
	mkfs, err := exec.LookPath("mkfs." + kind)
	if err != nil {
		t.Skipf("there is no program that makes a disk of the kind %s: %v", kind, err)
	}
	d := &Disk{Dir: dir, image: filepath.Join(t.TempDir(), "disk")}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, size<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", d.image).CombinedOutput(); err != nil {
		t.Fatalf("making a disk: %v\n%s", err, out)
	}
	if err := d.mount(); err != nil {
		t.Skipf("a disk on a loop device cannot be mounted here: %v", err)
	}
	t.Cleanup(d.unmount)
	return d
}

func (d *Disk) mount() error {
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.Dir).CombinedOutput(); err != nil {
		return fmt.Errorf("mounting a disk: %w: %s", err, out)
	}
	return nil
}

// unmount takes the disk out of this mount namespace. Servers that were started while the disk was mounted may still
// have it in their own namespaces.
func (d *Disk) unmount() { _ = unix.Unmount(d.Dir, unix.MNT_DETACH) }

// Cut ends the file system as a power cut does: immediately, without writing anything more to the disk. Every later
// access fails. It works for ext4 and xfs.
func (d *Disk) Cut() error {
	const (
		shutdown   = 0x8004587d // FS_IOC_SHUTDOWN, as `xfs_io -x -c shutdown` sends it
		withoutLog = 2          // not even the journal is written
	)
	f, err := os.Open(d.Dir)
	if err != nil {
		return fmt.Errorf("cutting a disk's power: %w", err)
	}
	defer f.Close()
	if err := unix.IoctlSetPointerInt(int(f.Fd()), shutdown, withoutLog); err != nil {
		return fmt.Errorf("cutting a disk's power: %w", err)
	}
	return nil
}

// Return mounts the disk again, at the same folder and with its content at the moment of the cut. The mounted disk is a
// copy, so Return does not have to wait for processes that still have the old disk mounted. The processes that used the
// disk should have ended.
func (d *Disk) Return() error {
	d.cuts++
	former := d.image
	d.image = fmt.Sprintf("%s.%d", filepath.Join(filepath.Dir(former), "disk"), d.cuts)
	if out, err := exec.Command("cp", "--sparse=always", former, d.image).CombinedOutput(); err != nil {
		return fmt.Errorf("copying a disk: %w: %s", err, out)
	}
	d.unmount()
	if err := os.Remove(former); err != nil {
		return fmt.Errorf("removing a disk: %w", err)
	}
	return d.mount()
}

// Remount unmounts the file system cleanly, and mounts it again.
func (d *Disk) Remount() error {
	if err := unix.Unmount(d.Dir, 0); err != nil {
		return fmt.Errorf("unmounting a disk: %w", err)
	}
	return d.mount()
}
