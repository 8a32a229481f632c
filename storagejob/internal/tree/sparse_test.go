package tree

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// sparseAt creates a file of this size with non-zero data only in these parts.
func sparseAt(t testing.TB, path string, size int64, parts ...pax.Extent) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for _, part := range parts {
		_, err := f.WriteAt(bytes.Repeat([]byte("data"), int(part.Length/4+1))[:part.Length], part.Offset)
		must(t, err)
	}
	must(t, f.Sync())
}

// part returns an extent.
func part(offset, length int64) pax.Extent { return pax.Extent{Offset: offset, Length: length} }

// mapOfFile lists the parts of a file that are not holes, however small the holes are.
func mapOfFile(t testing.TB, path string) (parts []pax.Extent, size, blocks int64) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	must(t, f.Sync())
	var st unix.Stat_t
	must(t, unix.Fstat(int(f.Fd()), &st))
	for at := int64(0); at < st.Size; {
		data, hole := nextData(int(f.Fd()), at, st.Size)
		if data < hole {
			parts = append(parts, part(data, hole-data))
		}
		at = hole
	}
	return parts, st.Size, st.Blocks
}

const mib = 1 << 20

func TestHolesAreArchivedAsSuch(t *testing.T) {
	var many []pax.Extent
	for i := range int64(1000) {
		many = append(many, part(i*256<<10, 4096))
	}
	for name, c := range map[string]struct {
		size  int64
		parts []pax.Extent
		// stored is about how many bytes of the file the archive may contain.
		stored int
	}{
		"one hole":               {100 * mib, nil, 0},
		"data at the start":      {100 * mib, []pax.Extent{part(0, mib)}, mib},
		"data at the end":        {100 * mib, []pax.Extent{part(99*mib, mib)}, mib},
		"data in the middle":     {100 * mib, []pax.Extent{part(50*mib, mib), part(70*mib, 4096)}, mib + 4096},
		"an odd size":            {100*mib + 77, []pax.Extent{part(4096, 10), part(100*mib, 77)}, 8192},
		"an odd size, a hole":    {100*mib + 77, []pax.Extent{part(4096, 10)}, 4096},
		"smaller than a hole":    {60 << 10, nil, 60 << 10},
		"small holes":            {mib, []pax.Extent{part(0, 4096), part(32<<10, 4096), part(64<<10, mib-64<<10)}, mib},
		"the smallest hole":      {minHole, nil, 0},
		"a thousand parts":       {512 * mib, many, 1000 * 4100},
		"a terabyte":             {1 << 40, []pax.Extent{part(0, 4096), part(1<<39, mib)}, mib + 4096},
		"the size of ext4's end": {16<<40 - 4096, []pax.Extent{part(16<<40-8192, 4096)}, 4096},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := t.TempDir(), t.TempDir()
			path := filepath.Join(from, "file")
			sparseAt(t, path, c.size, c.parts...)
			must(t, os.WriteFile(filepath.Join(from, "next"), []byte("next"), 0o600))
			must(t, os.WriteFile(filepath.Join(to, "file"), []byte("old"), 0o600))
			parts, size, blocks := mapOfFile(t, path)

			var archive bytes.Buffer
			count := new(Counter)
			must(t, Pack(t.Context(), from, "", &archive, io.Discard, count))
			if archive.Len() > c.stored+100_000 {
				t.Errorf("an archive of %d bytes for %d", archive.Len(), c.stored)
			}
			if got := count.Bytes.Load(); got != c.size+4 {
				t.Errorf("counted %d bytes", got)
			}
			// Any reader that knows the form gets the bytes.
			if c.size <= 512*mib {
				requireContent(t, archive.Bytes(), path)
			}
			v, err := OpenVolume(to, "")
			must(t, err)
			defer v.Close()
			back := new(Counter)
			limits := Limits{Bytes: int64(archive.Len()) + count.Holes.Load()}
			must(t, v.Unpack(t.Context(), iotest.DataErrReader(&archive), limits, back))
			must(t, v.Commit("sum"))
			must(t, v.Swap(t.Context(), "sum"))
			if back.Bytes.Load() != count.Bytes.Load() || back.Holes.Load() != count.Holes.Load() {
				t.Errorf("packed %d bytes, %d of them holes; unpacked %d and %d",
					count.Bytes.Load(), count.Holes.Load(), back.Bytes.Load(), back.Holes.Load())
			}
			gotParts, gotSize, gotBlocks := mapOfFile(t, filepath.Join(to, "file"))
			// A file system may need blocks for the list of extents.
			if gotSize != size || !slices.Equal(gotParts, parts) || gotBlocks > blocks+64 {
				t.Errorf("size %d in %d blocks, data at %v;\n want %d in %d, %v", gotSize, gotBlocks, gotParts, size,
					blocks, parts)
			}
			sameParts(t, path, filepath.Join(to, "file"), parts)
			if content, err := os.ReadFile(filepath.Join(to, "next")); err != nil || string(content) != "next" {
				t.Errorf("the next file holds %q, %v", content, err)
			}
		})
	}
}

