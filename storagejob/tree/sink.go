package tree

import (
	"fmt"
	"io"
)

const (
	// sinkBytes is how much is written at once, in bytes.
	sinkBytes = 128 << 10
	// sinkBuffers is how many times that much is in memory.
	sinkBuffers = 4
)

// sink writes a stream in a goroutine of its own, so that files are read while what was
// read before is compressed. Only the goroutine that made it may call its methods.
type sink struct {
	buf  []byte       // to be written next
	full chan []byte  // to the goroutine
	free chan written // from it; closed when it has ended
}

// written is a buffer that was written, and may be used again, or the error.
type written struct {
	buf []byte
	err error
}

// newSink returns a sink whose method close must be called.
func newSink(w io.Writer) *sink {
	s := &sink{full: make(chan []byte, sinkBuffers), free: make(chan written, sinkBuffers)}
	for range sinkBuffers - 1 {
		s.free <- written{buf: make([]byte, 0, sinkBytes)}
	}
	s.buf = make([]byte, 0, sinkBytes)
	go func() {
		defer close(s.free)
		var err error
		for buf := range s.full {
			if err == nil {
				_, err = w.Write(buf)
			}
			s.free <- written{buf[:0], err}
		}
	}()
	return s
}

// room returns where to put what is to be written next, at least a byte; took says how many
// that was. It waits while everything is being written.
func (s *sink) room() ([]byte, error) {
	if len(s.buf) == cap(s.buf) {
		if err := s.flush(); err != nil {
			return nil, err
		}
	}
	return s.buf[len(s.buf):cap(s.buf)], nil
}

// took adds the first n bytes of what room returned to the stream.
func (s *sink) took(n int) { s.buf = s.buf[:len(s.buf)+n] }

// Write implements io.Writer.
func (s *sink) Write(p []byte) (n int, err error) {
	for n < len(p) {
		room, err := s.room()
		if err != nil {
			return n, err
		}
		some := copy(room, p[n:])
		s.took(some)
		n += some
	}
	return n, nil
}

// flush hands over what there is.
func (s *sink) flush() error {
	s.full <- s.buf
	next := <-s.free
	s.buf = next.buf
	return inSink(next.err)
}

// close ends the goroutine, after everything was written or something was not. It returns
// that error.
func (s *sink) close() (err error) {
	s.full <- s.buf
	close(s.full)
	for w := range s.free {
		if err == nil {
			err = w.err
		}
	}
	return inSink(err)
}

// inSink says where an error comes from.
func inSink(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("writing the archive: %w", err)
}
