package proof

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"testing/iotest"
	"time"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// entry is an entry of a tar stream.
type entry struct {
	name, content string
	kind          byte
	mode          int64
}

var entries = []entry{
	{"./", "", tar.TypeDir, 0o755}, {"./a", "content", tar.TypeReg, 0o644}, {"./b/", "", tar.TypeDir, 0o755},
	{"./b/empty", "", tar.TypeReg, 0o600}, {"./link", "", tar.TypeSymlink, 0o777}, {"./b/c", "more", tar.TypeReg, 0o600},
}

// stream returns a tar stream of entries, and its description by the packing side.
func stream(t *testing.T, list []entry) (text []byte, described Content) {
	t.Helper()
	w := NewWriter()
	var files, size int64
	write := func(to io.Writer, p []byte) {
		_, err := to.Write(p)
		_, other := w.Write(p)
		if text = append(text, p...); err != nil || other != nil {
			t.Fatal(err, other)
		}
	}
	for _, e := range list {
		h := &tar.Header{Name: e.name, Typeflag: e.kind, Size: int64(len(e.content)), Mode: e.mode,
			Format: tar.FormatPAX, ModTime: time.Unix(5, 7)}
		if e.kind == tar.TypeSymlink {
			h.Linkname = "a"
		}
		header, err := pax.AppendHeader(nil, h)
		if err != nil {
			t.Fatal(err)
		}
		write(w.Headers(), header)
		write(io.Discard, append([]byte(e.content), make([]byte, pax.Padding(h.Size))...))
		if e.name != "./" {
			files++
		}
		size += h.Size
	}
	write(io.Discard, make([]byte, 2*pax.BlockSize))
	return text, w.Content(files, size)
}

func TestReadDescribesWhatWasWritten(t *testing.T) {
	text, want := stream(t, entries)
	if want.Entries != 5 || want.Bytes != 11 || want.Size != int64(len(text)) {
		t.Fatalf("%+v", want)
	}
	for name, r := range map[string]io.Reader{
		"at once": bytes.NewReader(text), "byte by byte": iotest.OneByteReader(bytes.NewReader(text)),
		"with its end": iotest.DataErrReader(bytes.NewReader(text)),
	} {
		if got, err := Read(t.Context(), r); err != nil || got != want {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestNoChangeEscapes: every byte of a stream matters, and so does its length.
func TestNoChangeEscapes(t *testing.T) {
	text, want := stream(t, entries)
	for at := range text {
		changed := bytes.Clone(text)
		changed[at] ^= 1
		if got, err := Read(t.Context(), bytes.NewReader(changed)); err == nil && got == want {
			t.Errorf("byte %d of the stream does not matter", at)
		}
		if err := compare(text, changed); !errors.Is(err, ErrDiffers) {
			t.Errorf("byte %d is not compared: %v", at, err)
		}
		if at%7 == 0 {
			if got, err := Read(t.Context(), bytes.NewReader(text[:at])); err == nil && got == want {
				t.Errorf("%d bytes are enough", at)
			}
			if err := compare(text, text[:at]); !errors.Is(err, ErrDiffers) {
				t.Errorf("%d bytes are the same: %v", at, err)
			}
		}
	}
	if got, err := Read(t.Context(), bytes.NewReader(append(bytes.Clone(text), 0))); err == nil && got == want {
		t.Error("a byte more does not matter")
	}
	if err := compare(text, append(bytes.Clone(text), 0)); !errors.Is(err, ErrDiffers) {
		t.Errorf("a byte more is not compared: %v", err)
	}
	if err := compare(text, text); err != nil {
		t.Errorf("the same differs: %v", err)
	}
	less, _ := stream(t, entries[:len(entries)-1])
	if got, err := Read(t.Context(), bytes.NewReader(less)); err != nil || got.Entries != 4 || got.Bytes != 7 {
		t.Errorf("an entry less: %+v, %v", got, err)
	}
}

// compare compares text with other, in pieces of several sizes.
func compare(text, other []byte) error {
	c := Compare(bytes.NewReader(other))
	for size := 1; len(text) > 0; size *= 3 {
		n := min(size, len(text))
		if _, err := c.Write(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return c.Close()
}

func TestReadEndsWithItsContext(t *testing.T) {
	text, _ := stream(t, entries)
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := Read(ctx, bytes.NewReader(text)); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}
