package tree

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// randomTree fills dir with whatever a file system takes.
func randomTree(t *rapid.T, dir string) {
	name := rapid.Custom(func(t *rapid.T) string {
		b := rapid.SliceOfN(rapid.Byte(), 1, 255).Draw(t, "bytes")
		s := strings.NewReplacer("/", "_", "\x00", "_").Replace(string(b))
		if s == "." || s == ".." || s == StagingName {
			s = "x" + s
		}
		return s
	})
	when := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(-1<<31, 1<<33).Draw(t, "sec"), rapid.Int64Range(0, 999_999_999).Draw(t, "nsec"))
	})
	owner := rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(1<<21-1, 1<<32-2))
	attrs := rapid.MapOfN(rapid.StringMatching(`user\.[ -~]{1,40}`), rapid.SliceOfN(rapid.Byte(), 0, 200), 0, 3)

	type made struct {
		path string
		kind string
	}
	all := []made{{dir, "folder"}}
	folders, files := []string{dir}, []string(nil)
	for range rapid.IntRange(0, 40).Draw(t, "entries") {
		path := filepath.Join(rapid.SampledFrom(folders).Draw(t, "parent")) + "/" + name.Draw(t, "name")
		if _, err := os.Lstat(path); err == nil || len(path) > 3500 {
			continue
		}
		kind := rapid.SampledFrom([]string{"folder", "file", "file", "sparse", "symlink", "link"}).Draw(t, "kind")
		var err error
		switch kind {
		case "folder":
			err = os.Mkdir(path, 0o755)
			folders = append(folders, path)
		case "file":
			err = os.WriteFile(path, rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "content"), 0o600)
			files = append(files, path)
		case "sparse":
			err = sparse(t, path)
			files = append(files, path)
		case "symlink":
			target := name.Draw(t, "target")
			if rapid.Bool().Draw(t, "absolute") {
				target = "/" + target
			}
			err = os.Symlink(target, path)
		case "link":
			if len(files) == 0 {
				continue
			}
			err = os.Link(rapid.SampledFrom(files).Draw(t, "linked"), path)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, made{path, kind})
	}
	// From the last to the first, so that a folder's time is set after its content.
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		if err := unix.Lchown(m.path, owner.Draw(t, "uid"), owner.Draw(t, "gid")); err != nil {
			t.Fatal(err)
		}
		if m.kind != "symlink" {
			for key, value := range attrs.Draw(t, "attrs") {
				if err := unix.Setxattr(m.path, key, value, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := unix.Chmod(m.path, rapid.Uint32Range(0, 0o7777).Draw(t, "mode")); err != nil {
				t.Fatal(err)
			}
		}
		ts, err := unix.TimeToTimespec(when.Draw(t, "mtime"))
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.UtimesNanoAt(unix.AT_FDCWD, m.path, []unix.Timespec{{}, ts}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			t.Fatal(err)
		}
	}
}

// sparse makes a file of holes with pieces of data between.
func sparse(t *rapid.T, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size := rapid.Int64Range(0, 3<<20).Draw(t, "size")
	if err := f.Truncate(size); err != nil {
		return err
	}
	for range rapid.IntRange(0, 4).Draw(t, "pieces") {
		at := rapid.Int64Range(0, size).Draw(t, "at")
		if _, err := fmt.Fprint(&offset{f, at}, rapid.StringN(1, 300, -1).Draw(t, "piece")); err != nil {
			return err
		}
	}
	return nil
}

type offset struct {
	f  *os.File
	at int64
}

func (o *offset) Write(p []byte) (int, error) { return o.f.WriteAt(p, o.at) }

func TestRandomTreesSurviveIntoADirtyVolume(t *testing.T) {
	base := t.TempDir()
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++
		from, to := filepath.Join(base, fmt.Sprint(round, "from")), filepath.Join(base, fmt.Sprint(round, "to"))
		for _, dir := range []string{from, to} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				rt.Fatal(err)
			}
			defer os.RemoveAll(dir)
			randomTree(rt, dir)
		}
		want := snapshot(t, from)
		packed := pack(t, from)
		if err := restoreInto(t, to, packed); err != nil {
			rt.Fatal(err)
		}
		got := snapshot(t, to)
		for name, line := range want {
			if got[name] != line {
				rt.Fatalf("%q:\n want %s\n  got %s", name, line, got[name])
			}
		}
		if len(got) != len(want) {
			rt.Fatalf("%d entries became %d", len(want), len(got))
		}
		// Packing changed nothing, and packing what came back gives the same entries.
		if len(pack(t, to)) != len(packed) {
			rt.Fatal("the restored tree packs differently")
		}
	})
}
