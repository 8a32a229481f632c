package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// snapshot describes, in one line per name, everything about dir and its content that must survive. Hard links are
// identified by the first name of the same file. It opens folder by folder, because paths may be longer than the kernel
// accepts.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	s := snapshots{t: t, seen: make(map[inode]string), lines: make(map[string]string)}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME, 0)
	must(t, err)
	s.folder(fd, "")
	return s.lines
}

type snapshots struct {
	t     testing.TB
	seen  map[inode]string
	lines map[string]string
}

// folder describes an open folder and its content, and closes it.
func (s *snapshots) folder(fd int, name string) {
	s.t.Helper()
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	must(s.t, unix.Fstat(fd, &st))
	key := name
	if name == "" {
		key = "."
	}
	s.lines[key] = s.line(&st) + " attrs " + attrsOf(s.t, fd)
	names, err := f.Readdirnames(-1)
	must(s.t, err)
	slices.Sort(names) // so that the first name of a file is the same everywhere
	for _, child := range names {
		s.entry(fd, child, strings.TrimPrefix(name+"/"+child, "/"))
	}
}

func (s *snapshots) line(st *unix.Stat_t) string {
	return fmt.Sprintf("mode %o owner %d:%d time %d.%09d", st.Mode, st.Uid, st.Gid, st.Mtim.Sec, st.Mtim.Nsec)
}

func (s *snapshots) entry(parent int, child, name string) {
	s.t.Helper()
	var st unix.Stat_t
	must(s.t, unix.Fstatat(parent, child, &st, unix.AT_SYMLINK_NOFOLLOW))
	line := s.line(&st)
	kind := st.Mode & unix.S_IFMT
	if kind == unix.S_IFREG || kind == unix.S_IFDIR {
		fd, err := unix.Openat(parent, child, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NOATIME, 0)
		must(s.t, err)
		if kind == unix.S_IFDIR {
			s.folder(fd, name)
			return
		}
		line += fmt.Sprintf(" size %d sum %x attrs %s", st.Size, contentOf(s.t, fd, st.Size), attrsOf(s.t, fd))
		unix.Close(fd)
	}
	if kind == unix.S_IFLNK {
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(parent, child, target)
		must(s.t, err)
		line += fmt.Sprintf(" to %q", target[:n])
	}
	key := inode{st.Dev, st.Ino}
	if first, ok := s.seen[key]; ok {
		line += " same as " + first
	} else {
		s.seen[key] = name
	}
	s.lines[name] = fmt.Sprintf("%s links %d", line, st.Nlink)
}

// contentOf returns a checksum of an open file. It covers every block that is not all zeros, with its offset, so that a
// terabyte of holes takes no time.
func contentOf(t testing.TB, fd int, size int64) []byte {
	t.Helper()
	const block = 4096
	sum := sha256.New()
	buf := make([]byte, 64*block)
	for at := int64(0); at < size; {
		data, hole := nextData(fd, at, size)
		for at = data / block * block; at < hole; {
			n, err := unix.Pread(fd, buf, at)
			must(t, err)
			for chunk := range slices.Chunk(buf[:n], block) {
				sumBlock(sum, at, chunk)
				at += int64(len(chunk))
			}
			if n == 0 {
				t.Fatal("a file shrank")
			}
		}
		at = max(at, hole)
	}
	return sum.Sum(nil)[:16]
}

func sumBlock(sum hash.Hash, at int64, block []byte) {
	if len(bytes.Trim(block, "\x00")) > 0 {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(at)))
		sum.Write(block)
	}
}

// attrsOf lists the extended attributes of an open file with calls that the code under test does not use.
func attrsOf(t testing.TB, fd int) string {
	t.Helper()
	path := fmt.Sprint("/proc/self/fd/", fd)
	buf := make([]byte, 64<<10)
	n, err := unix.Listxattr(path, buf)
	must(t, err)
	var lines []string
	for name := range strings.SplitSeq(string(buf[:n]), "\x00") {
		if name == "" {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Getxattr(path, name, value)
		must(t, err)
		lines = append(lines, fmt.Sprintf("%q=%q", name, value[:n]))
	}
	slices.Sort(lines)
	return strings.Join(lines, ",")
}

// requireEqual fails and prints the names that differ.
func requireEqual(t testing.TB, want, got map[string]string) {
	t.Helper()
	if maps.Equal(want, got) {
		return
	}
	for name, line := range want {
		if got[name] != line {
			t.Errorf("%q:\n want %s\n  got %s", name, line, got[name])
		}
	}
	for name, line := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%q must not be there: %s", name, line)
		}
	}
	t.FailNow()
}
