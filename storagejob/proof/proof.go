// Package proof describes what an archive holds, once while it is packed and once while
// it is read back, so that the two can be compared.
//
// It owns the description. It trusts neither the program that packs nor the store: what is
// read back is read by a tar reader, entry by entry.
package proof

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"sync"
)

// Content describes the tar stream in an archive. Two that are equal hold the same entries
// in the same order, byte for byte.
type Content struct {
	// SHA256 is the checksum of the whole stream: names, attributes and content.
	SHA256 [sha256.Size]byte
	// Size is the length of the stream in bytes.
	Size int64
	// Entries counts the entries but the root, and Bytes is the size of all regular files,
	// holes included.
	Entries, Bytes int64
}

// Writer describes the stream that is written to it. Its Write never fails.
type Writer struct {
	hash hash.Hash
	size int64
}

// NewWriter returns the writer.
func NewWriter() *Writer { return &Writer{hash: sha256.New()} }

// Write implements [io.Writer].
func (w *Writer) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	return w.hash.Write(p)
}

// Content is the description of what was written, with the numbers that the packing
// counted.
func (w *Writer) Content(entries, bytes int64) Content {
	c := Content{Size: w.size, Entries: entries, Bytes: bytes}
	w.hash.Sum(c.SHA256[:0])
	return c
}

// buffer is how much is hashed at a time, in bytes.
const buffer = 128 << 10

// Read describes the stream that r holds, and reads it to its end. What is not a tar
// stream is an error. The stream is hashed beside the reading of its entries, which takes
// about as long.
func Read(ctx context.Context, r io.Reader) (Content, error) {
	w := NewWriter()
	hashed, toHash := io.Pipe()
	var hashing sync.WaitGroup
	hashing.Go(func() {
		_, err := io.CopyBuffer(toHash, io.TeeReader(r, w), make([]byte, buffer))
		toHash.CloseWithError(err)
	})
	entries, bytes, err := walk(ctx, hashed)
	hashed.Close() // after an error the rest is not read
	hashing.Wait() // nothing reads r any more
	if err != nil {
		return Content{}, err
	}
	return w.Content(entries, bytes), nil
}

// walk reads the stream to its end and counts as [Content] does.
func walk(ctx context.Context, r io.Reader) (entries, bytes int64, err error) {
	// As large as the pieces of the hashing, which goes on with the next one as soon as
	// this buffer holds the last.
	stream := bufio.NewReaderSize(r, buffer)
	for tr := tar.NewReader(stream); ; {
		if ctx.Err() != nil {
			return 0, 0, context.Cause(ctx)
		}
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, 0, fmt.Errorf("reading entry %d: %w", entries+1, err)
		}
		if path.Clean(h.Name) != "." {
			entries++
		}
		if h.Typeflag == tar.TypeReg || h.Typeflag == tar.TypeGNUSparse {
			bytes += h.Size
		}
	}
	// The padding after the last entry belongs to the stream.
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return 0, 0, fmt.Errorf("reading to the end: %w", err)
	}
	return entries, bytes, nil
}

// ErrDiffers says that a stream is not the one that it is compared with.
var ErrDiffers = errors.New("the content differs")

// Comparer compares what is written to it with a stream, without keeping either. The first
// difference ends the writing with [ErrDiffers].
type Comparer struct {
	with io.Reader
	buf  []byte
	size int64
}

// Compare returns a comparer. What cannot be read of the stream counts as different.
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

// Close returns [ErrDiffers] if the stream goes on.
func (c *Comparer) Close() error {
	if _, err := io.ReadFull(c.with, c.buf[:1]); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the stream goes on after byte %d", ErrDiffers, c.size)
	}
	return nil
}

// Size is how many bytes were equal.
func (c *Comparer) Size() int64 { return c.size }
