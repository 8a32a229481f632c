package pax_test

import (
	"archive/tar"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/storagejob/internal/pax"
	"github.com/codehub/gateway/storagejob/internal/pax/paxtest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// anyHeader returns the header of a random file.
func anyHeader(t *rapid.T) *tar.Header {
	text := rapid.OneOf(
		rapid.StringMatching(`[ -~]{1,20}(/[ -~]{1,20}){0,3}`), rapid.StringMatching(`[a-z]{30,50}/[a-z]{30,50}/?`),
		rapid.StringMatching(`[^\x00/]{1,100}`),
	)
	number := func(digits int) *rapid.Generator[int64] {
		largest := int64(1)<<(3*digits) - 1
		return rapid.OneOf(rapid.Int64Range(0, 4096), rapid.Int64Range(0, largest),
			rapid.SampledFrom([]int64{0, largest, largest + 1}))
	}
	sec := rapid.OneOf(rapid.Int64Range(-1<<31, 0x37fffffff),
		rapid.SampledFrom([]int64{-1 << 31, -2, -1, 0, 1<<31 - 1, 1 << 33, 0x37fffffff}))
	nsec := rapid.SampledFrom([]int64{0, 1, 120_000_000, 999_999_999})
	h := &tar.Header{
		Format: tar.FormatPAX, Typeflag: rapid.SampledFrom([]byte{tar.TypeReg, tar.TypeReg, tar.TypeDir,
			tar.TypeSymlink, tar.TypeLink}).Draw(t, "kind"),
		Name: "./" + cmp.Or(strings.TrimRight(text.Draw(t, "name"), "/"), "a"),
		Mode: rapid.Int64Range(0, 0o7777).Draw(t, "mode"),
		Uid:  int(number(7).Draw(t, "uid")), Gid: int(number(7).Draw(t, "gid")),
		ModTime: time.Unix(sec.Draw(t, "sec"), nsec.Draw(t, "nsec")),
	}
	if rapid.IntRange(0, 3).Draw(t, "with attributes") == 0 {
		h.PAXRecords = map[string]string{"SCHILY.xattr.user.a": text.Draw(t, "attribute")}
	}
	switch h.Typeflag {
	case tar.TypeDir:
		h.Name += "/"
	case tar.TypeReg:
		h.Size = number(11).Draw(t, "size")
	default:
		h.Linkname = text.Draw(t, "target")
	}
	return h
}

// TestHeadersAreThoseOfTheTarWriter: most headers are written without Go's tar writer, but are the same as if it had
// written them.
func TestHeadersAreThoseOfTheTarWriter(t *testing.T) {
	seed.Rapid(t, func(t *rapid.T) { requireWriters(t, anyHeader(t)) })
	requireWriters(t, &tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeDir, Name: "./", Mode: 0o755,
		ModTime: time.Unix(1, 5)})
}

// requireWriters compares our output for a header with that of Go's writer.
func requireWriters(t interface{ Fatalf(string, ...any) }, h *tar.Header) {
	var want bytes.Buffer
	if err := tar.NewWriter(&want).WriteHeader(h); err != nil {
		t.Fatalf("%+v: %v", h, err)
	}
	if got, err := pax.AppendHeader([]byte("before"), h); err != nil || string(got) != "before"+want.String() {
		t.Fatalf("%+v: %v\n%q\ninstead of\n%q", h, err, got, want.Bytes())
	}
}

// anyStream returns a stream with some files, and its headers.
func anyStream(t *rapid.T) (stream []byte, headers [][]byte) {
	for range rapid.IntRange(0, 4).Draw(t, "entries") {
		h := anyHeader(t)
		h.Size %= 1500
		before := len(stream)
		var err error
		if stream, err = pax.AppendHeader(stream, h); err != nil {
			t.Fatalf("%+v: %v", h, err)
		}
		headers = append(headers, bytes.Clone(stream[before:]))
		stream = append(stream, make([]byte, h.Size+pax.Padding(h.Size))...)
	}
	return append(stream, make([]byte, 2*pax.BlockSize)...), headers
}

