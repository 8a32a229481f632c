package pax

import (
	"bytes"
	"io"
)

const (
	// maxKept is the most that a source keeps, in bytes: an extended header and a map of the largest sizes that readers
	// accept.
	maxKept = 2*MaxRecords + 8*BlockSize
	// discardBuffer is how much content is skipped at a time, in bytes.
	discardBuffer = 32 << 10
)

// source reads a stream and, while keeping is set, keeps the bytes, so that they can be examined or read again.
type source struct {
	r       io.Reader
	err     error // returned by r, which is not read again
	n       int64 // read so far
	keeping bool
	kept    []byte
	pending []byte // read before r
	skipped []byte
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (n int, err error) {
	switch {
	case len(s.pending) > 0:
		n = copy(p, s.pending)
		s.pending = s.pending[n:]
	case s.err != nil:
		return 0, s.err
	default:
		n, err = s.r.Read(p)
		s.err = err
	}
	s.n += int64(n)
	if s.keeping && len(s.kept)+n > maxKept {
		s.keeping, s.kept = false, nil
	}
	if s.keeping {
		s.kept = append(s.kept, p[:n]...)
	}
	return n, err
}

// keep drops the kept bytes and starts to keep.
func (s *source) keep() { s.keeping, s.kept = true, s.kept[:0] }

// read reads and keeps the given number of further bytes. It reports whether there were enough.
func (s *source) read(more int) bool {
	from := len(s.kept)
	s.kept = append(s.kept, make([]byte, more)...)
	s.keeping = false // they are already in kept
	n, _ := io.ReadFull(s, s.kept[from:])
	s.keeping, s.kept = true, s.kept[:from+n]
	return n == more
}

// rewind makes the source deliver the kept bytes again, and the source continues to keep what is read.
func (s *source) rewind() {
	s.n -= int64(len(s.kept))
	s.pending = append(bytes.Clone(s.kept), s.pending...)
	s.kept = s.kept[:0]
}

// discard skips the given number of bytes. The error is io.EOF if there are fewer.
func (s *source) discard(n int64) error {
	if n > 0 && s.skipped == nil {
		s.skipped = make([]byte, discardBuffer)
	}
	for n > 0 {
		read, err := s.Read(s.skipped[:min(n, discardBuffer)])
		n -= int64(read)
		if err != nil && n > 0 {
			return err
		}
	}
	return nil
}
