// Package paxtest provides malicious tar streams, and compares how Go's reader and ours read a stream. It is for the
// tests of package pax and of the readers of archives.
//
// It owns headers that no writer produces: it assembles them field by field.
package paxtest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// Block returns a header of the given type that announces size bytes of content.
func Block(kind byte, name string, size int64) []byte {
	return block(kind, name, fmt.Sprintf("%011o\x00", size))
}

// block returns a header with this text in its size field.
func block(kind byte, name, size string) []byte {
	b := make([]byte, pax.BlockSize)
	copy(b, name)
	copy(b[100:], "0000600\x000000000\x000000000\x00")
	copy(b[124:136], size)
	copy(b[136:], "00000000000\x00        ")
	b[156] = kind
	copy(b[257:], "ustar\x0000")
	sum := 0
	for _, c := range b {
		sum += int(c)
	}
	copy(b[148:], fmt.Sprintf("%06o\x00", sum))
	return b
}

// Record returns a record of an extended header.
func Record(key, value string) string {
	rest, length := len(key)+len(value)+len(" =\n"), 0
	for length != rest+len(fmt.Sprint(length)) {
		length = rest + len(fmt.Sprint(length)) // the length counts itself
	}
	return fmt.Sprintf("%d %s=%s\n", length, key, value)
}

// filled pads content to whole blocks.
func filled(content string) []byte {
	return append([]byte(content), make([]byte, pax.Padding(int64(len(content))))...)
}

// end returns a file "next" and the end of a stream.
func end() []byte {
	return slices.Concat(Block(tar.TypeReg, "next", 4), filled("next"), make([]byte, 2*pax.BlockSize))
}

// Sparse returns a stream with one sparse file "a" of this size, with this map and this stored content, and another
// file after it.
func Sparse(size, text, stored string) []byte { return sparse("a", size, text, stored) }

func sparse(name, size, text, stored string) []byte {
	content := string(filled(text)) + stored
	records := Record("GNU.sparse.major", "1") + Record("GNU.sparse.minor", "0") +
		Record("GNU.sparse.name", name) + Record("GNU.sparse.realsize", size)
	return slices.Concat(Block(tar.TypeXHeader, "x", int64(len(records))), filled(records),
		Block(tar.TypeReg, "y", int64(len(content))), filled(content), end())
}

// Oddities returns streams that no writer produces but that all readers must read alike. Most of them have headers to
// which the next entry's bytes might seem to belong.
func Oddities() map[string][]byte {
	entries := slices.Concat(Block(tar.TypeDir, "d/", 0), Block(tar.TypeReg, "empty", 0), Block(tar.TypeReg, "f", 4),
		filled("abcd"))
	record := Record("mtime", "5.000000001")
	extended := slices.Concat(Block(tar.TypeXHeader, "x", int64(len(record))), filled(record))
	odd := map[string][]byte{
		"extended header of records of an empty file": slices.Concat(extended, entries, end()),
		"two extended headers":                        slices.Concat(extended, extended, entries, end()),
		"sparse file":                                 Sparse("200000", "3\n0\n8\n100000\n4\n200000\n0\n", "0123456789ab"),
	}
	for _, kind := range []byte{tar.TypeXHeader, tar.TypeXGlobalHeader, tar.TypeGNULongName, tar.TypeGNULongLink} {
		for _, size := range []string{
			"00000000000\x00", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "           \x00", "00000000001\x00",
			"00000001000\x00", "00000001001\x00", "0000000000 \x00", "88888888888\x00",
			"\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05",
		} {
			odd[fmt.Sprintf("%c of size %q", kind, size)] = slices.Concat(block(kind, "x", size), entries, end())
			odd[fmt.Sprintf("%c of size %q, with records", kind, size)] = slices.Concat(block(kind, "x", size),
				filled(record), entries, end())
		}
	}
	return odd
}