// sameParts compares these parts of two files.
func sameParts(t *testing.T, want, got string, parts []pax.Extent) {
	t.Helper()
	a, err := os.Open(want)
	must(t, err)
	defer a.Close()
	b, err := os.Open(got)
	must(t, err)
	defer b.Close()
	for _, part := range parts {
		left, right := make([]byte, part.Length), make([]byte, part.Length)
		_, err := a.ReadAt(left, part.Offset)
		must(t, err)
		_, err = b.ReadAt(right, part.Offset)
		must(t, err)
		if !bytes.Equal(left, right) {
			t.Errorf("the content at %d differs", part.Offset)
		}
	}
}

// requireContent reads the entry "./file" of an archive with Go's reader.
func requireContent(t *testing.T, archive []byte, path string) {
	t.Helper()
	want, err := os.Open(path)
	must(t, err)
	defer want.Close()
	tr := tar.NewReader(bytes.NewReader(archive))
	for {
		h, err := tr.Next()
		must(t, err)
		if h.Name != "./file" {
			continue
		}
		left, right := make([]byte, mib), make([]byte, mib)
		for {
			n, err := io.ReadFull(tr, left)
			m, _ := io.ReadFull(want, right)
			if n != m || !bytes.Equal(left[:n], right[:m]) {
				t.Fatal("another reader gets something else")
			}
			if err != nil {
				return
			}
		}
	}
}

// TestTerabyteOfNothingIsQuick: holes are neither read nor written, in both directions.
func TestTerabyteOfNothingIsQuick(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	sparseAt(t, filepath.Join(from, "file"), 1<<40, part(1<<39, mib))
	var before, after unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	must(t, restoreInto(t, to, pack(t, from)))
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if spent > 2*time.Second {
		t.Errorf("took %v of processor time", spent)
	}
}

// TestMapOfAnyFileIsBounded: a file with more extents than a map may contain is archived with only its largest holes.
func TestMapOfAnyFileIsBounded(t *testing.T) {
	random := uint64(1)
	var list, all []pax.Extent
	at, largest := int64(0), []int64(nil)
	for range 200_000 {
		random = random*6364136223846793005 + 1442695040888963407
		gap := int64(random >> 44) // up to 1 MiB
		e := part(at+gap, 1+int64(random>>20&0xffff))
		at = e.End()
		all, list, largest = append(all, e), append(list, e), append(largest, gap)
		if len(list) > maxExtents {
			list = thinned(list)
		}
	}
	size := at + 100
	list = withoutSmallHoles(list, size)
	if len(list) > maxExtents || len(list) < maxExtents/2 {
		t.Errorf("%d extents", len(list))
	}
	if last := list[len(list)-1]; last.End() != size {
		t.Errorf("the small hole at the end is left out: %+v", last)
	}
	// The extents cover everything, and the largest holes are between them.
	i := 0
	for _, e := range all {
		for e.Offset >= list[i].End() {
			i++
		}
		if e.Offset < list[i].Offset || e.End() > list[i].End() {
			t.Fatalf("%+v is not in %+v", e, list[i])
		}
	}
	slices.Sort(largest)
	large, kept := largest[len(largest)-maxExtents/2+1], 0
	for i := 1; i < len(list); i++ {
		if gap := list[i].Offset - list[i-1].End(); gap >= large {
			kept++
		} else if gap < minHole {
			t.Fatalf("a hole of %d bytes", gap)
		}
	}
	if kept < maxExtents/2-2 {
		t.Errorf("of the %d largest holes %d are left", maxExtents/2-1, kept)
	}
	// Many holes of equal size, of which some are kept.
	same := make([]pax.Extent, 2*maxExtents)
	for i := range same {
		same[i] = part(int64(i)*1<<20, 4096)
	}
	if got := thinned(same); len(got) != maxExtents/2 {
		t.Errorf("%d extents with holes of one size", len(got))
	}
	worst := make([]pax.Extent, maxExtents)
	for i := range worst {
		worst[i] = part(1<<62+int64(i)*2, 1<<61)
	}
	head, err := pax.AppendSparseHeader(nil, &tar.Header{Name: "a", Size: 1<<63 - 1}, worst, 1)
	if err != nil || len(head) > pax.MaxRecords {
		t.Errorf("the largest map takes %d bytes, %v", len(head), err)
	}
}
