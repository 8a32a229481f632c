package tree

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// deepen creates a chain of folders with this name below dir, with a file in the innermost one.
func deepen(t testing.TB, dir, name string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	must(t, err)
	for i := range depth {
		must(t, unix.Mkdirat(fd, name, 0o700))
		next, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY, 0)
		must(t, err)
		must(t, unix.UtimesNanoAt(fd, name, []unix.Timespec{{}, {Sec: int64(i), Nsec: 7}}, 0))
		unix.Close(fd)
		fd = next
	}
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY, 0o600)
	must(t, err)
	unix.Close(file)
	must(t, unix.Linkat(fd, "file", fd, "link", 0))
	must(t, unix.Symlinkat(strings.Repeat("t", unix.PathMax-1), fd, "longest"))
	unix.Close(fd)
}

// TestFoldersDeeperThanAPath: no single path accepted by the kernel reaches the innermost folder.
func TestFoldersDeeperThanAPath(t *testing.T) {
	from, to := inMemory(t), inMemory(t)
	deepen(t, from, strings.Repeat("\xff", 255), 40)
	deepen(t, from, "d", 2500)
	deepen(t, to, "d", 1000)
	deepen(t, to, "old", 2000)
	want := snapshot(t, from)
	if len(want) < 2540 {
		t.Fatalf("only %d entries", len(want))
	}
	must(t, restoreInto(t, to, pack(t, from)))
	requireEqual(t, want, snapshot(t, to))
}

// TestManyAttributes uses as many attributes as ext4 holds in a block, and the largest value.
func TestManyAttributes(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	for i := range 100 {
		path := filepath.Join(from, fmt.Sprint(i))
		must(t, os.WriteFile(path, nil, 0o600))
		for j := range i {
			must(t, unix.Setxattr(path, fmt.Sprint("user.", j), []byte(strings.Repeat("x", j%5)), 0))
		}
	}
	must(t, unix.Setxattr(filepath.Join(from, "0"), "user.large", []byte(strings.Repeat("l", 3900)), 0))
	want := snapshot(t, from)
	must(t, restoreInto(t, to, pack(t, from)))
	requireEqual(t, want, snapshot(t, to))
}

// TestMoreThanAnyReaderAccepts: an archive that could not be restored is not created.
func TestMoreThanAnyReaderAccepts(t *testing.T) {
	from := inMemory(t)
	for name, size := range map[string]int64{"plain": 0, "sparse": mib} {
		path := filepath.Join(from, name)
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Truncate(path, size))
		for i := range 17 {
			if err := unix.Setxattr(path, fmt.Sprint("user.", i), make([]byte, 64<<10), 0); err != nil {
				t.Skipf("no file system here holds that much: %v", err)
			}
		}
		if err := Pack(t.Context(), from, "", io.Discard, io.Discard, new(Counter)); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		must(t, os.Remove(path))
	}
}

// TestManyFiles uses folders with more entries than are in memory at once. The long form, CODEHUB_TEST_FILES=1000000,
// also reports time and memory.
func TestManyFiles(t *testing.T) {
	files := 3000
	if text := os.Getenv("CODEHUB_TEST_FILES"); text != "" {
		var err error
		files, err = strconv.Atoi(text)
		must(t, err)
	}
	from, to := t.TempDir(), t.TempDir()
	const wide = 2000 // in a folder
	for i := range files {
		dir := filepath.Join(from, fmt.Sprint("folder", i/wide))
		if i%wide == 0 {
			must(t, os.Mkdir(dir, 0o755))
		}
		must(t, os.WriteFile(filepath.Join(dir, fmt.Sprint("file", i)), fmt.Appendf(nil, "file %d", i), 0o644))
	}
	must(t, os.WriteFile(filepath.Join(to, "old"), nil, 0o600))

	r, w, err := os.Pipe()
	must(t, err)
	began := time.Now()
	packed := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(w, 1<<20)
		err := Pack(t.Context(), from, "", buffered, io.Discard, new(Counter))
		if err == nil {
			err = buffered.Flush()
		}
		w.Close()
		packed <- err
	}()
	v, err := OpenVolume(to, "")
	must(t, err)
	defer v.Close()
	count := new(Counter)
	must(t, v.Unpack(t.Context(), r, unlimited, count))
	must(t, <-packed)
	unpacked := time.Since(began)
	must(t, v.Commit("sum"))
	must(t, v.Swap(t.Context(), "sum"))
	if got, want := count.Files.Load(), int64(files+(files+wide-1)/wide); got != want {
		t.Errorf("%d entries of %d", got, want)
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	t.Logf("%d files: packed and unpacked in %v, on disk and swapped in %v; %d MiB of heap from the system, at "+
		"most %d MiB resident",
		files, unpacked.Round(time.Millisecond), time.Since(began).Round(time.Millisecond), memory.HeapSys>>20,
		resident(t)>>20)
	// A million snapshots would take too long.
	requireSameListing(t, from, to)
}

// requireSameListing compares two trees entry by entry.
func requireSameListing(t *testing.T, want, got string) {
	t.Helper()
	must(t, filepath.WalkDir(want, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		other := got + strings.TrimPrefix(path, want)
		var a, b unix.Stat_t
		if err := unix.Lstat(path, &a); err != nil {
			return err
		}
		if err := unix.Lstat(other, &b); err != nil {
			return err
		}
		if a.Mode != b.Mode || a.Size != b.Size && !entry.IsDir() || a.Mtim != b.Mtim || a.Nlink != b.Nlink {
			t.Fatalf("%s: %+v became %+v", path, a, b)
		}
		if entry.IsDir() {
			return nil
		}
		left, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		right, err := os.ReadFile(other)
		if err == nil && string(left) != string(right) {
			t.Fatalf("%s holds %q", other, right)
		}
		return err
	}))
}

// resident returns the peak memory of this process, in bytes.
func resident(t *testing.T) int64 {
	t.Helper()
	var usage unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &usage))
	return usage.Maxrss << 10
}
