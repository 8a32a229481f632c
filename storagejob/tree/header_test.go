package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// Most headers are written without Go's tar writer, and are the same.
func TestHeadersAreThoseOfTheTarWriter(t *testing.T) {
	text := rapid.OneOf(
		rapid.StringMatching(`[ -~]{1,20}(/[ -~]{1,20}){0,3}`), rapid.StringMatching(`[a-z]{30,50}/[a-z]{30,50}/?`), anyName,
	)
	number := func(field int) *rapid.Generator[int64] {
		most := int64(1)<<(3*(field-1)) - 1
		return rapid.OneOf(rapid.Int64Range(0, 4096), rapid.Int64Range(0, most), rapid.SampledFrom([]int64{0, most, most + 1}))
	}
	plain := 0
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink}).Draw(t, "kind")
		mtime := anyTime.Draw(t, "mtime")
		var attrs map[string]string
		if rapid.IntRange(0, 3).Draw(t, "with attributes") == 0 {
			attrs = map[string]string{"user.a": text.Draw(t, "attribute")}
		}
		h := header("./"+strings.TrimRight(text.Draw(t, "name"), "/"), &unix.Stat_t{
			Mode: rapid.Uint32Range(0, 0o7777).Draw(t, "mode"), Mtim: mtime,
			Uid: uint32(number(ownerField).Draw(t, "uid")), Gid: uint32(number(ownerField).Draw(t, "gid")),
		}, attrs)
		h.Typeflag = kind
		switch kind {
		case tar.TypeDir:
			h.Name += "/"
		case tar.TypeReg:
			h.Size = number(numberField).Draw(t, "size")
		default:
			h.Linkname = text.Draw(t, "target")
		}
		var want bytes.Buffer
		if err := tar.NewWriter(&want).WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if got, err := formatted(h); err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("%+v: %v\n%q\ninstead of\n%q", h, err, got, want.Bytes())
		}
		if isPlain(h) {
			plain++
		}
	})
	if plain == 0 {
		t.Error("all of them are the tar writer's own")
	}
	root := header("./", &unix.Stat_t{Mode: 0o755, Mtim: unix.Timespec{Sec: 1, Nsec: 5}}, nil)
	root.Typeflag = tar.TypeDir
	var want bytes.Buffer
	must(t, tar.NewWriter(&want).WriteHeader(root))
	if got, err := formatted(root); err != nil || !bytes.Equal(got, want.Bytes()) || !isPlain(root) {
		t.Errorf("the root: %v\n%q\ninstead of\n%q", err, got, want.Bytes())
	}
}

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
	sparseAt(t, from+"/file", 3*mib, extent{0, 2 * mib}, extent{3*mib - 5, 5})
	var all bytes.Buffer
	must(t, Pack(t.Context(), from, &all, new(Counter)))
	for left := 0; left < all.Len(); left += sinkBytes / 3 {
		w := &failing{left: left}
		if err := Pack(t.Context(), from, w, new(Counter)); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
		if w.after > 0 {
			t.Errorf("after %d bytes it was written to again", left)
		}
	}
	must(t, Pack(t.Context(), from, &failing{left: all.Len()}, new(Counter)))
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
