package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// lies are archives whose headers say other sizes than the truth.
func lies(t testing.TB) map[string][]byte {
	// entry is a header with this in its size field, records and the content "12345678".
	entry := func(size string, records ...string) []byte {
		all := []byte(strings.Join(records, ""))
		filled := func(b []byte) []byte { return append(b, zeros[:padding(int64(len(b)))]...) }
		header := appendBlock(nil, tar.TypeReg, "a", &tar.Header{Mode: 0o600}, 8)
		copy(header[124:136], size)
		resum(header)
		var extended []byte
		if len(all) > 0 {
			extended = append(appendBlock(nil, tar.TypeXHeader, "x", &tar.Header{}, int64(len(all))), filled(all)...)
		}
		return slices.Concat(extended, header, filled([]byte("12345678")), craft(t, file("next")))
	}
	const eight = "00000000010\x00"
	truth := entry(eight)
	if err := listedError(truth); err != nil {
		t.Fatalf("what lies are made of is none itself: %v", err)
	}
	return map[string][]byte{
		"size beyond the stream":          entry("00077777777\x00"),
		"size of 8 GiB":                   entry("77777777777\x00"),
		"size beyond numbers":             entry("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"size below zero":                 entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf8"),
		"size that is no number":          entry("eight\x00\x00\x00\x00\x00\x00\x00"),
		"size of nothing":                 entry("00000000000\x00"),
		"record beyond the stream":        entry(eight, paxRecord("size", "1000000")),
		"record beyond all files":         entry(eight, paxRecord("size", "9223372036854775807")),
		"record beyond numbers":           entry(eight, paxRecord("size", "9223372036854775808")),
		"record below zero":               entry(eight, paxRecord("size", "-8")),
		"record of nothing":               entry(eight, paxRecord("size", "0")),
		"record that is no number":        entry(eight, paxRecord("size", "8 bytes")),
		"record longer than its header":   entry(eight, "99 comment=x\n"),
		"record shorter than it is":       entry(eight, "9 comment=x\n"),
		"record without a length":         entry(eight, "comment=x\n"),
		"extended header of 1 GiB":        slices.Concat(appendBlock(nil, tar.TypeXHeader, "x", &tar.Header{}, 1<<30), truth),
		"extended header of nothing else": appendBlock(nil, tar.TypeXHeader, "x", &tar.Header{}, 512),
		"checksum of another header":      append([]byte{'b'}, truth[1:]...),
	}
}

// resum corrects the checksum of a header.
func resum(header []byte) {
	copy(header[148:156], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

// listedError reads a stream to its end with Go's reader.
func listedError(archive []byte) error {
	_, err := listed(tar.NewReader(bytes.NewReader(archive)))
	return err
}

// TestEveryByteOfAStreamFlipped: no checksum stands before the stream here. What cannot
// be unpacked is refused and leaves nothing; what can is what other readers see.
func TestEveryByteOfAStreamFlipped(t *testing.T) {
	archive, base := smallHome(t), inMemory(t)
	g := newGuarded(t, base)
	want := snapshot(t, g.around)
	refused, unpacked := 0, 0
	try := func(what string, stream []byte) {
		t.Helper()
		v, err := OpenVolume(g.volume)
		must(t, err)
		defer v.Close()
		err = v.Unpack(t.Context(), bytes.NewReader(stream), Limits{Bytes: 1 << 20}, new(Counter))
		var content *RefusedError
		switch {
		case err == nil:
			unpacked++
			requireSameAsGo(t, stream)
		case errors.Is(err, ErrCorrupt), errors.As(err, &content) && content.ByContent:
			refused++
		default:
			t.Fatalf("%s: %v", what, err)
		}
		must(t, v.Discard())
		if got := snapshot(t, g.around); !maps.Equal(got, want) {
			t.Fatalf("%s has changed the volume", what)
		}
	}
	for i, b := range archive {
		if b == 0 && i%32 != 0 {
			continue // most of it fills up blocks
		}
		bad := bytes.Clone(archive)
		bad[i] ^= 1 << (i % 8)
		try(fmt.Sprint("byte ", i), bad)
	}
	for size := 0; size < len(archive); size += 37 {
		try(fmt.Sprint("cut to ", size), archive[:size])
	}
	if refused < 500 || unpacked < 100 {
		t.Errorf("%d streams were refused, %d unpacked: what did this test try?", refused, unpacked)
	}
}

// pieces cuts an archive into its entries.
func pieces(t *testing.T, archive []byte) (list [][]byte) {
	t.Helper()
	r := &recorder{r: bytes.NewReader(archive)}
	tr := tar.NewReader(r)
	for start := int64(0); ; {
		_, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return list
		}
		must(t, err)
		_, err = io.Copy(io.Discard, tr)
		must(t, err)
		end := r.n + padding(r.n)
		list = append(list, archive[start:end])
		start = end
	}
}

// TestEntriesInAnyOrder: either they make the same tree, or they are refused.
func TestEntriesInAnyOrder(t *testing.T) {
	from, base := inMemory(t), inMemory(t)
	populate(t, from)
	want := snapshot(t, from)
	entries := pieces(t, pack(t, from))
	random := rand.New(rand.NewPCG(1, 2))
	same := 0
	for round := range 300 {
		shuffled := slices.Clone(entries)
		if round%2 == 0 {
			random.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		} else { // only two of them
			i, j := random.IntN(len(entries)), random.IntN(len(entries))
			shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
		}
		to := newGuarded(t, base)
		before := snapshot(t, to.around)
		err := restoreInto(t, to.volume, append(slices.Concat(shuffled...), make([]byte, 2*blockSize)...))
		switch {
		case err == nil:
			same++
			requireEqual(t, want, snapshot(t, to.volume))
		case errors.Is(err, ErrCorrupt):
			requireEqual(t, before, snapshot(t, to.around))
		default:
			t.Fatalf("round %d: %v", round, err)
		}
		must(t, os.RemoveAll(to.around))
	}
	if same < 20 || same > 290 {
		t.Errorf("%d of 300 orders make the tree", same)
	}
}
