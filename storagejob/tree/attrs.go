package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// xattrPrefix begins the PAX keywords under which tar programs keep extended attributes.
const xattrPrefix = "SCHILY.xattr."

// A PAX keyword ends at the first "=", but the name of an attribute may contain one.
var (
	escapeKeyword   = strings.NewReplacer("%", "%25", "=", "%3D")
	unescapeKeyword = strings.NewReplacer("%25", "%", "%3D", "=")
)

// kept reports whether an extended attribute belongs to the user's data: user
// attributes, POSIX ACLs and file capabilities. The others (SELinux labels, overlay
// bookkeeping) belong to the machine, and would be wrong on another one.
func kept(name string) bool {
	return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_") || name == "security.capability"
}

// xattrs reads the extended attributes of an open file that are kept. It returns nil if
// there are none, or if the file system has none.
func xattrs(fd int) (map[string]string, error) {
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

// readXattr calls get with a buffer that is large enough: a call without one returns
// the size, which may grow before the second call.
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

// attributes are what a file has besides its type and content.
type attributes struct {
	mode     uint32
	uid, gid int
	mtime    time.Time
	xattrs   map[string]string
}

// attributesOf reads the attributes in an archive's header.
func attributesOf(h *tar.Header) attributes {
	a := attributes{mode: uint32(h.Mode) & 0o7777, uid: h.Uid, gid: h.Gid, mtime: h.ModTime}
	for key, value := range h.PAXRecords {
		if name, ok := strings.CutPrefix(key, xattrPrefix); ok {
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

// header returns a file's tar header without its type and size. The PAX format holds
// names of any length, large ids and times in nanoseconds.
func header(name string, st *unix.Stat_t, attrs map[string]string) *tar.Header {
	h := &tar.Header{
		Format:  tar.FormatPAX,
		Name:    name,
		Mode:    int64(st.Mode &^ unix.S_IFMT),
		Uid:     int(st.Uid),
		Gid:     int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()),
	}
	if len(attrs) > 0 {
		h.PAXRecords = make(map[string]string, len(attrs))
		for name, value := range attrs {
			h.PAXRecords[xattrPrefix+escapeKeyword.Replace(name)] = value
		}
	}
	return h
}

// attributesAt reads the attributes of an open file.
func attributesAt(fd int) (attributes, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return attributes{}, err
	}
	attrs, err := xattrs(fd)
	if err != nil {
		return attributes{}, err
	}
	return attributes{
		mode: st.Mode &^ unix.S_IFMT, uid: int(st.Uid), gid: int(st.Gid),
		mtime: time.Unix(st.Mtim.Unix()), xattrs: attrs,
	}, nil
}

// apply gives an open file or folder exactly these attributes, and removes extended
// attributes that are not among them. The order matters: a change of owner clears
// setuid and file capabilities, an ACL changes the group bits of the mode, and all of
// them may change the time. It returns how many attributes were skipped because the
// file system does not support them.
func (a attributes) apply(fd int) (skipped int, err error) {
	if err := unix.Fchown(fd, a.uid, a.gid); err != nil {
		return 0, fmt.Errorf("setting the owner: %w", err)
	}
	have, err := xattrs(fd)
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
			// Some file systems call an attribute that is too large for them a lack of space.
			return skipped, fmt.Errorf("setting extended attribute %q of %d bytes: %w", name, len(value), unix.E2BIG)
		case err != nil:
			return skipped, fmt.Errorf("setting extended attribute %q: %w", name, err)
		}
	}
	if err := unix.Fchmod(fd, a.mode); err != nil {
		return skipped, fmt.Errorf("setting the mode: %w", err)
	}
	return skipped, setMtime(fd, a.mtime)
}

// setMtime sets the modification time of an open file and leaves its access time.
func setMtime(fd int, mtime time.Time) error {
	ts, err := timespecs(mtime)
	if err != nil {
		return err
	}
	// Without a path, the call is about the descriptor.
	if _, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0); errno != 0 {
		return fmt.Errorf("setting the modification time: %w", errno)
	}
	return nil
}

// timespecs returns the argument with which utimensat sets the modification time and
// leaves the access time. A time that the kernel cannot represent is ErrCorrupt.
func timespecs(mtime time.Time) ([]unix.Timespec, error) {
	ts, err := unix.TimeToTimespec(mtime)
	if err != nil {
		return nil, fmt.Errorf("modification time %v: %w", mtime, ErrCorrupt)
	}
	return []unix.Timespec{{Nsec: unix.UTIME_OMIT}, ts}, nil
}

// sameFile reports whether a file's content and attributes are the same at two times. A
// program cannot set ctime, so no change escapes it.
func sameFile(a, b *unix.Stat_t) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mode == b.Mode && a.Mtim == b.Mtim && a.Ctim == b.Ctim
}

// components splits a name in an archive at its slashes; the root has no components.
// Names that lead out of the tree ("..", absolute paths) or are ambiguous, and the
// staging folder's own name, are ErrCorrupt. A name may start with "./", as tar
// programs write it.
func components(name string) ([]string, error) {
	rest := strings.TrimSuffix(name, "/")
	if rest == "." {
		return nil, nil
	}
	parts := strings.Split(strings.TrimPrefix(rest, "./"), "/")
	bad := func(p string) bool {
		return p == "" || p == "." || p == ".." || len(p) > 255 || strings.ContainsRune(p, 0)
	}
	if slices.ContainsFunc(parts, bad) {
		return nil, fmt.Errorf("the name %q leads out of the volume or is invalid: %w", name, ErrCorrupt)
	}
	if parts[0] == StagingName {
		return nil, fmt.Errorf("the name %q is reserved: %w", name, ErrCorrupt)
	}
	return parts, nil
}
