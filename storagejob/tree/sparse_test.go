package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"golang.org/x/sys/unix"
)

// sparseAt makes a file of this size with data, that is not zeros, only in these parts.
func sparseAt(t testing.TB, path string, size int64, parts ...extent) {
	t.Helper()
	f, err := os.Create(path)
	must(t, err)
	defer f.Close()
	must(t, f.Truncate(size))
	for _, part := range parts {
		_, err := f.WriteAt(bytes.Repeat([]byte("data"), int(part.length/4+1))[:part.length], part.offset)
		must(t, err)
	}
	must(t, f.Sync())
}

// mapOfFile lists what of a file is not a hole, however small the holes are.
func mapOfFile(t testing.TB, path string) (parts []extent, size, blocks int64) {
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
			parts = append(parts, extent{data, hole - data})
		}
		at = hole
	}
	return parts, st.Size, st.Blocks
}

const mib = 1 << 20

func TestHolesAreArchivedAsSuch(t *testing.T) {
	var many []extent
	for i := range int64(1000) {
		many = append(many, extent{i * 256 << 10, 4096})
	}
	for name, c := range map[string]struct {
		size  int64
		parts []extent
		// stored is about what the archive may hold of the file, in bytes.
		stored int
	}{
		"one hole":               {100 * mib, nil, 0},
		"data at the start":      {100 * mib, []extent{{0, mib}}, mib},
		"data at the end":        {100 * mib, []extent{{99 * mib, mib}}, mib},
		"data in the middle":     {100 * mib, []extent{{50 * mib, mib}, {70 * mib, 4096}}, mib + 4096},
		"an odd size":            {100*mib + 77, []extent{{4096, 10}, {100 * mib, 77}}, 8192},
		"an odd size, a hole":    {100*mib + 77, []extent{{4096, 10}}, 4096},
		"smaller than a hole":    {60 << 10, nil, 60 << 10},
		"small holes":            {mib, []extent{{0, 4096}, {32 << 10, 4096}, {64 << 10, mib - 64<<10}}, mib},
		"the smallest hole":      {minHole, nil, 0},
		"a thousand parts":       {512 * mib, many, 1000 * 4100},
		"a terabyte":             {1 << 40, []extent{{0, 4096}, {1 << 39, mib}}, mib + 4096},
		"the size of ext4's end": {16<<40 - 4096, []extent{{16<<40 - 8192, 4096}}, 4096},
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
			must(t, Pack(t.Context(), from, &archive, count))
			if archive.Len() > c.stored+100_000 {
				t.Errorf("an archive of %d bytes for %d", archive.Len(), c.stored)
			}
			if got := count.Bytes.Load(); got != c.size+4 {
				t.Errorf("counted %d bytes", got)
			}
			// Any reader of the same form gets the bytes.
			if c.size <= 512*mib {
				requireContent(t, archive.Bytes(), path)
			}
			v, err := OpenVolume(to)
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
				t.Errorf("size %d in %d blocks, data at %v;\n want %d in %d, %v", gotSize, gotBlocks, gotParts, size, blocks, parts)
			}
			sameParts(t, path, filepath.Join(to, "file"), parts)
			if content, err := os.ReadFile(filepath.Join(to, "next")); err != nil || string(content) != "next" {
				t.Errorf("the next file holds %q, %v", content, err)
			}
		})
	}
}

