// Package pax writes and reads the headers of a tar stream in the PAX format.
//
// It owns the bytes between the contents of files: it writes what Go's tar writer would write, and reads what Go's tar
// reader would read, but takes a fraction of the time for the headers of almost all files. It also reads and writes the
// holes of sparse files. Go's tar package delivers holes as zeros and cannot write them at all. The package knows
// nothing about files and folders.
package pax

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// BlockSize is the unit of a tar stream, in bytes.
const BlockSize = 512

// Fields of a header, in bytes.
const (
	nameField   = 100 // for a name, and for a link's target
	ownerField  = 8
	numberField = 12 // for a size, and for a time
)

// mtimeKey is the record with the nanoseconds.
const mtimeKey = "mtime"

// zeros fill up blocks.
var zeros [BlockSize]byte

// Padding returns how many bytes fill up the last block of content of this size.
func Padding(size int64) int64 { return -size & (BlockSize - 1) }

// AppendHeader appends what Go's tar writer writes for a header in the PAX format. It avoids that writer for almost all
// files: those whose extended header would hold only the nanoseconds. With Go's writer and reader for all headers,
// archiving a home of 40,000 small files took 28 % longer, and restoring it 8 %.
func AppendHeader(to []byte, h *tar.Header) ([]byte, error) {
	if isPlain(h) {
		return appendPlain(to, h), nil
	}
	out := bytes.NewBuffer(to)
	err := tar.NewWriter(out).WriteHeader(h)
	return out.Bytes(), err
}

// isPlain reports whether everything except the nanoseconds fits in the fields of a header.
func isPlain(h *tar.Header) bool {
	return len(h.PAXRecords) == 0 && isShort(h.Name) && isShort(h.Linkname) &&
		fits(ownerField, int64(h.Uid)) && fits(ownerField, int64(h.Gid)) && fits(numberField, h.Size) &&
		fits(numberField, h.ModTime.Unix())
}

// appendPlain is AppendHeader for a plain header.
func appendPlain(to []byte, h *tar.Header) []byte {
	if h.ModTime.Nanosecond() != 0 {
		to = appendTimes(to, extendedName(h.Name), h)
	}
	return appendBlock(to, h.Typeflag, h.Name, h, h.Size)
}

// appendTimes appends an extended header of this name with the nanoseconds.
func appendTimes(to []byte, name string, h *tar.Header) []byte {
	var record, value [64]byte
	return appendExtended(to, name, appendRecord(record[:0], mtimeKey, appendTime(value[:0], h.ModTime)))
}

// extendedName returns the name of a file's extended header.
func extendedName(name string) string {
	dir, file := path.Split(name)
	name = path.Join(dir, "PaxHeaders.0", file)
	return strings.TrimRight(name[:min(len(name), nameField)], "/")
}

// appendExtended appends an extended header.
func appendExtended(to []byte, name string, records []byte) []byte {
	to = appendBlock(to, tar.TypeXHeader, name, &tar.Header{}, int64(len(records)))
	return append(append(to, records...), zeros[:Padding(int64(len(records)))]...)
}

// isShort reports whether a text fits in the field for a name.
func isShort(s string) bool {
	for i := range len(s) {
		if s[i] > unicode.MaxASCII || s[i] == 0 {
			return false
		}
	}
	return len(s) <= nameField
}

// fits reports whether a number, in octal digits, fits in a field of the given size in bytes.
func fits(field int, n int64) bool { return n >= 0 && n < 1<<(3*(field-1)) }

// appendBlock appends a header of the stream, with the attributes of h. Numbers that do not fit are left to the
// extended header; names and link targets are cut.
func appendBlock(to []byte, kind byte, name string, h *tar.Header, size int64) []byte {
	to = append(to, zeros[:]...)
	b := to[len(to)-BlockSize:]
	copy(b[0:nameField], name)
	putOctal(b[100:108], h.Mode)
	putOctal(b[108:116], int64(h.Uid))
	putOctal(b[116:124], int64(h.Gid))
	putOctal(b[124:136], size)
	putOctal(b[136:148], h.ModTime.Unix())
	b[156] = kind
	copy(b[157:257], h.Linkname)
	copy(b[257:265], "ustar\x0000")
	if kind != tar.TypeXHeader {
		putOctal(b[329:337], 0)
		putOctal(b[337:345], 0)
	}
	// The checksum counts its own field as spaces.
	putOctal(b[148:155], ' '*8+sumOf(b))
	b[155] = ' '
	return to
}

// sumOf adds up the bytes of a block. It adds every second byte of a word at once, in lanes of 16 bits, which 128
// additions do not overflow.
func sumOf(block []byte) int64 {
	const lanes = 0x00ff00ff00ff00ff
	var sums uint64
	for b := block[:BlockSize]; len(b) >= 16; b = b[16:] {
		low, high := binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])
		sums += low&lanes + low>>8&lanes + high&lanes + high>>8&lanes
	}
	return int64(sums&0xffff + sums>>16&0xffff + sums>>32&0xffff + sums>>48)
}

// putOctal fills a field, except its last byte, with the digits of a number, or with zeros if it does not fit.
func putOctal(field []byte, n int64) {
	if !fits(len(field), n) {
		n = 0
	}
	for i := len(field) - 2; i >= 0; i-- {
		field[i] = '0' + byte(n&7)
		n >>= 3
	}
}

// appendRecord appends a record of an extended header, which begins with its own length.
func appendRecord[T string | []byte](to []byte, key string, value T) []byte {
	rest := len(key) + len(value) + len(" =\n")
	size := rest + digits(rest+digits(rest)) // the length counts itself
	to = append(strconv.AppendInt(to, int64(size), 10), ' ')
	return append(append(append(append(to, key...), '='), value...), '\n')
}

// digits counts the digits of a number.
func digits(n int) (count int) {
	for ; n > 0; n /= 10 {
		count++
	}
	return count
}

// appendTime appends a time in seconds with a fraction. Before 1970 the fraction counts towards the past: half a second
// before 1970 is -0.5.
func appendTime(to []byte, t time.Time) []byte {
	sec, nsec := t.Unix(), int64(t.Nanosecond())
	if nsec == 0 {
		return strconv.AppendInt(to, sec, 10)
	}
	if sec < 0 {
		sec, nsec, to = -(sec + 1), 1e9-nsec, append(to, '-')
	}
	to = strconv.AppendInt(to, sec, 10)
	point := len(to)
	to = strconv.AppendInt(to, 1e9+nsec, 10) // its first digit makes room for the point
	to[point] = '.'
	return bytes.TrimRight(to, "0")
}
