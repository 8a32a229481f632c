// Package attrs reads and sets a file's attributes besides its type and content: mode, owner, modification time and
// extended attributes.
//
// It decides which attributes an archive keeps, under which keys of a tar header it keeps them, and in which order they
// are set. It works on open files only and knows no paths.
package attrs

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Prefix begins the PAX keywords under which tar programs keep extended attributes.
const Prefix = "SCHILY.xattr."

// A PAX keyword ends at the first "=", but the name of an attribute may contain one.
var (
	escapeKeyword   = strings.NewReplacer("%", "%25", "=", "%3D")
	unescapeKeyword = strings.NewReplacer("%25", "%", "%3D", "=")
)

// kept reports whether an extended attribute belongs to the user's data: user attributes, POSIX ACLs and file
// capabilities. The other attributes (SELinux labels, overlay bookkeeping) belong to the machine and would be wrong on
// another machine.
func kept(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_") ||
		name == "security.capability"
}

// Extended reads the kept extended attributes of an open file. It returns nil if there are none, or if the file system
// does not support them.
func Extended(fd int) (map[string]string, error) {
	names, err := readXattr(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
	if errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing extended attributes: %w", err)
	}
	var attrs map[string]string
	for raw := range bytes.SplitSeq(names, []byte{0}) {
		name := string(raw)
		if !kept(name) {
			continue
		}
		value, err := readXattr(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		if err != nil {
			return nil, fmt.Errorf("reading extended attribute %q: %w", name, err)
		}
		if attrs == nil {
			attrs = make(map[string]string)
		}
		attrs[name] = string(value)
	}
	return attrs, nil
}

// readXattr calls get with a buffer that is large enough. A call without a buffer returns the size, which may grow
// before the second call.
func readXattr(get func([]byte) (int, error)) ([]byte, error) {
	for {
		size, err := get(nil)
		if err != nil || size == 0 {
			return nil, err
		}
		buf := make([]byte, size)
		n, err := get(buf)
		if errors.Is(err, unix.ERANGE) {
			continue // it grew between the two calls
		}
		if err != nil {
			return nil, err
		}
		return buf[:n], nil
	}
}

// Attributes are a file's attributes besides its type and content.
type Attributes struct {
	mode     uint32
	uid, gid int
	ModTime  time.Time
	xattrs   map[string]string
}

// FromHeader reads the attributes in an archive's header.
func FromHeader(h *tar.Header) Attributes {
	a := Attributes{mode: uint32(h.Mode) & 0o7777, uid: h.Uid, gid: h.Gid, ModTime: h.ModTime}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, Prefix); ok {
			if name = unescapeKeyword.Replace(name); kept(name) {
				if a.xattrs == nil {
					a.xattrs = make(map[string]string)
				}
				a.xattrs[name] = value
			}
		}
	}
	return a
}

// Header returns a file's tar header without its type and size. The PAX format holds
// names of any length, large ids and times in nanoseconds.
func Header(name string, st *unix.Stat_t, extended map[string]string) *tar.Header {
	h := &tar.Header{
		Format:  tar.FormatPAX,
		Name:    name,
		Mode:    int64(st.Mode &^ unix.S_IFMT),
		Uid:     int(st.Uid),
		Gid:     int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()),
	}
	if len(extended) > 0 {
		h.PAXRecords = make(map[string]string, len(extended))
		for name, value := range extended {
			h.PAXRecords[Prefix+escapeKeyword.Replace(name)] = value
		}
	}
	return h
}

// Of reads the attributes of an open file.
func Of(fd int) (Attributes, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return Attributes{}, err
	}
	attrs, err := Extended(fd)
	if err != nil {
		return Attributes{}, err
	}
	return Attributes{
		mode: st.Mode &^ unix.S_IFMT, uid: int(st.Uid), gid: int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()), xattrs: attrs,
	}, nil
}

// Apply gives an open file or folder exactly these attributes, and removes all other extended attributes. The order
// matters: changing the owner clears setuid and file capabilities, an ACL changes the group bits of the mode, and any
// of these may change the time. It returns how many attributes it skipped because the file system does not support
// them.
func (a Attributes) Apply(fd int) (skipped int, err error) {
	if err := unix.Fchown(fd, a.uid, a.gid); err != nil {
		return 0, fmt.Errorf("setting the owner: %w", err)
	}
	have, err := Extended(fd)
	if err != nil {
		return 0, err
	}
	for name := range have {
		if _, ok := a.xattrs[name]; !ok {
			if err := unix.Fremovexattr(fd, name); err != nil && !errors.Is(err, unix.ENODATA) {
				return 0, fmt.Errorf("removing extended attribute %q: %w", name, err)
			}
		}
	}
	for name, value := range a.xattrs {
		if old, ok := have[name]; ok && old == value {
			continue
		}
		switch err := unix.Fsetxattr(fd, name, []byte(value), 0); {
		case errors.Is(err, unix.ENOTSUP):
			// A home without this attribute is better than no home.
			skipped++
		case errors.Is(err, unix.ENOSPC) && hasRoom(fd):
			// Some file systems report a lack of space for an attribute that is too large for them.
			return skipped, fmt.Errorf("setting extended attribute %q of %d bytes: %w", name, len(value), unix.E2BIG)
		case err != nil:
			return skipped, fmt.Errorf("setting extended attribute %q: %w", name, err)
		}
	}
	if err := unix.Fchmod(fd, a.mode); err != nil {
		return skipped, fmt.Errorf("setting the mode: %w", err)
	}
	return skipped, SetModTime(fd, a.ModTime)
}

// Drop removes an extended attribute.
func (a *Attributes) Drop(name string) { delete(a.xattrs, name) }

// SetModTime sets the modification time of an open file and leaves its access time unchanged.
func SetModTime(fd int, mtime time.Time) error {
	ts, err := Times(mtime)
	if err != nil {
		return err
	}
	// Without a path, the call applies to the descriptor.
	if _, _, errno := unix.Syscall6(
		unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0); errno != 0 {
		return fmt.Errorf("setting the modification time: %w", errno)
	}
	return nil
}

// Times returns the utimensat argument that sets the modification time and leaves the access time unchanged. It fails
// for a time that the kernel cannot represent.
func Times(mtime time.Time) ([]unix.Timespec, error) {
	ts, err := unix.TimeToTimespec(mtime)
	if err != nil {
		return nil, fmt.Errorf("modification time %v: %w", mtime, err)
	}
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, ts}, nil
}

// hasRoom reports whether the file system of an open file has blocks and inodes left.
func hasRoom(fd int) bool {
	var st unix.Statfs_t
	return unix.Fstatfs(fd, &st) == nil && st.Bavail > 0 && (st.Files == 0 || st.Ffree > 0)
}
