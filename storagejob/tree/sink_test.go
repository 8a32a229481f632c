package tree

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// failing takes so many bytes and then fails. Nothing may be written after that.
type failing struct {
	left   int
	failed bool
	after  int
}

var errFull = errors.New("it takes no more")

func (f *failing) Write(p []byte) (int, error) {
	if f.failed {
		f.after++
	}
	if f.left -= len(p); f.left < 0 {
		f.failed = true
		return 0, errFull
	}
	return len(p), nil
}

// What cannot be written ends the packing with that error, wherever that is, and with
// nothing written after Pack has returned.
func TestWriteErrorsEndThePacking(t *testing.T) {
	from := t.TempDir()
	sparseAt(t, from+"/file", 3*mib, part(0, 2*mib), part(3*mib-5, 5))
	var all bytes.Buffer
	must(t, Pack(t.Context(), from, &all, io.Discard, new(Counter)))
	for left := 0; left < all.Len(); left += sinkBytes / 3 {
		w := &failing{left: left}
		if err := Pack(t.Context(), from, w, io.Discard, new(Counter)); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
		if w.after > 0 {
			t.Errorf("after %d bytes it was written to again", left)
		}
	}
	must(t, Pack(t.Context(), from, &failing{left: all.Len()}, io.Discard, new(Counter)))
}

// A stream is the same whatever pieces it is written in.
func TestSinkKeepsTheOrder(t *testing.T) {
	random := make([]byte, 5*sinkBytes*sinkBuffers)
	for i := range random {
		random[i] = byte(i * i >> 7)
	}
	var got bytes.Buffer
	s := newSink(&got)
	for rest, n := random, 1; len(rest) > 0; n = n*3%100_003 + 1 {
		some := rest[:min(n, len(rest))]
		if n%2 == 0 {
			room, err := s.room()
			must(t, err)
			some = some[:min(len(some), len(room))]
			s.took(copy(room, some))
		} else {
			_, err := s.Write(some)
			must(t, err)
		}
		rest = rest[len(some):]
	}
	must(t, s.close())
	if !bytes.Equal(got.Bytes(), random) {
		t.Error("it is another one")
	}
}
