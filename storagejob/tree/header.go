package tree

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"
)

// Fields of a header, in bytes.
const (
	nameField   = 100 // of a name, and of a link's target
	ownerField  = 8
	numberField = 12 // of a size, and of a time
)

// header returns a file's tar header without its type and size. The PAX format holds
// names of any length, large ids and times in nanoseconds.
func header(name string, st *unix.Stat_t, attrs map[string]string) *tar.Header {
	h := &tar.Header{
		Format:  tar.FormatPAX,
		Name:    name,
		Mode:    int64(st.Mode &^ unix.S_IFMT),
		Uid:     int(st.Uid),
		Gid:     int(st.Gid),
		ModTime: time.Unix(st.Mtim.Unix()),
	}
	if len(attrs) > 0 {
		h.PAXRecords = make(map[string]string, len(attrs))
		for name, value := range attrs {
			h.PAXRecords[xattrPrefix+escapeKeyword.Replace(name)] = value
		}
	}
	return h
}

// formatted returns what Go's tar writer writes for a header that header has made. For
// almost all files, whose extended header holds nothing but the nanoseconds, that writer is
// not needed: with it a home of many small files takes a tenth longer.
func formatted(h *tar.Header) ([]byte, error) {
	if !isPlain(h) {
		var out bytes.Buffer
		err := tar.NewWriter(&out).WriteHeader(h)
		return out.Bytes(), err
	}
	out := make([]byte, 0, 3*blockSize)
	if h.ModTime.Nanosecond() != 0 {
		dir, file := path.Split(h.Name)
		name := path.Join(dir, "PaxHeaders.0", file)
		record := paxRecord("mtime", paxTime(h.ModTime))
		out = appendBlock(out, tar.TypeXHeader, strings.TrimRight(name[:min(len(name), nameField)], "/"), &tar.Header{}, int64(len(record)))
		out = append(append(out, record...), zeros[:padding(int64(len(record)))]...)
	}
	return appendBlock(out, h.Typeflag, h.Name, h, h.Size), nil
}

// isPlain reports whether everything but the nanoseconds fits in the fields of a header.
func isPlain(h *tar.Header) bool {
	return len(h.PAXRecords) == 0 && isShort(h.Name) && isShort(h.Linkname) &&
		fits(ownerField, int64(h.Uid)) && fits(ownerField, int64(h.Gid)) && fits(numberField, h.Size) && fits(numberField, h.ModTime.Unix())
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

// fits reports whether a number fits in a field of so many bytes, in octal digits.
func fits(field int, n int64) bool { return n >= 0 && n < 1<<(3*(field-1)) }

// appendBlock appends a header of the stream, with the attributes of h. Numbers that do not
// fit in are left to the extended header, and names and link targets are cut.
func appendBlock(to []byte, kind byte, name string, h *tar.Header, size int64) []byte {
	to = append(to, zeros[:blockSize]...)
	b := to[len(to)-blockSize:]
	copy(b[0:nameField], name)
	octal(b[100:108], h.Mode)
	octal(b[108:116], int64(h.Uid))
	octal(b[116:124], int64(h.Gid))
	octal(b[124:136], size)
	octal(b[136:148], h.ModTime.Unix())
	b[156] = kind
	copy(b[157:257], h.Linkname)
	copy(b[257:265], "ustar\x0000")
	if kind != tar.TypeXHeader {
		octal(b[329:337], 0)
		octal(b[337:345], 0)
	}
	// The checksum counts its own field as spaces.
	sum := int64(' ' * 8)
	for _, c := range b {
		sum += int64(c)
	}
	octal(b[148:155], sum)
	b[155] = ' '
	return to
}

// octal fills a field but its last byte with the digits of a number, or with zeros if it
// does not fit.
func octal(field []byte, n int64) {
	if !fits(len(field), n) {
		n = 0
	}
	for i := len(field) - 2; i >= 0; i-- {
		field[i] = '0' + byte(n&7)
		n >>= 3
	}
}

// paxRecord returns a record of an extended header. It begins with its own length.
func paxRecord(key, value string) string {
	rest := len(key) + len(value) + len(" =\n")
	size := rest + len(strconv.Itoa(rest+len(strconv.Itoa(rest)))) // the length counts itself
	return strconv.Itoa(size) + " " + key + "=" + value + "\n"
}

// paxTime returns a time in seconds with a fraction. That of a time before 1970 counts
// towards the past: half a second before 1970 is -0.5.
func paxTime(t time.Time) string {
	sec, nsec, sign := t.Unix(), int64(t.Nanosecond()), ""
	if nsec == 0 {
		return strconv.FormatInt(sec, 10)
	}
	if sec < 0 {
		sec, nsec, sign = -(sec + 1), 1e9-nsec, "-"
	}
	return strings.TrimRight(fmt.Sprintf("%s%d.%09d", sign, sec, nsec), "0")
}