// Lies returns streams that must be refused: their headers claim wrong sizes, or have maps of holes that no file has.
func Lies(t testing.TB) map[string][]byte {
	// entry returns a header with this text in its size field, these records, and the content "12345678".
	entry := func(size string, records ...string) []byte {
		var extended []byte
		if all := strings.Join(records, ""); all != "" {
			extended = append(Block(tar.TypeXHeader, "x", int64(len(all))), filled(all)...)
		}
		return slices.Concat(extended, block(tar.TypeReg, "a", size), filled("12345678"), end())
	}
	const eight = "00000000010\x00"
	truth := entry(eight)
	if _, err := listed(tar.NewReader(bytes.NewReader(truth)), int64(len(truth))); err != nil {
		t.Fatalf("what lies are made of is none itself: %v", err)
	}
	return map[string][]byte{
		"size beyond the stream":          entry("00077777777\x00"),
		"size of 8 GiB":                   entry("77777777777\x00"),
		"size beyond numbers":             entry("\x80\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
		"size below zero":                 entry("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xf8"),
		"size that is no number":          entry("eight\x00\x00\x00\x00\x00\x00\x00"),
		"size of nothing":                 entry("00000000000\x00"),
		"record beyond the stream":        entry(eight, Record("size", "1000000")),
		"record beyond all files":         entry(eight, Record("size", "9223372036854775807")),
		"record beyond numbers":           entry(eight, Record("size", "9223372036854775808")),
		"record below zero":               entry(eight, Record("size", "-8")),
		"record of nothing":               entry(eight, Record("size", "0")),
		"record that is no number":        entry(eight, Record("size", "8 bytes")),
		"record longer than its header":   entry(eight, "99 comment=x\n"),
		"record shorter than it is":       entry(eight, "9 comment=x\n"),
		"record without a length":         entry(eight, "comment=x\n"),
		"extended header of 1 GiB":        slices.Concat(Block(tar.TypeXHeader, "x", 1<<30), truth),
		"extended header of nothing else": Block(tar.TypeXHeader, "x", 512),
		"checksum of another header":      append([]byte{'b'}, truth[1:]...),

		"map overlaps":               Sparse("1000000", "2\n0\n8\n4\n8\n", "0123456789abcdef"),
		"map goes back":              Sparse("1000000", "2\n4096\n8\n0\n8\n", "0123456789abcdef"),
		"map below zero":             Sparse("1000000", "1\n-8\n8\n", "01234567"),
		"length below zero":          Sparse("1000000", "2\n0\n16\n100\n-8\n", "01234567"),
		"map beyond the size":        Sparse("1000000", "1\n999999\n8\n", "01234567"),
		"map beyond any size":        Sparse("1000000", "1\n9223372036854775807\n8\n", "01234567"),
		"sparse size below zero":     Sparse("-1", "1\n0\n8\n", "01234567"),
		"sparse size of no number":   Sparse("many", "1\n0\n8\n", "01234567"),
		"sparse size beyond all":     Sparse("9223372036854775808", "1\n0\n8\n", "01234567"),
		"count below zero":           Sparse("1000000", "-1\n0\n8\n", "01234567"),
		"count beyond the map":       Sparse("1000000", "9223372036854775807\n0\n8\n", "01234567"),
		"more data than stored":      Sparse("1000000", "1\n0\n9\n", "01234567"),
		"less data than stored":      Sparse("1000000", "1\n0\n7\n", "01234567"),
		"no map":                     Sparse("1000000", "", "01234567"),
		"map of something else":      Sparse("1000000", "1\nzero\n8\n", "01234567"),
		"millions of extents":        Sparse("99999999", manyExtents(3_000_000), strings.Repeat("x", 3_000_000)),
		"cut in the map":             Sparse("1000000", "1\n0\n8\n", "01234567")[:3*pax.BlockSize+100],
		"cut in the data":            Sparse("1000000", "1\n0\n2000\n", strings.Repeat("x", 2000))[:4*pax.BlockSize+100],
		"sparse file that leads out": sparse("/", "1000000", "1\n0\n8\n", "01234567"),
	}
}

// manyExtents returns a map of the given number of data bytes, with a one-byte hole between each two.
func manyExtents(n int) string {
	var text strings.Builder
	fmt.Fprintln(&text, n)
	for i := range n {
		fmt.Fprintf(&text, "%d\n1\n", 2*i)
	}
	return text.String()
}

// RequireSameAsGo reads a stream with Go's reader and with ours, up to limit bytes of content, and fails the test if
// they differ.
func RequireSameAsGo(t testing.TB, stream []byte, limit int64) {
	t.Helper()
	theirs, theirErr := listed(tar.NewReader(bytes.NewReader(stream)), limit)
	ours, ourErr := listed(pax.NewReader(bytes.NewReader(stream)), limit)
	if errors.Is(theirErr, errTooMuch) || errors.Is(ourErr, errTooMuch) {
		return
	}
	if (theirErr == nil) != (ourErr == nil) {
		t.Fatalf("Go's reader: %v; ours: %v", theirErr, ourErr)
	}
	if ourErr == nil && theirs != ours {
		t.Fatalf("Go's reader:\n%s\nours:\n%s", theirs, ours)
	}
}

var errTooMuch = errors.New("too much for a test")

// listed describes all entries and their content.
func listed(r interface {
	io.Reader
	Next() (*tar.Header, error)
}, limit int64) (string, error) {
	var lines bytes.Buffer
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines.String(), nil
		}
		if err != nil {
			return "", err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, io.LimitReader(r, limit))
		if err != nil {
			return "", err
		}
		if limit -= n; limit == 0 {
			return "", errTooMuch
		}
		shown := *h
		shown.Format = tar.FormatUnknown // a guess for short headers
		if delete(shown.PAXRecords, "mtime"); len(shown.PAXRecords) == 0 {
			shown.PAXRecords = nil // the header has it
		}
		shown.ModTime = shown.ModTime.UTC()
		fmt.Fprintf(&lines, "%+v: %d bytes, %x\n", &shown, n, sum.Sum(nil))
	}
}
