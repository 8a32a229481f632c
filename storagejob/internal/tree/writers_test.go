package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/attrs"
	"github.com/codehub/gateway/storagejob/internal/pax"
)

// TestAttributesOfFoldersComeAfterTheirFiles: a folder gets its time and mode after its last file, even if the stream
// leaves it, comes back, and creates folders and links in between.
func TestAttributesOfFoldersComeAfterTheirFiles(t *testing.T) {
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	when := func(i int) time.Time { return time.Unix(int64(1000+i), int64(i)) }
	write := func(h tar.Header, i int) {
		h.Format, h.ModTime = tar.FormatPAX, when(i)
		must(t, tw.WriteHeader(&h))
		_, err := tw.Write(bytes.Repeat([]byte("x"), int(h.Size)))
		must(t, err)
	}
	const folders, files = 20, 3 * batchFiles
	for i := range folders {
		write(tar.Header{Typeflag: tar.TypeDir, Name: fmt.Sprintf("%d/", i), Mode: 0o555}, i)
	}
	for f := range files {
		for i := range folders {
			name := fmt.Sprintf("%d/%d", i, f)
			write(tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(f), Mode: 0o400}, f)
			if f == files/2 {
				write(tar.Header{Typeflag: tar.TypeLink, Name: name + "-again", Linkname: name}, f)
				write(tar.Header{Typeflag: tar.TypeDir, Name: name + "-folder/", Mode: 0o500}, f)
			}
		}
	}
	must(t, tw.Close())
	dir := t.TempDir()
	must(t, restoreInto(t, dir, out.Bytes()))
	for i := range folders {
		for name, want := range map[string]struct {
			i    int
			mode uint32
		}{
			"": {i, unix.S_IFDIR | 0o555}, "/0": {0, unix.S_IFREG | 0o400},
			fmt.Sprintf("/%d-again", files/2):  {files / 2, unix.S_IFREG | 0o400},
			fmt.Sprintf("/%d-folder", files/2): {files / 2, unix.S_IFDIR | 0o500},
		} {
			var st unix.Stat_t
			must(t, unix.Stat(filepath.Join(dir, fmt.Sprint(i)+name), &st))
			if got := time.Unix(st.Mtim.Unix()); !got.Equal(when(want.i)) || st.Mode != want.mode {
				t.Errorf("%d%s has time %v and mode %o, not %v and %o", i, name, got, st.Mode, when(want.i), want.mode)
			}
		}
	}
}

// TestTheFirstFileThatFailsIsNamed: if several files fail, the error names the first one in the stream, and nothing
// later in the stream hides it.
func TestTheFirstFileThatFailsIsNamed(t *testing.T) {
	var headers []tar.Header
	for i := range 5 * batchFiles {
		headers = append(headers, file(fmt.Sprint("file", i)))
	}
	for _, i := range []int{10, 11, 2 * batchFiles, 4 * batchFiles} {
		headers[i].Format, headers[i].PAXRecords = tar.FormatPAX,
			map[string]string{attrs.Prefix + "user.large": strings.Repeat("x", 70_000)}
	}
	archive := append(craft(t, headers...)[:len(craft(t, headers...))-1024], "garbage"...)
	for range 20 {
		v, err := unpackInto(t, t.TempDir(), bytes.NewReader(archive), unlimited)
		var r *RefusedError
		if !errors.As(err, &r) || !r.ByContent || !strings.Contains(err.Error(), `unpacking "file10":`) {
			t.Fatalf("got %v", err)
		}
		must(t, v.Close())
	}
}

// TestNothingIsWrittenAfterAnError: when Unpack returns, no goroutine creates files any more, and no file is open.
func TestNothingIsWrittenAfterAnError(t *testing.T) {
	var headers []tar.Header
	for i := range 20 * batchFiles {
		headers = append(headers, file(fmt.Sprintf("%d/%d", i%7, i)))
	}
	archive := craft(t, headers...)
	for range 20 {
		dir := t.TempDir()
		open := openFiles(t)
		v, err := unpackInto(t, dir, &cutReader{bytes.NewReader(archive), len(archive) - 1024}, unlimited)
		if !errors.Is(err, errKilled) {
			t.Fatalf("got %v", err)
		}
		before := snapshot(t, dir)
		must(t, os.Chtimes(filepath.Join(dir, legacyStaging, stageTree), time.Time{}, time.Unix(1, 0)))
		after := snapshot(t, dir)
		delete(before, legacyStaging+"/"+stageTree)
		delete(after, legacyStaging+"/"+stageTree)
		requireEqual(t, before, after)
		must(t, v.Close())
		if now := openFiles(t); now != open {
			t.Fatalf("%d open files became %d", open, now)
		}
	}
}

// TestLargeAttributesGoToAWriterAtOnce: files with attributes of almost a megabyte each, which XFS and btrfs support,
// do not add up in memory while they wait for a writer.
func TestLargeAttributesGoToAWriterAtOnce(t *testing.T) {
	headers := []tar.Header{file("a"), file("b"), file("c")}
	for i := range headers {
		headers[i].Format, headers[i].PAXRecords = tar.FormatPAX,
			map[string]string{attrs.Prefix + "trusted.large": strings.Repeat("x", pax.MaxRecords-1000)}
	}
	top, err := os.Open(t.TempDir())
	must(t, err)
	defer top.Close()
	count := new(Counter)
	u := &unpacker{ctx: t.Context(), count: count, buf: make([]byte, copyBuffer), writers: newWriters(count),
		flusher: newFlusher(func() error { return nil }), limit: unlimited.Bytes}
	defer func() { must(t, u.flusher.stop()) }()
	u.folders = folders{top: newFolder("", int(top.Fd())), writers: u.writers}
	archive := bytes.NewReader(craft(t, headers...))
	must(t, u.unpack(readerFunc(func(p []byte) (int, error) {
		if b := u.writers.current; b != nil && len(b.files) > 0 {
			t.Errorf("%d files still wait while more is read", len(b.files))
		}
		return archive.Read(p)
	})))
	if n := count.Files.Load(); n != 3 {
		t.Errorf("%d files", n)
	}
}

// readerFunc is a reader.
type readerFunc func([]byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// openFiles counts the descriptors of this process.
func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(names)
}
