package tree

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/codehub/gateway/storagejob/internal/pax/paxtest"
)

// inMemory returns a folder in memory if the machine has one. A restore ends by flushing its whole file system to disk:
// on a real disk that would be thousands of times slower.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "codehub-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	return dir
}

// guarded is a volume with a file in it, and another file beside it.
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

// fuzzLimit is the largest size to which a fuzzed archive may unpack, in bytes.
const fuzzLimit = 1 << 18

// FuzzUnpack asserts that no stream changes anything outside the staging folder or causes a panic, that every unpacked
// stream can also be restored, and that we read what Go's reader reads.
func FuzzUnpack(f *testing.F) {
	for name, archive := range hostile(f) {
		if len(archive) < 1<<16 {
			f.Add(archive)
		} else if testing.Verbose() {
			f.Logf("too large to be a seed: %s", name)
		}
	}
	f.Add(smallHome(f))
	for _, archive := range paxtest.Oddities() {
		f.Add(archive)
	}
	base := inMemory(f)
	f.Fuzz(func(t *testing.T, archive []byte) {
		paxtest.RequireSameAsGo(t, archive, fuzzLimit)
		g := newGuarded(t, base)
		want := snapshot(t, g.around)
		v, err := OpenVolume(g.volume, "")
		must(t, err)
		err = v.Unpack(t.Context(), bytes.NewReader(archive), Limits{Bytes: fuzzLimit}, new(Counter))
		must(t, v.Discard())
		must(t, v.Close())
		requireEqual(t, want, snapshot(t, g.around))
		// A stream that can be unpacked must also survive the rest of a restore.
		if err == nil {
			must(t, restoreInto(t, g.volume, archive))
		}
	})
}

// smallHome returns an archive of a few blocks with one file of every kind that Pack writes.
func smallHome(t testing.TB) []byte {
	t.Helper()
	home := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(home, "a/b"), 0o755))
	must(t, os.WriteFile(filepath.Join(home, "a/file"), []byte("x"), 0o600))
	must(t, os.Link(filepath.Join(home, "a/file"), filepath.Join(home, "a/b/link")))
	must(t, os.Symlink("..", filepath.Join(home, "up")))
	sparseAt(t, filepath.Join(home, "holes"), 200_000, part(100_000, 10))
	return pack(t, home)
}
