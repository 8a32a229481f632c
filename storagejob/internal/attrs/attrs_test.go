package attrs

import (
	"archive/tar"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWhatIsAppliedIsThere: the order in which attributes are set matters, because each may change another one.
func TestWhatIsAppliedIsThere(t *testing.T) {
	capability := string([]byte{1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	mtime := time.Unix(1_700_000_000, 5)
	for name, want := range map[string]Attributes{
		"plain":           {mode: 0o640, uid: 1000, gid: 1001, ModTime: mtime},
		"unreadable":      {mode: 0, ModTime: mtime},
		"setuid":          {mode: 0o6755, uid: 7, gid: 8, ModTime: time.Unix(-5, 1)},
		"large owner":     {mode: 0o600, uid: 4_000_000_000, gid: 4_000_000_000, ModTime: mtime},
		"extended":        {mode: 0o600, ModTime: mtime, xattrs: map[string]string{"user.odd=name%3D": "\x00=", "user.empty": ""}},
		"file capability": {mode: 0o755, uid: 1000, ModTime: mtime, xattrs: map[string]string{"security.capability": capability}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Create(filepath.Join(t.TempDir(), "file"))
			must(t, err)
			defer f.Close()
			fd := int(f.Fd())
			must(t, unix.Fsetxattr(fd, "user.old", []byte("must go"), 0))
			skipped, err := want.Apply(fd)
			if err != nil || skipped != 0 {
				t.Fatalf("%d skipped, %v", skipped, err)
			}
			got, err := Of(fd)
			must(t, err)
			if !got.ModTime.Equal(want.ModTime) {
				t.Errorf("the time is %v, want %v", got.ModTime, want.ModTime)
			}
			got.ModTime = want.ModTime
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
			// They also survive the conversion to a header and back.
			var st unix.Stat_t
			must(t, unix.Fstat(fd, &st))
			if again := FromHeader(Header("file", &st, got.xattrs)); !again.ModTime.Equal(want.ModTime) {
				t.Errorf("in a header, the time is %v, want %v", again.ModTime, want.ModTime)
			} else if again.ModTime = want.ModTime; !reflect.DeepEqual(again, want) {
				t.Errorf("in a header: %+v, want %+v", again, want)
			}
		})
	}
}

// TestOnlyTheUsersAttributesAreKept: attributes that belong to the machine are dropped even if an archive contains
// them.
func TestOnlyTheUsersAttributesAreKept(t *testing.T) {
	got := FromHeader(&tar.Header{PAXRecords: map[string]string{
		Prefix + "user.mine": "1", Prefix + "security.selinux": "2", Prefix + "trusted.overlay.opaque": "y",
		"user.other": "3", "mtime": "4",
	}})
	if want := map[string]string{"user.mine": "1"}; !reflect.DeepEqual(got.xattrs, want) {
		t.Errorf("kept %q, want %q", got.xattrs, want)
	}
}

func TestTimes(t *testing.T) {
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(-1<<31, 999_999_999)} {
		ts, err := Times(at)
		must(t, err)
		if got := time.Unix(ts[1].Unix()); !got.Equal(at) || ts[0].Nsec != unix.UTIME_OMIT {
			t.Errorf("%v became %+v", at, ts)
		}
	}
}

func TestRoomOfAFileSystem(t *testing.T) {
	volume := t.TempDir()
	must(t, unix.Mount("tmpfs", volume, "tmpfs", 0, "size=1m,nr_inodes=4"))
	t.Cleanup(func() { must(t, unix.Unmount(volume, unix.MNT_DETACH)) })
	dir, err := os.Open(volume)
	must(t, err)
	defer dir.Close()
	if !hasRoom(int(dir.Fd())) {
		t.Error("an empty file system has no room")
	}
	for i := range 4 {
		_ = os.WriteFile(filepath.Join(volume, fmt.Sprint(i)), nil, 0o600)
	}
	if hasRoom(int(dir.Fd())) {
		t.Error("a file system without inodes has room")
	}
}
