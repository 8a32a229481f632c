package contract

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"strconv"
	"strings"
)

// MetaSuffix is appended to an archive's key to name its commit marker. An archive without a well-formed commit marker
// does not count (SPEC 1, contract 7).
const MetaSuffix = ".meta"

const (
	metaPrefix = "sha256:"
	sumLength  = 64 // hexadecimal digits
	// metaLength is the length of a marker including an optional newline at its end.
	metaLength = len(metaPrefix) + sumLength + 1
)

// A commit marker's object records these sizes in bytes, as decimal numbers. It has them in its user metadata, and as
// parameters of its content type. Either place may lack them, because stores and people that copy objects can lose
// them. A job with a [Grant] can only write the content type: user metadata would have to be signed before the sizes
// are known.
const (
	// MetaArchiveSize is the size of the archive.
	MetaArchiveSize = "archive-size"
	// MetaContentSize is the size of the tar stream in the archive, plus the holes of sparse files, which the stream
	// only describes. A restore unpacks no more than this size.
	MetaContentSize = "content-size"
)

// metaType is the content type of a commit marker, without the sizes.
const metaType = "text/plain"

// MetaContentType returns the content type of a commit marker for an archive of that size with that much content, in
// bytes.
func MetaContentType(archive, content int64) string {
	return mime.FormatMediaType(metaType, map[string]string{
		MetaArchiveSize: strconv.FormatInt(archive, 10), MetaContentSize: strconv.FormatInt(content, 10),
	})
}

// MetaSizes returns the sizes that a commit marker's object records in its user metadata or its content type. A size
// that is missing or is not a number is 0, which means unknown.
func MetaSizes(metadata map[string]string, contentType string) (archive, content int64) {
	_, params, _ := mime.ParseMediaType(contentType) // no parameters if it is malformed
	size := func(name string) int64 {
		for _, text := range []string{metadata[name], params[name]} {
			if size, err := strconv.ParseInt(text, 10, 64); err == nil && size > 0 {
				return size
			}
		}
		return 0
	}
	return size(MetaArchiveSize), size(MetaContentSize)
}

// ErrMalformedMeta reports that an object has the name of a commit marker but not its form.
var ErrMalformedMeta = errors.New("malformed .meta: it must be sha256: and 64 lower-case hexadecimal digits")

// FormatMeta returns the content of the commit marker of an archive whose SHA-256 sum is sum, in lower-case
// hexadecimal.
func FormatMeta(sum string) string { return metaPrefix + sum }

// ParseMeta returns the checksum in a commit marker, or [ErrMalformedMeta]. It accepts one newline at the end, for
// markers that were repaired by hand, and otherwise only what [FormatMeta] writes.
func ParseMeta(text string) (sum string, err error) {
	sum, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), metaPrefix)
	if !ok || len(sum) != sumLength || strings.Trim(sum, "0123456789abcdef") != "" {
		return "", ErrMalformedMeta
	}
	return sum, nil
}

// ReadMeta is [ParseMeta] for everything that r holds. It reads only as much as it needs to see that a marker is too
// long.
func ReadMeta(r io.Reader) (sum string, err error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(metaLength)+1))
	if err != nil {
		return "", fmt.Errorf("reading a .meta: %w", err)
	}
	return ParseMeta(string(text))
}