// sameParts compares these parts of two files.
func sameParts(t *testing.T, want, got string, parts []extent) {
	t.Helper()
	a, err := os.Open(want)
	must(t, err)
	defer a.Close()
	b, err := os.Open(got)
	must(t, err)
	defer b.Close()
	for _, part := range parts {
		left, right := make([]byte, part.length), make([]byte, part.length)
		_, err := a.ReadAt(left, part.offset)
		must(t, err)
		_, err = b.ReadAt(right, part.offset)
		must(t, err)
		if !bytes.Equal(left, right) {
			t.Errorf("the content at %d differs", part.offset)
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

// TestTerabyteOfNothingIsQuick: neither direction may read or write a hole.
func TestTerabyteOfNothingIsQuick(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	sparseAt(t, filepath.Join(from, "file"), 1<<40, extent{1 << 39, mib})
	var before, after unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
	must(t, restoreInto(t, to, pack(t, from)))
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	spent := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	if spent > 2*time.Second {
		t.Errorf("took %v of processor time", spent)
	}
}

// TestMapOfAnyFileIsBounded: what has more extents than a map may hold is archived with
// its largest holes only.
func TestMapOfAnyFileIsBounded(t *testing.T) {
	random := uint64(1)
	var list, all []extent
	at, largest := int64(0), []int64(nil)
	for range 200_000 {
		random = random*6364136223846793005 + 1442695040888963407
		gap := int64(random >> 44) // up to 1 MiB
		e := extent{at + gap, 1 + int64(random>>20&0xffff)}
		at = e.end()
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
	if last := list[len(list)-1]; last.end() != size {
		t.Errorf("the small hole at the end is left out: %+v", last)
	}
	// Everything is in one of them, and between them are the largest holes.
	i := 0
	for _, e := range all {
		for e.offset >= list[i].end() {
			i++
		}
		if e.offset < list[i].offset || e.end() > list[i].end() {
			t.Fatalf("%+v is not in %+v", e, list[i])
		}
	}
	slices.Sort(largest)
	large, kept := largest[len(largest)-maxExtents/2+1], 0
	for i := 1; i < len(list); i++ {
		if gap := list[i].offset - list[i-1].end(); gap >= large {
			kept++
		} else if gap < minHole {
			t.Fatalf("a hole of %d bytes", gap)
		}
	}
	if kept < maxExtents/2-2 {
		t.Errorf("of the %d largest holes %d are left", maxExtents/2-1, kept)
	}
	// Holes of one size, of which some are kept.
	same := make([]extent, 2*maxExtents)
	for i := range same {
		same[i] = extent{int64(i) * 1 << 20, 4096}
	}
	if got := thinned(same); len(got) != maxExtents/2 {
		t.Errorf("%d extents with holes of one size", len(got))
	}
	worst := make([]extent, maxExtents)
	for i := range worst {
		worst[i] = extent{1<<62 + int64(i)*2, 1 << 61}
	}
	head, err := sparseHeader(&tar.Header{Name: "a", Size: 1<<63 - 1}, worst, 1)
	if err != nil || len(head) > maxRecords {
		t.Errorf("the largest map takes %d bytes, %v", len(head), err)
	}
}

// TestSparseHeadersSayWhatOthersSay compares our header with Go's for the same file.
func TestSparseHeadersSayWhatOthersSay(t *testing.T) {
	long := strings.Repeat("long/", 300) + "\xff\nname"
	for name, h := range map[string]tar.Header{
		"plain":          {Name: "./a", Mode: 0o644, Uid: 1000, Gid: 1001, ModTime: time.Unix(1_700_000_000, 0)},
		"nanoseconds":    {Name: "./a", Mode: 0o4755, ModTime: time.Unix(1_700_000_000, 120_000_001)},
		"before 1970":    {Name: "./a", ModTime: time.Unix(-5, 999_999_999)},
		"just before":    {Name: "./a", ModTime: time.Unix(-1, 1)},
		"whole, before":  {Name: "./a", ModTime: time.Unix(-77, 0)},
		"far future":     {Name: "./a", ModTime: time.Unix(15_000_000_000, 5)},
		"large owner":    {Name: "./a", Uid: 4_000_000_000, Gid: 2097152},
		"any name":       {Name: long},
		"of 99 bytes":    {Name: strings.Repeat("n", 99)},
		"with attribute": {Name: "./a", PAXRecords: map[string]string{xattrPrefix + "user.a%3Db": "\x00=\n", xattrPrefix + "user.empty": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Typeflag, h.Format, h.Size = tar.TypeReg, tar.FormatPAX, 1<<30
			if h.ModTime.IsZero() {
				h.ModTime = time.Unix(0, 0)
			}
			head, err := sparseHeader(&h, []extent{{1 << 20, 4}}, 3)
			must(t, err)
			got, err := tar.NewReader(bytes.NewReader(append(head, make([]byte, 512)...))).Next()
			must(t, err)
			var other bytes.Buffer
			must(t, tar.NewWriter(&other).WriteHeader(&h))
			want, err := tar.NewReader(&other).Next()
			must(t, err)
			if got.Name != want.Name || got.Size != want.Size || got.Mode != want.Mode || got.Uid != want.Uid || got.Gid != want.Gid ||
				!got.ModTime.Equal(want.ModTime) || got.Typeflag != want.Typeflag {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			a, b := attributesOf(got), attributesOf(want)
			if fmt.Sprint(a.xattrs) != fmt.Sprint(b.xattrs) {
				t.Errorf("attributes %q, want %q", a.xattrs, b.xattrs)
			}
		})
	}
	huge := tar.Header{Name: "a", PAXRecords: map[string]string{xattrPrefix + "user.a": strings.Repeat("x", maxRecords)}}
	if _, err := sparseHeader(&huge, nil, 1); err == nil {
		t.Error("a header that no program reads was written")
	}
}

// craftSparse makes an archive of one sparse file of this size, with this map, as which
// that much is stored, and a file behind it.
func craftSparse(size, text, stored string) []byte {
	filled := func(content string) []byte {
		return append([]byte(content), zeros[:padding(int64(len(content)))]...)
	}
	content := string(filled(text)) + stored
	records := paxRecord(paxMajor, "1") + paxRecord(paxMinor, "0") + paxRecord(paxName, "a") + paxRecord(paxRealSize, size)
	return slices.Concat(
		appendBlock(nil, tar.TypeXHeader, "x", &tar.Header{}, int64(len(records))), filled(records),
		appendBlock(nil, tar.TypeReg, "y", &tar.Header{Mode: 0o600}, int64(len(content))), filled(content),
		appendBlock(nil, tar.TypeReg, "next", &tar.Header{Mode: 0o600}, 4), filled("next"), make([]byte, 2*blockSize))
}

// hostileMaps are sparse files that must be refused.
func hostileMaps() map[string][]byte {
	return map[string][]byte{
		"map overlaps":               craftSparse("1000000", "2\n0\n8\n4\n8\n", "0123456789abcdef"),
		"map goes back":              craftSparse("1000000", "2\n4096\n8\n0\n8\n", "0123456789abcdef"),
		"map below zero":             craftSparse("1000000", "1\n-8\n8\n", "01234567"),
		"length below zero":          craftSparse("1000000", "2\n0\n16\n100\n-8\n", "01234567"),
		"map beyond the size":        craftSparse("1000000", "1\n999999\n8\n", "01234567"),
		"map beyond any size":        craftSparse("1000000", "1\n9223372036854775807\n8\n", "01234567"),
		"size below zero":            craftSparse("-1", "1\n0\n8\n", "01234567"),
		"size that is no number":     craftSparse("many", "1\n0\n8\n", "01234567"),
		"size beyond all files":      craftSparse("9223372036854775808", "1\n0\n8\n", "01234567"),
		"count below zero":           craftSparse("1000000", "-1\n0\n8\n", "01234567"),
		"count beyond the map":       craftSparse("1000000", "9223372036854775807\n0\n8\n", "01234567"),
		"more data than stored":      craftSparse("1000000", "1\n0\n9\n", "01234567"),
		"less data than stored":      craftSparse("1000000", "1\n0\n7\n", "01234567"),
		"no map":                     craftSparse("1000000", "", "01234567"),
		"map of something else":      craftSparse("1000000", "1\nzero\n8\n", "01234567"),
		"millions of extents":        craftSparse("99999999", manyExtents(3_000_000), strings.Repeat("x", 3_000_000)),
		"cut in the map":             craftSparse("1000000", "1\n0\n8\n", "01234567")[:3*blockSize+100],
		"cut in the data":            craftSparse("1000000", "1\n0\n2000\n", strings.Repeat("x", 2000))[:4*blockSize+100],
		"sparse file that leads out": bytes.Replace(craftSparse("1000000", "1\n0\n8\n", "01234567"), []byte(paxRecord(paxName, "a")), []byte(paxRecord(paxName, "/")), 1),
	}
}

// manyExtents is a map of so many bytes of data with one byte between each two.
func manyExtents(n int) string {
	var text strings.Builder
	fmt.Fprintln(&text, n)
	for i := range n {
		fmt.Fprintf(&text, "%d\n1\n", 2*i)
	}
	return text.String()
}
