package fingerprint

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// trusted lists file systems by the magic number that statfs reports, with their folders in /sys/fs. They have stable
// inode numbers, set change times in nanoseconds by this machine's clock, and are mounted by one machine at a time. A
// file server (NFS, SMB, FUSE) has its own clock and answers from a cache. A tmpfs does not survive a reboot. An
// overlayfs shows the files of other file systems.
//
// ZFS has no such folder, so that a later mount cannot be told from the current one.
var trusted = map[uint32]string{
	unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: btrfs, unix.F2FS_SUPER_MAGIC: "f2fs",
}

// btrfs names its folders after the id of the file system, because it has several devices.
const btrfs = "btrfs"

// kernel locates the files in which a kernel describes itself.
type kernel struct {
	boot string // the file with the id of the boot
	sys  string // where sysfs is mounted
}

// system is the kernel that this program runs on; tests use others.
var system = kernel{boot: "/proc/sys/kernel/random/boot_id", sys: "/sys"}

// mount returns a text that identifies the mount of the file system that holds an open folder, on device dev. A new
// mount, after a power cut or after the disk was lost and came back, gets a different text. It is "" if it cannot be
// determined, and on a file system that is not trusted.
func (k kernel) mount(fd int, dev uint64) string {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return ""
	}
	kind, ok := trusted[uint32(fs.Type)]
	if !ok {
		return ""
	}
	text, err := os.ReadFile(k.boot)
	boot := strings.TrimSpace(string(text))
	if err != nil || boot == "" {
		return ""
	}
	var name string
	if kind == btrfs {
		name, err = btrfsID(fd)
	} else {
		name, err = os.Readlink(fmt.Sprintf("%s/dev/block/%d:%d", k.sys, unix.Major(dev), unix.Minor(dev)))
	}
	if err != nil {
		return ""
	}
	// The kernel creates this folder at the mount and removes it at the unmount. Within one boot, it never reuses an
	// inode number of sysfs (kernfs counts up, since Linux 4.14).
	var folder unix.Stat_t
	if err := unix.Stat(filepath.Join(k.sys, "fs", kind, filepath.Base(name)), &folder); err != nil {
		return ""
	}
	return fmt.Sprintf("%s/%d", boot, folder.Ino)
}

// btrfsID returns the id of the btrfs that holds an open folder.
func btrfsID(fd int) (string, error) {
	const fsInfo = 0x8400941f // BTRFS_IOC_FS_INFO, which fills struct btrfs_ioctl_fs_info_args
	var info struct {
		_  [2]uint64
		id [16]byte
		_  [992]byte
	}
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsInfo, uintptr(unsafe.Pointer(&info))); errno != 0 {
		return "", errno
	}
	h := hex.EncodeToString(info.id[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-"), nil
}
