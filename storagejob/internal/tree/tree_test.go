package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func pack(t testing.TB, dir string) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := Pack(t.Context(), dir, "", &out, io.Discard, new(Counter)); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// restoreInto unpacks and swaps, like the job.
func restoreInto(t testing.TB, dir string, archive []byte) error {
	t.Helper()
	v, err := OpenVolume(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := v.Unpack(t.Context(), bytes.NewReader(archive), unlimited, new(Counter)); err != nil {
		return errors.Join(err, v.Discard())
	}
	if err := v.Commit("sum"); err != nil {
		return err
	}
	return v.Swap(t.Context(), "sum")
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// populate creates a home with one file of every kind.
func populate(t testing.TB, dir string) {
	t.Helper()
	in := func(name string) string { return filepath.Join(dir, name) }
	must(t, os.MkdirAll(in("a/b/c"), 0o755))
	must(t, os.Mkdir(in("empty"), 0o700))
	must(t, os.WriteFile(in("a/file"), []byte("hello"), 0o640))
	must(t, os.WriteFile(in("a/nothing"), nil, 0o000))
	must(t, os.WriteFile(in("한국어 \xff\xfe\nname"), []byte("bytes"), 0o600))
	must(t, os.WriteFile(in("a/b/program"), []byte("#!"), 0o755))
	must(t, unix.Chown(in("a/b/program"), 12345, 4_000_000_000))
	must(t, unix.Chmod(in("a/b/program"), 0o6755))
	must(t, unix.Chmod(in("empty"), 0o3777))
	must(t, os.Link(in("a/file"), in("a/b/c/again")))
	must(t, os.Symlink("/etc/passwd", in("absolute")))
	must(t, os.Symlink("../../../nowhere", in("a/dangling")))
	must(t, os.Link(in("absolute"), in("absolute-too")))
	must(t, unix.Lchown(in("absolute"), 7, 8))
	must(t, os.WriteFile(in("sparse"), nil, 0o600))
	must(t, os.Truncate(in("sparse"), 40<<20))
	f, err := os.OpenFile(in("sparse"), os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte("in the middle"), 17<<20)
	must(t, err)
	must(t, f.Close())
	must(t, unix.Setxattr(in("a/file"), "user.odd=name%3D", []byte("\x00=\n\xff"), 0))
	must(t, unix.Setxattr(in("a/file"), "user.empty", nil, 0))
	must(t, unix.Setxattr(in("a"), "user.dir", []byte("x"), 0))
	must(t, unix.Setxattr(in("a"), "system.posix_acl_default", acl(7, 5, 1000), 0))
	must(t, unix.Setxattr(in("a/file"), "system.posix_acl_access", acl(6, 4, 1001), 0))
	must(t, unix.Setxattr(dir, "user.root", []byte("kept"), 0))
	must(t, unix.Setxattr(in("a/b/program"), "security.capability", capability, 0))
	must(t, os.Mkdir(in("a/empty"), 0o711)) // inherits the default ACL
	must(t, unix.UtimesNanoAt(unix.AT_FDCWD, in("a/dangling"), []unix.Timespec{{}, {Sec: 5, Nsec: 123456789}},
		unix.AT_SYMLINK_NOFOLLOW))
	for name, when := range map[string]time.Time{
		"a/file": time.Unix(1_700_000_000, 1), "a/b": time.Unix(-5, 999_999_999), "empty": time.Unix(4_000_000_000, 5), ".": time.Unix(1, 2),
	} {
		must(t, os.Chtimes(in(name), time.Time{}, when))
	}
}

// capability is cap_net_raw=ep as the kernel stores it.
var capability = []byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// acl returns a POSIX ACL in the kernel's form. The owner and the mask get the permissions in owner; the group, others
// and the user with the id uid get those in rest.
func acl(owner, rest byte, uid uint16) []byte {
	entry := func(tag, perm byte, id uint32) []byte {
		return []byte{tag, 0, perm, 0, byte(id), byte(id >> 8), byte(id >> 16), byte(id >> 24)}
	}
	const nobody = 0xffffffff
	return slices.Concat([]byte{2, 0, 0, 0}, entry(1, owner, nobody), entry(2, rest, uint32(uid)),
		entry(4, rest, nobody), entry(16, owner, nobody), entry(32, rest, nobody))
}

func TestRoundTripOfOneOfEverything(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	populate(t, from)
	want := snapshot(t, from)
	// The volume has other content, all of which must go. The restored files must not inherit its default ACL.
	must(t, os.MkdirAll(filepath.Join(to, "a/file"), 0o755))
	must(t, os.Symlink("/", filepath.Join(to, "empty")))
	must(t, os.WriteFile(filepath.Join(to, "left over"), []byte("x"), 0o600))
	must(t, unix.Setxattr(to, "system.posix_acl_default", acl(7, 7, 99), 0))
	must(t, unix.Setxattr(to, "user.old", []byte("x"), 0))
	must(t, unix.Chmod(to, 0o2775))

	must(t, restoreInto(t, to, pack(t, from)))
	requireEqual(t, want, snapshot(t, to))

	var st unix.Stat_t
	must(t, unix.Stat(filepath.Join(to, "sparse"), &st))
	if st.Blocks*512 > 1<<20 {
		t.Errorf("the sparse file of 40 MiB takes %d bytes", st.Blocks*512)
	}
}

func TestOtherTarProgramsReadIt(t *testing.T) {
	from := t.TempDir()
	populate(t, from)
	tr := tar.NewReader(bytes.NewReader(pack(t, from)))
	names := 0
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		if names++; names == 1 && h.Name != "./" {
			t.Errorf("the archive begins with %q", h.Name)
		}
	}
	if names != 15 {
		t.Errorf("%d entries", names)
	}
}

func TestSocketsAndFifosAreSkippedAndCounted(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(from, "fifo"), 0o600))
	must(t, unix.Mknod(filepath.Join(from, "null"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	must(t, unix.Mknod(filepath.Join(from, "socket"), unix.S_IFSOCK|0o600, 0))
	must(t, os.WriteFile(filepath.Join(from, "file"), []byte("123"), 0o600))
	var out bytes.Buffer
	count := new(Counter)
	must(t, Pack(t.Context(), from, "", &out, io.Discard, count))
	if count.Skipped.Load() != 3 || count.Files.Load() != 1 || count.Bytes.Load() != 3 {
		t.Errorf("skipped %d, files %d, bytes %d", count.Skipped.Load(), count.Files.Load(), count.Bytes.Load())
	}
	must(t, restoreInto(t, to, out.Bytes()))
	names, err := os.ReadDir(to)
	must(t, err)
	if len(names) != 1 || names[0].Name() != "file" {
		t.Errorf("restored %v", names)
	}
}

func TestArchiveWithoutEntriesEmptiesAndLeavesTheRootAlone(t *testing.T) {
	to := t.TempDir()
	must(t, unix.Chmod(to, 0o1750))
	must(t, unix.Chown(to, 1000, 1001))
	must(t, unix.Setxattr(to, "user.mine", []byte("x"), 0))
	want := snapshot(t, to)
	stamp := time.Unix(77, 88)
	must(t, os.WriteFile(filepath.Join(to, "file"), nil, 0o600))
	must(t, os.Chtimes(to, time.Time{}, stamp))
	var empty bytes.Buffer
	must(t, tar.NewWriter(&empty).Close())
	must(t, restoreInto(t, to, empty.Bytes()))
	info, err := os.Stat(to)
	must(t, err)
	if !info.ModTime().Equal(stamp) {
		t.Errorf("the root's time is %v", info.ModTime())
	}
	got := snapshot(t, to)
	cut := func(m map[string]string) string {
		before, after, _ := strings.Cut(m["."], " time ")
		_, attrs, _ := strings.Cut(after, " attrs ")
		return before + attrs
	}
	if len(got) != 1 || cut(got) != cut(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestStagingFolderIsNotPacked(t *testing.T) {
	from := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(from, legacyStaging, "tree"), 0o700))
	must(t, os.MkdirAll(filepath.Join(from, "a", legacyStaging), 0o700)) // the user's own
	packed := pack(t, from)
	tr := tar.NewReader(bytes.NewReader(packed))
	var names []string
	for h, err := tr.Next(); err == nil; h, err = tr.Next() {
		names = append(names, h.Name)
	}
	if want := []string{"./", "./a/", "./a/" + legacyStaging + "/"}; !slices.Equal(names, want) {
		t.Errorf("packed %q, want %q", names, want)
	}
}
