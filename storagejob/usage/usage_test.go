package usage

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, size int, elements ...string) {
	t.Helper()
	name := filepath.Join(elements...)
	must(t, os.MkdirAll(filepath.Dir(name), 0o755))
	must(t, os.WriteFile(name, bytes.Repeat([]byte{1}, size), 0o644))
}

func TestCount(t *testing.T) {
	home, outside := t.TempDir(), t.TempDir()
	write(t, 1<<20, outside, "secret")
	write(t, 100, home, "a")
	write(t, 30, home, "deep", "er", "b")
	write(t, 7, home, string([]byte{'n', 0xff, '\n'}))
	must(t, os.Link(filepath.Join(home, "a"), filepath.Join(home, "deep", "same")))
	must(t, os.Symlink(outside, filepath.Join(home, "out")))
	must(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(home, "file-out")))
	must(t, os.Symlink("nowhere", filepath.Join(home, "dangling")))
	must(t, unix.Mkfifo(filepath.Join(home, "pipe"), 0o644))
	got, err := Count(t.Context(), home)
	must(t, err)
	// a, deep, deep/er, deep/er/b, the odd name, deep/same, two links, dangling, pipe
	if want := (contract.HomeUsage{Bytes: 137, Files: 10}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	sparse, err := os.Create(filepath.Join(home, "sparse"))
	must(t, err)
	defer sparse.Close()
	must(t, sparse.Truncate(1<<40))
	_, err = sparse.WriteAt([]byte("x"), 1<<30)
	must(t, err)
	if got, err := Count(t.Context(), home); err != nil || got.Bytes > 2<<20 || got.AtLeast {
		t.Errorf("with a sparse file: %+v, %v; want what is stored", got, err)
	}
}

// TestCountWideAndDeep uses more names than are read at once, and more nested folders than are opened at once.
func TestCountWideAndDeep(t *testing.T) {
	home := t.TempDir()
	for i := range 2*page + 3 {
		write(t, 1, home, "wide", fmt.Sprint(i))
	}
	if got, err := Count(t.Context(), home); err != nil ||
		got != (contract.HomeUsage{Bytes: 2*page + 3, Files: 2*page + 4}) {
		t.Errorf("wide: %+v, %v", got, err)
	}
	must(t, os.MkdirAll(filepath.Join(home, strings.Repeat("d/", maxDepth+5)), 0o755))
	if got, err := Count(t.Context(), home); err != nil || !got.AtLeast || got.Bytes != 2*page+3 {
		t.Errorf("deep: %+v, %v; want at least the rest", got, err)
	}
}

func TestCountEnds(t *testing.T) {
	home := t.TempDir()
	write(t, 9, home, "a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := Count(ctx, home); err != nil || !got.AtLeast {
		t.Errorf("%+v, %v; want at least what was counted in no time", got, err)
	}
	if _, err := Count(t.Context(), filepath.Join(home, "none")); err == nil {
		t.Error("a folder that does not exist was counted")
	}
}

func TestDisk(t *testing.T) {
	one, err := Disk(t.TempDir())
	must(t, err)
	if one.Free <= 0 || one.Free > one.Total || one.ID == "" {
		t.Errorf("%+v", one)
	}
	if _, err := Disk("/does/not/exist"); err == nil {
		t.Error("no error for a folder that does not exist")
	}
}

func TestRun(t *testing.T) {
	for _, seconds := range []string{"", "0", "soon"} {
		var out bytes.Buffer
		if code := Run(t.Context(), nil, func(string) string { return seconds }, &out); code != contract.ExitUsage {
			t.Errorf("%q: exit code %d", seconds, code)
		}
		if _, err := contract.ParseUsageResult(out.Bytes()); err == nil ||
			!strings.Contains(err.Error(), contract.EnvUsageSeconds) {
			t.Errorf("%q: %v, want the variable's name", seconds, err)
		}
	}
	if _, err := contract.ParseUsageResult([]byte("Usage: storagejob archive|restore [flags]\n")); err == nil ||
		!strings.Contains(err.Error(), "image") {
		t.Errorf("an older image: %v", err)
	}
}
