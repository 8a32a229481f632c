package contract

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// MetaSuffix is appended to an archive's key to name its commit marker. An archive
// without a commit marker of the right form does not count (SPEC 1, contract 7).
const MetaSuffix = ".meta"

const (
	metaPrefix = "sha256:"
	sumLength  = 64 // hexadecimal digits
	// metaLength is the length of a marker with the newline that it may end in.
	metaLength = len(metaPrefix) + sumLength + 1
)

// The user metadata of a commit marker's object: sizes in bytes, in decimal. Both
// may be absent, because stores and people that copy objects can lose it.
const (
	// MetaArchiveSize is the size of the archive.
	MetaArchiveSize = "archive-size"
	// MetaContentSize is the size of the tar stream in the archive. A restore unpacks
	// no more than that.
	MetaContentSize = "content-size"
)

// ErrMalformedMeta says that an object has a commit marker's name but not its form.
var ErrMalformedMeta = errors.New("malformed .meta: it must be sha256: and 64 lower-case hexadecimal digits")

// FormatMeta is the content of the commit marker of an archive whose SHA-256, in
// lower-case hexadecimal, is sum.
func FormatMeta(sum string) string { return metaPrefix + sum }

// ParseMeta returns the checksum in a commit marker, or [ErrMalformedMeta]. One
// newline at the end is accepted, for markers that were repaired by hand;
// anything else that [FormatMeta] does not write is refused.
func ParseMeta(text string) (sum string, err error) {
	sum, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), metaPrefix)
	if !ok || len(sum) != sumLength || strings.Trim(sum, "0123456789abcdef") != "" {
		return "", ErrMalformedMeta
	}
	return sum, nil
}

// ReadMeta is [ParseMeta] of everything that r holds. It reads no more than it
// needs to see that a marker is too long.
func ReadMeta(r io.Reader) (sum string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(metaLength)+1))
	if err != nil {
		return "", fmt.Errorf("reading a .meta: %w", err)
	}
	return ParseMeta(string(text))
}
