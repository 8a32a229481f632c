package tree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

var errKilled = errors.New("killed")

// restoreUntil runs a restore like the job and stops it before its n-th change of the volume, without any clean-up,
// like a kill.
func restoreUntil(t *testing.T, dir string, archive []byte, n int) (steps int, err error) {
	t.Helper()
	v, err := OpenVolume(dir, "")
	must(t, err)
	defer v.Close()
	v.Step = func(string) error {
		if steps++; steps == n {
			return errKilled
		}
		return nil
	}
	done, err := v.Verified("sum")
	must(t, err)
	if !done {
		if err := v.Unpack(t.Context(), bytes.NewReader(archive), unlimited, new(Counter)); err != nil {
			return steps, err
		}
		if err := v.Commit("sum"); err != nil {
			return steps, err
		}
	}
	return steps, v.Swap(t.Context(), "sum")
}

func TestRestoreKilledAnywhereAndRunAgain(t *testing.T) {
	from := t.TempDir()
	populate(t, from)
	want, archive := snapshot(t, from), pack(t, from)
	dirty := func() string {
		to := t.TempDir()
		must(t, os.MkdirAll(filepath.Join(to, "a/old"), 0o755))
		must(t, os.WriteFile(filepath.Join(to, "old"), nil, 0o600))
		return to
	}
	all, err := restoreUntil(t, dirty(), archive, 0)
	must(t, err)
	if all < 15 {
		t.Fatalf("only %d steps are announced", all)
	}
	for n := 1; n <= all; n++ {
		to := dirty()
		if _, err := restoreUntil(t, to, archive, n); !errors.Is(err, errKilled) {
			t.Fatalf("step %d: %v", n, err)
		}
		// Killed once more on the way, then run to the end.
		if _, err := restoreUntil(t, to, archive, n/2+1); err != nil && !errors.Is(err, errKilled) {
			t.Fatalf("step %d, second run: %v", n, err)
		}
		if _, err := restoreUntil(t, to, archive, 0); err != nil {
			t.Fatalf("step %d, last run: %v", n, err)
		}
		requireEqual(t, want, snapshot(t, to))
	}
}

// cutReader fails after some bytes.
type cutReader struct {
	r    io.Reader
	left int
}

func (c *cutReader) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errKilled
	}
	n, err := c.r.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

func TestInterruptedUnpackLeavesTheFilesUnchanged(t *testing.T) {
	from, to := t.TempDir(), t.TempDir()
	populate(t, from)
	archive := pack(t, from)
	must(t, os.WriteFile(filepath.Join(to, "mine"), []byte("mine"), 0o600))
	before := snapshot(t, to)
	for cut := 0; cut < len(archive); cut += len(archive)/20 + 13 {
		v, err := OpenVolume(to, "")
		must(t, err)
		err = v.Unpack(t.Context(), &cutReader{bytes.NewReader(archive), cut}, unlimited, new(Counter))
		if !errors.Is(err, errKilled) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if done, err := v.Verified("sum"); done || err != nil {
			t.Fatalf("cut at %d counts as verified: %v", cut, err)
		}
		if cut%2 == 0 {
			must(t, v.Discard()) // otherwise a killed job's leftovers remain for the next run
		}
		must(t, v.Close())
	}
	v, err := OpenVolume(to, "")
	must(t, err)
	must(t, v.Discard())
	must(t, v.Close())
	after := snapshot(t, to)
	delete(before, ".") // its time changed when a run was killed
	delete(after, ".")
	requireEqual(t, before, after)
	must(t, restoreInto(t, to, archive))
	requireEqual(t, snapshot(t, from), snapshot(t, to))
}

func TestAnotherArchivesVerifiedStagingDoesNotCount(t *testing.T) {
	v, err := OpenVolume(t.TempDir(), "")
	must(t, err)
	defer v.Close()
	must(t, v.Unpack(t.Context(), bytes.NewReader(craft(t, file("a"))), unlimited, new(Counter)))
	must(t, v.Commit("one"))
	for sum, want := range map[string]bool{"one": true, "two": false} {
		if got, err := v.Verified(sum); got != want || err != nil {
			t.Errorf("%s: %v, %v", sum, got, err)
		}
	}
}

func TestVolumeIsLocked(t *testing.T) {
	dir := t.TempDir()
	v, err := OpenVolume(dir, "")
	must(t, err)
	if _, err := OpenVolume(dir, ""); !errors.Is(err, ErrBusy) {
		t.Errorf("got %v, want %v", err, ErrBusy)
	}
	must(t, v.Close())
	v, err = OpenVolume(dir, "")
	must(t, err)
	must(t, v.Close())
}

