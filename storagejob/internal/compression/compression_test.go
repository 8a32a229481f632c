package compression

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"testing"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// text returns the given number of bytes, some of which repeat.
func text(size int) []byte {
	out := make([]byte, size)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range out {
		out[i] = "abcdefgh"[random.Uint32()>>29]
		if i > 5000 && i%3000 < 2000 {
			out[i] = out[i-5000]
		}
	}
	return out
}

// compressed compresses a text that it writes in pieces of several sizes.
func compressed(t testing.TB, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out)
	must(t, err)
	for n := 1; len(plain) > 0; n = n*7%(sectionSize+100_003) + 1 {
		some := plain[:min(n, len(plain))]
		if n, err := w.Write(some); n != len(some) || err != nil {
			t.Fatalf("%d bytes of %d: %v", n, len(some), err)
		}
		plain = plain[len(some):]
	}
	must(t, w.Close())
	return out.Bytes()
}

var sizes = []int{0, 1, sectionSize - 1, sectionSize, sectionSize + 1, (sections+3)*sectionSize + 77}

func TestWhatIsReadIsWhatWasWritten(t *testing.T) {
	for _, size := range sizes {
		plain := text(size)
		packed := compressed(t, plain)
		if len(packed) > len(plain)*3/4+20 {
			t.Errorf("%d bytes became %d", len(plain), len(packed))
		}
		r, err := NewReader(bytes.NewReader(packed))
		must(t, err)
		got, err := io.ReadAll(r)
		must(t, errors.Join(err, r.Close()))
		if !bytes.Equal(got, plain) {
			t.Errorf("%d bytes became %d others", len(plain), len(got))
		}
	}
}

func TestStockZstdReadsIt(t *testing.T) {
	zstd, err := exec.LookPath("zstd")
	if err != nil {
		t.Skip("zstd is not installed")
	}
	for _, size := range sizes[1:] { // an empty stream has no frame
		plain := text(size)
		cmd := exec.Command(zstd, "-dc")
		cmd.Stdin = bytes.NewReader(compressed(t, plain))
		if got, err := cmd.Output(); err != nil || !bytes.Equal(got, plain) {
			t.Errorf("%d bytes became %d, %v", len(plain), len(got), err)
		}
	}
}

// TestDamageIsFound: a checksum finds all damage, unless it has no effect.
func TestDamageIsFound(t *testing.T) {
	plain := text(sectionSize + 5000)
	packed := compressed(t, plain)
	read := func(packed []byte) ([]byte, error) {
		r, err := NewReader(bytes.NewReader(packed))
		must(t, err)
		defer r.Close()
		return io.ReadAll(r)
	}
	found := 0
	for at := 0; at < len(packed); at += 1 + len(packed)/100 {
		bad := bytes.Clone(packed)
		bad[at] ^= 1 << (at % 8)
		switch got, err := read(bad); {
		case err != nil:
			found++
		case !bytes.Equal(got, plain):
			t.Errorf("byte %d: other content is taken for it", at)
		}
	}
	if found < 80 {
		t.Errorf("%d of 100 damages were found", found)
	}
	if _, err := read(packed[:len(packed)-1]); err == nil {
		t.Error("what is cut off is not missed")
	}
}

// failing accepts left bytes and then fails. Nothing may be written after that.
type failing struct{ left, after int }

var errFull = errors.New("it takes no more")

func (f *failing) Write(p []byte) (int, error) {
	if f.left < 0 {
		f.after++
	}
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestErrorsEndTheWriting: a failed write at any point ends the writer with that error, and nothing is written after
// Close has returned.
func TestErrorsEndTheWriting(t *testing.T) {
	plain := text(3 * sections * sectionSize)
	all := len(compressed(t, plain))
	for left := 0; left < all; left += 1 + all/6 {
		below := &failing{left: left}
		w, err := NewWriter(below)
		must(t, err)
		n, err := w.Write(plain)
		if err != nil && (!errors.Is(err, errFull) || n == len(plain)) {
			t.Errorf("after %d bytes of %d: %d, %v", left, all, n, err)
		}
		if closing := w.Close(); !errors.Is(closing, errFull) {
			t.Errorf("after %d bytes of %d, the end: %v", left, all, closing)
		}
		if below.after > 0 {
			t.Errorf("after %d bytes of %d it was written to again", left, all)
		}
		// It ends early.
		if left == 0 && n > sections*sectionSize {
			t.Errorf("%d bytes were taken although none could be written", n)
		}
	}
}

// TestAbort: after Abort, only the section that is already being written is written.
func TestAbort(t *testing.T) {
	writing, end := make(chan struct{}), make(chan struct{})
	below := &held{writing: writing, end: end}
	w, err := NewWriter(below)
	must(t, err)
	_, err = w.Write(text(sections * sectionSize))
	must(t, err)
	<-writing
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Abort()
	}()
	for !w.aborted.Load() {
		runtime.Gosched()
	}
	close(end)
	<-done
	if below.writes != 1 {
		t.Errorf("%d sections were written", below.writes)
	}
}

// held is a writer that reports its first write and then waits.
type held struct {
	writing, end chan struct{}
	writes       int
}

func (h *held) Write(p []byte) (int, error) {
	if h.writes++; h.writes == 1 {
		close(h.writing)
		<-h.end
	}
	return len(p), nil
}
