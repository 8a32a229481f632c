package tree

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// inMemory returns a folder in memory where the machine has one: a restore ends with
// writing its whole file system to disk, which is thousands of times slower.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "codehub-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// guarded is a volume with a file in it, and one beside it.
type guarded struct{ around, volume string }

func newGuarded(t testing.TB, base string) guarded {
	t.Helper()
	around, err := os.MkdirTemp(base, "")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(around)) })
	volume := filepath.Join(around, "volume")
	must(t, os.Mkdir(volume, 0o755))
	must(t, os.WriteFile(filepath.Join(around, "sentinel"), []byte("untouched"), 0o600))
	must(t, os.WriteFile(filepath.Join(volume, "mine"), []byte("mine"), 0o600))
	return guarded{around, volume}
}

// fuzzLimit is the most that a fuzzed archive may unpack to, in bytes.
const fuzzLimit = 1 << 18

// FuzzUnpack asserts that no stream changes anything outside the staging folder or
// causes a panic, that what unpacks can also be restored, and that we read what Go's
// reader reads.
func FuzzUnpack(f *testing.F) {
	for name, archive := range hostile(f) {
		if len(archive) < 1<<16 {
			f.Add(archive)
		} else if testing.Verbose() {
			f.Logf("too large to be a seed: %s", name)
		}
	}
	f.Add(smallHome(f))
	f.Add(craftSparse("200000", "3\n0\n8\n100000\n4\n200000\n0\n", "0123456789ab"))
	base := inMemory(f)
	f.Fuzz(func(t *testing.T, archive []byte) {
		requireSameAsGo(t, archive)
		g := newGuarded(t, base)
		want := snapshot(t, g.around)
		v, err := OpenVolume(g.volume)
		must(t, err)
		err = v.Unpack(t.Context(), bytes.NewReader(archive), Limits{Bytes: fuzzLimit}, new(Counter))
		must(t, v.Discard())
		must(t, v.Close())
		requireEqual(t, want, snapshot(t, g.around))
		// What unpacks also goes the rest of the way.
		if err == nil {
			must(t, restoreInto(t, g.volume, archive))
		}
	})
}

// smallHome is an archive of one of everything that Pack writes, of a few blocks.
func smallHome(t testing.TB) []byte {
	t.Helper()
	home := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(home, "a/b"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, "a/file"), []byte("x"), 0o600))
	must(t, os.Link(filepath.Join(home, "a/file"), filepath.Join(home, "a/b/link")))
	must(t, os.Symlink("..", filepath.Join(home, "up")))
	sparseAt(t, filepath.Join(home, "holes"), 200_000, extent{100_000, 10})
	return pack(t, home)
}

// requireSameAsGo reads a stream with Go's reader and with ours, up to fuzzLimit.
func requireSameAsGo(t testing.TB, archive []byte) {
	t.Helper()
	theirs, theirErr := listed(tar.NewReader(bytes.NewReader(archive)))
	ours, ourErr := listed(newEntries(bytes.NewReader(archive)))
	if errors.Is(theirErr, errTooMuch) || errors.Is(ourErr, errTooMuch) {
		return
	}
	// We also refuse a stream that ends in what fills up the last block of a sparse file.
	if (theirErr == nil) != (ourErr == nil) && !errors.Is(ourErr, io.ErrUnexpectedEOF) {
		t.Fatalf("Go's reader: %v; ours: %v", theirErr, ourErr)
	}
	if ourErr == nil && theirs != ours {
		t.Fatalf("Go's reader:\n%s\nours:\n%s", theirs, ours)
	}
}

var errTooMuch = errors.New("too much for a test")

// listed describes all entries and their content.
func listed(r interface {
	io.Reader
	Next() (*tar.Header, error)
}) (string, error) {
	var lines bytes.Buffer
	left := int64(fuzzLimit)
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return lines.String(), nil
		}
		if err != nil {
			return "", err
		}
		sum := sha256.New()
		n, err := io.Copy(sum, io.LimitReader(r, left))
		if err != nil {
			return "", err
		}
		if left -= n; left == 0 {
			return "", errTooMuch
		}
		fmt.Fprintf(&lines, "%+v: %d bytes, %x\n", h, n, sum.Sum(nil))
	}
}