// onWrite calls do once, when the given number of bytes has been written.
type onWrite struct {
	after int
	do    func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	if w.after -= len(p); w.after <= 0 && w.do != nil {
		w.do()
		w.do = nil
	}
	return len(p), nil
}

func TestPackReportsChanges(t *testing.T) {
	const size = 4 * copyBuffer
	for name, change := range map[string]func(t *testing.T, path string){
		"shrinks": func(t *testing.T, path string) { must(t, os.Truncate(path, copyBuffer)) },
		"grows":   func(t *testing.T, path string) { must(t, os.Truncate(path, size+1)) },
		"rewritten": func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte("other"), 0)
			must(t, err)
			must(t, f.Close())
		},
		"mode":         func(t *testing.T, path string) { must(t, unix.Chmod(path, 0o600)) },
		"new neighbor": func(t *testing.T, path string) { must(t, os.WriteFile(path+"2", nil, 0o600)) },
	} {
		for _, first := range []int64{0, mib} { // without a hole, and with one before the data
			t.Run(fmt.Sprintf("%s after %d", name, first), func(t *testing.T) {
				dir := t.TempDir()
				path := filepath.Join(dir, "file")
				sparseAt(t, path, first+size, part(first, size))
				w := &onWrite{after: 2 * copyBuffer, do: func() { change(t, path) }}
				if err := Pack(t.Context(), dir, "", w, io.Discard, new(Counter)); !errors.Is(err, ErrChanged) {
					t.Errorf("got %v, want %v", err, ErrChanged)
				}
			})
		}
	}
}

// TestVanishedFileIsAChange: a listed name that can no longer be opened was removed or replaced.
func TestVanishedFileIsAChange(t *testing.T) {
	for err, want := range map[error]bool{
		unix.ENOENT: true, unix.ELOOP: true, unix.ENOTDIR: true, unix.EACCES: false, unix.EIO: false,
	} {
		got := vanished("a/file", err)
		if errors.Is(got, ErrChanged) != want || !errors.Is(got, err) || !strings.Contains(got.Error(), "a/file") {
			t.Errorf("%v: %v", err, got)
		}
	}
	p := packer{ctx: t.Context(), count: new(Counter), links: map[inode]*linked{}}
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	if err := p.entry(int(dir.Fd()), "gone", "gone"); !errors.Is(err, ErrChanged) {
		t.Errorf("a name that is gone: %v", err)
	}
}

func TestOpenVolumeNeedsAFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	must(t, os.WriteFile(path, nil, 0o600))
	for _, name := range []string{path, filepath.Join(dir, "missing")} {
		if v, err := OpenVolume(name, ""); err == nil {
			v.Close()
			t.Errorf("%s was opened as a volume", name)
		}
	}
	if err := Pack(t.Context(), path, "", io.Discard, io.Discard, new(Counter)); err == nil {
		t.Error("a file was packed as a folder")
	}
}

func TestCancelStops(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "file"), make([]byte, 8*copyBuffer), 0o600))
	reason := errors.New("the reason")
	ctx, cancel := context.WithCancelCause(t.Context())
	w := &onWrite{after: copyBuffer, do: func() { cancel(reason) }}
	if err := Pack(ctx, dir, "", w, io.Discard, new(Counter)); !errors.Is(err, reason) {
		t.Errorf("Pack: %v", err)
	}
	v, err := OpenVolume(t.TempDir(), "")
	must(t, err)
	defer v.Close()
	if err := v.Unpack(ctx, bytes.NewReader(craft(t, file("a"))), unlimited, new(Counter)); !errors.Is(err, reason) {
		t.Errorf("Unpack: %v", err)
	}
}

// failing accepts left bytes and then fails. Nothing may be written after that.
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

// TestWriteErrorsEndThePacking: a failed write at any point ends the packing with that error, and nothing is written
// after Pack has returned.
func TestWriteErrorsEndThePacking(t *testing.T) {
	from := t.TempDir()
	sparseAt(t, from+"/file", 3*mib, part(0, 2*mib), part(3*mib-5, 5))
	var all bytes.Buffer
	must(t, Pack(t.Context(), from, "", &all, io.Discard, new(Counter)))
	for left := 0; left < all.Len(); left += 40_000 {
		w := &failing{left: left}
		if err := Pack(t.Context(), from, "", w, io.Discard, new(Counter)); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", left, err)
		}
		if w.after > 0 {
			t.Errorf("after %d bytes it was written to again", left)
		}
	}
	must(t, Pack(t.Context(), from, "", &failing{left: all.Len()}, io.Discard, new(Counter)))
}