// TestReadsWhatGoReads: our reader and Go's return the same for any stream.
func TestReadsWhatGoReads(t *testing.T) {
	seed.Rapid(t, func(r *rapid.T) {
		stream, _ := anyStream(r)
		paxtest.RequireSameAsGo(t, stream, 1<<20)
		// Damage headers, and sometimes correct the checksum.
		for range rapid.IntRange(0, 3).Draw(r, "damages") {
			block := stream[rapid.IntRange(0, len(stream)/pax.BlockSize-1).Draw(r,
				"block")*pax.BlockSize:][:pax.BlockSize]
			to := rapid.OneOf(rapid.Byte(), rapid.SampledFrom([]byte("\x00 /.017xgLS5")))
			if field := rapid.SampledFrom([][2]int{{0, 100}, {100, 108}, {108, 116}, {124, 136}, {136, 148}, {157, 257},
				{257, 265}, {345, 500}}).Draw(r, "field"); rapid.Bool().Draw(r, "whole") {
				copy(block[field[0]:field[1]],
					bytes.Repeat([]byte{to.Draw(r, "fill")}, field[1]-field[0]-rapid.IntRange(0, 2).Draw(r, "but")))
			} else {
				block[rapid.IntRange(0, 350).Draw(r, "byte")] = to.Draw(r, "to")
			}
			if rapid.Bool().Draw(r, "summed") {
				copy(block[148:156], "        ")
				sum := 0
				for _, c := range block {
					sum += int(c)
				}
				copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
			}
		}
		paxtest.RequireSameAsGo(t, stream[:rapid.IntRange(0, len(stream)).Draw(r, "cut")], 1<<20)
	})
}

// TestLiesAreRefused: Go's reader, or the check of the map, refuses every header with false claims.
func TestLiesAreRefused(t *testing.T) {
	for name, stream := range paxtest.Lies(t) {
		t.Run(name, func(t *testing.T) {
			paxtest.RequireSameAsGo(t, stream, 1<<20)
		})
	}
}

func TestOddities(t *testing.T) {
	for name, stream := range paxtest.Oddities() {
		t.Run(name, func(t *testing.T) { paxtest.RequireSameAsGo(t, stream, 1<<20) })
	}
}

// TestHeaderIsWhatWasWritten: Header returns every byte of the stream that is neither content nor padding, however the
// stream is split.
func TestHeaderIsWhatWasWritten(t *testing.T) {
	seed.Rapid(t, func(t *rapid.T) {
		stream, want := anyStream(t)
		for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream)),
			iotest.DataErrReader(bytes.NewReader(stream))} {
			reader := pax.NewReader(r)
			for _, header := range want {
				if _, err := reader.Next(); err != nil {
					t.Fatalf("%v", err)
				}
				if !bytes.Equal(reader.Header(), header) {
					t.Fatalf("%q\ninstead of\n%q", reader.Header(), header)
				}
			}
			if _, err := reader.Next(); err != io.EOF { //nolint:errorlint // a reader's
				t.Fatalf("after the last one: %v", err)
			}
			if err := reader.Finish(); err != nil {
				t.Fatal(err)
			}
			if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF { //nolint:errorlint // a reader's
				t.Fatal("it was not read to its end")
			}
		}
	})
}

// TestErrorsOfTheStreamAreFinal: a reader never reads again after an error.
func TestErrorsOfTheStreamAreFinal(t *testing.T) {
	stream, err := pax.AppendHeader(nil,
		&tar.Header{Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: "a", ModTime: time.Unix(1, 1)})
	must(t, err)
	for size := range stream {
		broken := &once{r: bytes.NewReader(stream[:size])}
		r := pax.NewReader(broken)
		for range 2 {
			if _, err := r.Next(); err != iotest.ErrTimeout { //nolint:errorlint // a reader's
				t.Fatalf("after %d bytes: %v", size, err)
			}
		}
		if broken.asked > 1 {
			t.Fatalf("after %d bytes it was asked %d times more", size, broken.asked-1)
		}
	}
}

// once fails once at its end, and then returns io.EOF.
type once struct {
	r     io.Reader
	asked int // after its end
}

func (o *once) Read(p []byte) (int, error) {
	n, err := o.r.Read(p)
	if n > 0 || err == nil {
		return n, nil
	}
	if o.asked++; o.asked == 1 {
		return 0, iotest.ErrTimeout
	}
	return 0, io.EOF
}
