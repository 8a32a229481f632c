// Package proof describes the content of an archive, once while it is packed and once while it is read back, so that
// the two can be compared.
//
// It owns the description. It trusts neither the packing program nor the store: like a restore, it reads the archive
// back entry by entry.
package proof

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"path"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// Content describes the tar stream in an archive. Two streams with equal descriptions hold the same entries in the same
// order, with the same attributes, sizes and content.
type Content struct {
	// Listing is the checksum of all headers: names, attributes, sizes, and where files have holes.
	Listing [sha256.Size]byte
	// CRC32C is the checksum of the whole stream. It takes a fraction of the time of a SHA-256, and complements the
	// checksums of the archive and of each compressed section: together they reveal every mistake of the packing or the
	// store.
	CRC32C uint32
	// Size is the length of the stream in bytes.
	Size int64
	// Entries counts all entries except the root, and Bytes is the total size of all regular files, including holes.
	Entries, Bytes int64
}

// Writer describes the stream written to it. Its Write never fails.
type Writer struct {
	listing hash.Hash
	crc32c  uint32
	size    int64
}

// NewWriter returns the writer.
func NewWriter() *Writer { return &Writer{listing: sha256.New()} }

// castagnoli is a polynomial for which processors have an instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	w.crc32c = crc32.Update(w.crc32c, castagnoli, p)
	return len(p), nil
}

// Headers returns the writer to which the headers of the stream must also be written. Its Write never fails.
func (w *Writer) Headers() io.Writer { return w.listing }

// Content describes the written data, with the packer's counts.
func (w *Writer) Content(entries, bytes int64) Content {
	c := Content{CRC32C: w.crc32c, Size: w.size, Entries: entries, Bytes: bytes}
	w.listing.Sum(c.Listing[:0])
	return c
}

// Read describes the stream in r, and reads it to its end. A stream that is not tar is an error.
func Read(ctx context.Context, r io.Reader) (Content, error) {
	w := NewWriter()
	var entries, bytes int64
	stream := pax.NewReader(io.TeeReader(r, w))
	for {
		if ctx.Err() != nil {
			return Content{}, context.Cause(ctx)
		}
		h, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Content{}, fmt.Errorf("reading entry %d: %w", entries+1, err)
		}
		_, _ = w.listing.Write(stream.Header()) // never fails
		if path.Clean(h.Name) != "." {
			entries++
		}
		if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse {
			bytes += h.Size
		}
	}
	if err := stream.Finish(); err != nil {
		return Content{}, fmt.Errorf("reading to the end: %w", err)
	}
	return w.Content(entries, bytes), nil
}

// ErrDiffers reports that a stream is not the one that it is compared with.
var ErrDiffers = errors.New("the content differs")

// buffer is how much is compared at a time, in bytes.
const buffer = 128 << 10

// Comparer compares the data written to it with a stream, without keeping either. The first difference makes
// Write return [ErrDiffers].
type Comparer struct {
	with io.Reader
	buf  []byte
	size int64
}

// Compare returns a comparer. Unreadable parts of the stream count as different.
func Compare(with io.Reader) *Comparer { return &Comparer{with: with, buf: make([]byte, buffer)} }

// Write implements [io.Writer].
func (c *Comparer) Write(p []byte) (written int, err error) {
	for len(p) > 0 {
		theirs := c.buf[:min(len(p), len(c.buf))]
		if _, err := io.ReadFull(c.with, theirs); err != nil {
			return written, fmt.Errorf("%w: at byte %d: %w", ErrDiffers, c.size, err)
		}
		if string(theirs) != string(p[:len(theirs)]) {
			return written, fmt.Errorf("%w: after byte %d", ErrDiffers, c.size)
		}
		written += len(theirs)
		c.size += int64(len(theirs))
		p = p[len(theirs):]
	}
	return written, nil
}

// Close returns [ErrDiffers] if the stream has more content.
func (c *Comparer) Close() error {
	if _, err := io.ReadFull(c.with, c.buf[:1]); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream continues after byte %d", ErrDiffers, c.size)
	}
	return nil
}

// Size returns how many bytes were equal.
func (c *Comparer) Size() int64 { return c.size }
