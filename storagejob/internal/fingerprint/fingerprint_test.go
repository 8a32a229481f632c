package fingerprint

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
)

// skipped is the entry that a fingerprint ignores.
const skipped = ".staging"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// folder returns an empty folder whose fingerprint can be taken.
func folder(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if system.mount(int(f.Fd()), st.Dev) == "" {
		t.Skipf("no fingerprint is taken of what is on the file system of %s: set TMPDIR to a folder on ext4, XFS or Btrfs", os.TempDir())
	}
	return dir
}

// of returns the fingerprint once the folder has been left alone for a tick.
func of(t *testing.T, dir string) (sum string) {
	t.Helper()
	wait.Until(t, "a fingerprint", func() bool {
		var err error
		sum, err = Of(t.Context(), dir, skipped)
		must(t, err)
		return sum != ""
	})
	return sum
}

// grow creates a tree of files, folders and links in dir, with at least as many of each kind as there are changes for
// that kind. It returns their paths by kind.
func grow(t *testing.T, dir string, random *rand.Rand) (files, folders, links []string) {
	t.Helper()
	folders = []string{dir}
	for i := 0; i < 60 || len(files) < len(fileChanges) || len(folders) < len(folderChanges) ||
		len(links) < len(linkChanges); i++ {
		path := filepath.Join(folders[random.IntN(len(folders))], fmt.Sprintf("n\xff%d", i))
		switch random.IntN(4) {
		case 0:
			must(t, os.Mkdir(path, 0o755))
			folders = append(folders, path)
		case 1:
			must(t, os.Symlink("target", path))
			links = append(links, path)
		default:
			must(t, os.WriteFile(path, make([]byte, random.IntN(5000)+1), 0o644))
			must(t, unix.Setxattr(path, "user.a", []byte("value"), 0))
			files = append(files, path)
		}
	}
	return files, folders, links
}

// change is one way to change a path.
type change struct {
	name string
	do   func(path string) error
}

// keepingTime changes a file and then restores its modification time.
func keepingTime(do func(path string) error) func(path string) error {
	return func(path string) error {
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		return errors.Join(do(path),
			unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, unix.AT_SYMLINK_NOFOLLOW))
	}
}

// overwrite changes the first byte of a file.
func overwrite(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("x"), 0)
	return errors.Join(err, f.Close())
}

var (
	fileChanges = []change{
		{"content", overwrite},
		{"content, and the time set back", keepingTime(overwrite)},
		{"the same content again", func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path, text, 0o644))
		}},
		{"size", keepingTime(func(path string) error { return os.Truncate(path, 70_000) })},
		{"mode", func(path string) error { return os.Chmod(path, 0o4755) }},
		{"owner", func(path string) error { return os.Chown(path, 1234, -1) }},
		{"group", func(path string) error { return os.Chown(path, -1, 1234) }},
		{"time", func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 5)) }},
		{"attribute", func(path string) error { return unix.Setxattr(path, "user.b", nil, 0) }},
		{"value of an attribute", func(path string) error { return unix.Setxattr(path, "user.a", []byte("other"), 0) }},
		{"no attribute", func(path string) error { return unix.Removexattr(path, "user.a") }},
		{"name", func(path string) error { return os.Rename(path, path+"x") }},
		{"another name", func(path string) error { return os.Link(path, path+"x") }},
		{"removed", os.Remove},
		{"replaced by a copy", func(path string) error {
			text, err := os.ReadFile(path)
			return errors.Join(err, os.WriteFile(path+"x", text, 0o644), os.Rename(path+"x", path))
		}},
	}
	folderChanges = []change{
		{"new file", func(path string) error { return os.WriteFile(filepath.Join(path, "x"), nil, 0o600) }},
		{"new file, and the time set back", keepingTime(func(path string) error { return os.Mkdir(filepath.Join(path, "x"), 0o700) })},
		{"mode of a folder", func(path string) error { return os.Chmod(path, 0o700) }},
	}
	linkChanges = []change{
		{"target", func(path string) error { return errors.Join(os.Remove(path), os.Symlink("targeT", path)) }},
		{"owner of a link", func(path string) error { return os.Lchown(path, 1234, 1234) }},
	}
)

// TestEveryChangeShows: every change anywhere in a random tree changes its fingerprint, and an untouched tree keeps it.
func TestEveryChangeShows(t *testing.T) { seed.Each(t, everyChangeShows) }

