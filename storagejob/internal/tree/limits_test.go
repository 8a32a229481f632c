package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/sys/unix"
)

// unlimited is for tests of other features.
var unlimited = Limits{Bytes: math.MaxInt64}

// unpackInto unpacks into a volume and leaves the result there.
func unpackInto(t *testing.T, dir string, r io.Reader, limits Limits) (*Volume, error) {
	t.Helper()
	v, err := OpenVolume(dir, "")
	must(t, err)
	t.Cleanup(func() { v.Close() })
	return v, v.Unpack(t.Context(), r, limits, new(Counter))
}

func TestStreamUpToTheLimitAndNoFurther(t *testing.T) {
	archive := craft(t, file("12345"), file("123456"))
	for name, c := range map[string]struct {
		stream []byte
		limit  int
		ok     bool
	}{
		"exactly":          {archive, len(archive), true},
		"room to spare":    {archive, len(archive) + 1, true},
		"one byte more":    {archive, len(archive) - 1, false},
		"half":             {archive, len(archive) / 2, false},
		"nothing allowed":  {archive, 0, false},
		"padding":          {append(bytes.Clone(archive), make([]byte, 10<<10)...), len(archive) + 10<<10, true},
		"too much padding": {append(bytes.Clone(archive), make([]byte, 10<<10)...), len(archive) + 10<<10 - 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole": func(r io.Reader) io.Reader { return r }, "byte-wise": iotest.OneByteReader, "early EOF": iotest.DataErrReader,
			} {
				_, err := unpackInto(t, t.TempDir(), wrap(bytes.NewReader(c.stream)), Limits{Bytes: int64(c.limit)})
				if c.ok && err != nil || !c.ok && !errors.Is(err, ErrCorrupt) {
					t.Errorf("%s: %v", how, err)
				}
				if !c.ok && !strings.Contains(err.Error(), fmt.Sprintf("more than the allowed %d bytes", c.limit)) {
					t.Errorf("%s: the error does not name the limit: %v", how, err)
				}
			}
		})
	}
}

// TestSparseHeaderCountsAsWhatItUnpacksTo: a block of 512 bytes describes a file of 4 GiB that is a single hole.
func TestSparseHeaderCountsAsWhatItUnpacksTo(t *testing.T) {
	archive := oldSparse(t, 1<<32)
	h, err := tar.NewReader(bytes.NewReader(archive)).Next()
	if err != nil || h.Size != 1<<32 {
		t.Fatalf("the archive is not what it should be: %+v, %v", h, err)
	}
	if _, err := unpackInto(t, t.TempDir(), bytes.NewReader(archive), Limits{Bytes: 1 << 30}); !errors.Is(err,
		ErrCorrupt) {
		t.Errorf("got %v, want %v", err, ErrCorrupt)
	}
	dir := t.TempDir()
	_, err = unpackInto(t, dir, bytes.NewReader(oldSparse(t, 1<<20)), Limits{Bytes: 1 << 20})
	must(t, err)
	info, err := os.Stat(filepath.Join(dir, legacyStaging, stageTree, "sparse"))
	must(t, err)
	if info.Size() != 1<<20 {
		t.Errorf("a sparse file of 1 MiB became one of %d bytes", info.Size())
	}
}

// oldSparse returns an archive in the old GNU format, which Go can only read.
func oldSparse(t *testing.T, size int64) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "sparse", Mode: 0o600, Format: tar.FormatGNU}))
	must(t, tw.Close())
	block := out.Bytes()[:512]
	block[156] = tar.TypeGNUSparse
	copy(block[483:495], fmt.Sprintf("%011o", size))
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return out.Bytes()
}

// fileSystem mounts a new file system.
func fileSystem(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, options))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func TestUnpackingNeverFillsTheFileSystem(t *testing.T) {
	const share = 0.25
	large := &tar.Header{Typeflag: tar.TypeReg, Name: "large", Size: 64 << 20, Mode: 0o600}
	for name, c := range map[string]struct {
		options string
		write   func(tw *tar.Writer)
	}{
		"one large file": {"size=16m", func(tw *tar.Writer) {
			must(t, tw.WriteHeader(large))
			_, err := tw.Write(bytes.Repeat([]byte("x"), int(large.Size)))
			must(t, err)
		}},
		"many small files": {"size=16m", func(tw *tar.Writer) {
			for i := range 5000 {
				must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i), Size: 4 << 10,
					Mode: 0o600}))
				_, err := tw.Write(bytes.Repeat([]byte("x"), 4<<10))
				must(t, err)
			}
		}},
		"many names": {"size=16m,nr_inodes=1000", func(tw *tar.Writer) {
			for i := range 2000 {
				must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprint(i), Mode: 0o600}))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var archive bytes.Buffer
			tw := tar.NewWriter(&archive)
			c.write(tw)
			must(t, tw.Close())
			dir := fileSystem(t, c.options)
			must(t, os.WriteFile(filepath.Join(dir, "mine"), []byte("mine"), 0o600))
			before := snapshot(t, dir)

			limits := Limits{Bytes: math.MaxInt64, KeepFree: share}
			v, err := unpackInto(t, dir, bytes.NewReader(archive.Bytes()), limits)
			if !errors.Is(err, unix.ENOSPC) || errors.Is(err, ErrCorrupt) ||
				!strings.Contains(err.Error(), "must stay free") {
				t.Fatalf("got %v", err)
			}
			var st unix.Statfs_t
			must(t, unix.Statfs(dir, &st))
			if float64(st.Bfree) < share*float64(st.Blocks) || float64(st.Ffree) < share*float64(st.Files) {
				t.Errorf("left: %d of %d blocks, %d of %d inodes", st.Bfree, st.Blocks, st.Ffree, st.Files)
			}
			must(t, v.Discard())
			requireEqual(t, before, snapshot(t, dir))
			must(t, v.Close())

			// Without a reserve the file system itself refuses, with the same kind of error.
			if _, err := unpackInto(t, dir, bytes.NewReader(archive.Bytes()), unlimited); !errors.Is(err, unix.ENOSPC) {
				t.Errorf("without a reserve: %v", err)
			}
		})
	}
}

// TestHolesTakeNoRoom: a home may contain sparse files that are larger than the disk.
func TestHolesTakeNoRoom(t *testing.T) {
	from, to := t.TempDir(), fileSystem(t, "size=16m")
	must(t, os.WriteFile(filepath.Join(from, "sparse"), nil, 0o600))
	must(t, os.Truncate(filepath.Join(from, "sparse"), 100<<20))
	var archive bytes.Buffer
	count := new(Counter)
	must(t, Pack(t.Context(), from, "", &archive, io.Discard, count))
	content := int64(archive.Len()) + count.Holes.Load()
	_, err := unpackInto(t, to, bytes.NewReader(archive.Bytes()), Limits{Bytes: content, KeepFree: 0.5})
	must(t, err)
	// Holes that the archive only describes count like content.
	if _, err := unpackInto(t, t.TempDir(), bytes.NewReader(archive.Bytes()),
		Limits{Bytes: 100<<20 - 1}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("more holes than on record: %v", err)
	}
}
