package pax

import (
	"bytes"
	"io"
)

const (
	// maxKept is the most that a source keeps, in bytes: an extended header and a map of the
	// largest size that readers accept.
	maxKept = 2*MaxRecords + 8*BlockSize
	// discardBuffer is how much of a content is skipped at a time, in bytes.
	discardBuffer = 32 << 10
)

// source reads a stream, and keeps what it reads of it while keeping is set. So it can be looked at
// or read a second time.
type source struct {
	r       io.Reader
	err     error // that r has returned; it is not asked again
	n       int64 // read so far
	keeping bool
	kept    []byte
	pending []byte // is read before r
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

// keep forgets what was kept and begins to keep.
func (s *source) keep() { s.keeping, s.kept = true, s.kept[:0] }

// read reads so many bytes more, and keeps them. It reports whether there were as many.
func (s *source) read(more int) bool {
	from := len(s.kept)
	s.kept = append(s.kept, make([]byte, more)...)
	s.keeping = false // they are where they belong already
	n, _ := io.ReadFull(s, s.kept[from:])
	s.keeping, s.kept = true, s.kept[:from+n]
	return n == more
}

// rewind makes what is kept be read again, and keeps on keeping.
func (s *source) rewind() {
	s.n -= int64(len(s.kept))
	s.pending = append(bytes.Clone(s.kept), s.pending...)
	s.kept = s.kept[:0]
}

// discard reads so many bytes for nothing. The error is io.EOF if there are fewer.
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