func everyChangeShows(t *testing.T, random *rand.Rand) {
	dir := folder(t)
	files, folders, links := grow(t, dir, random)
	try := func(c change, path string) {
		before := of(t, dir)
		if again := of(t, dir); again != before {
			t.Fatalf("untouched, it changes: %s, %s", before, again)
		}
		if err := c.do(path); err != nil {
			t.Fatalf("%s of %q: %v", c.name, path, err)
		}
		if after := of(t, dir); after == before {
			t.Errorf("%s of %q does not show", c.name, path)
		}
	}
	// Each change gets its own path: repeating one on the same path would change nothing.
	for _, of := range []struct {
		changes []change
		paths   []string
	}{{fileChanges, files}, {folderChanges, folders}, {linkChanges, links}} {
		for i, at := range random.Perm(len(of.paths))[:len(of.changes)] {
			try(of.changes[i], of.paths[at])
		}
	}
}

// TestNoFingerprintOfWhatChangesNow: a write in the same tick as the fingerprint must not go unnoticed, so there is no
// fingerprint then.
func TestNoFingerprintOfWhatChangesNow(t *testing.T) {
	dir := folder(t)
	path := filepath.Join(dir, "file")
	must(t, os.WriteFile(path, []byte("1"), 0o600))
	of(t, dir)
	taken := 0
	for i := range 300 {
		must(t, overwrite(path))
		before, err := Of(t.Context(), dir, skipped)
		must(t, err)
		must(t, overwrite(path))
		if before != "" {
			taken++
			if after := of(t, dir); after == before {
				t.Fatalf("write %d does not show", i)
			}
		}
	}
	if taken > 30 { // a slow machine may lose the processor for a tick in between
		t.Errorf("%d of 300 were taken within a tick after a write", taken)
	}
}

func TestWhereItCannotBeTrusted(t *testing.T) {
	volume := folder(t)
	must(t, os.Mkdir(filepath.Join(volume, "mounted"), 0o700))
	of(t, volume)
	must(t, unix.Mount("tmpfs", filepath.Join(volume, "mounted"), "tmpfs", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(filepath.Join(volume, "mounted"), 0)) })
	for name, dir := range map[string]string{"a mounted file system in it": volume,
		"a file system that ends with the boot": filepath.Join(volume, "mounted"),
		"a file system that is not known":       "/proc/self/task"} {
		if sum, err := Of(t.Context(), dir, skipped); sum != "" || err != nil {
			t.Errorf("%s: %q, %v", name, sum, err)
		}
	}
	if _, err := Of(t.Context(), filepath.Join(volume, "none"), skipped); err == nil {
		t.Error("a folder that is not there has one")
	}
	f, err := os.Open(volume)
	must(t, err)
	defer f.Close()
	w := walker{walk: &walk{dev: 7}}
	for range 2 {
		must(t, w.entry(int(f.Fd()), ".", "", &unix.Stat_t{Dev: 7, Mode: unix.S_IFDIR, Ctim: unix.Timespec{Sec: 5}}))
	}
	if !w.coarse() {
		t.Error("times without nanoseconds are trusted")
	}
}

func TestTheStagingFolderDoesNotCount(t *testing.T) {
	dir := folder(t)
	must(t, os.Mkdir(filepath.Join(dir, skipped), 0o700))
	must(t, os.Mkdir(filepath.Join(dir, "below"), 0o700))
	before := of(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, skipped, "x"), nil, 0o600))
	if after := of(t, dir); after != before {
		t.Error("what is in it counts")
	}
	must(t, os.WriteFile(filepath.Join(dir, "below", skipped), nil, 0o600))
	if after := of(t, dir); after == before {
		t.Error("that name does not count anywhere")
	}
}

func TestItEndsWithItsContext(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	dir := folder(t)
	must(t, os.WriteFile(filepath.Join(dir, "x"), nil, 0o600))
	if _, err := Of(ctx, dir, skipped); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// BenchmarkOf measures a tree like node_modules.
func BenchmarkOf(b *testing.B) {
	dir := folder(b)
	for i := range 1000 {
		folder := filepath.Join(dir, fmt.Sprint(i))
		if err := os.Mkdir(folder, 0o700); err != nil {
			b.Fatal(err)
		}
		for j := range 40 {
			if err := os.WriteFile(filepath.Join(folder, fmt.Sprint(j)), nil, 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		if _, err := Of(b.Context(), dir, skipped); err != nil {
			b.Fatal(err)
		}
	}
}
