package tree

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/storagejob/internal/pax"
)

// Generators for a file's properties.
var (
	// anyName returns a name of any bytes; every third one has the maximum length.
	anyName = rapid.Custom(func(t *rapid.T) string {
		b := rapid.OneOf(
			rapid.SliceOfN(rapid.Byte(), 1, 12), rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n\\ \xff\"%=")), 1, 20),
			rapid.SliceOfN(rapid.Byte(), 255, 255),
		).Draw(t, "bytes")
		s := strings.NewReplacer("/", "_", "\x00", "_").Replace(string(b))
		if s == "." || s == ".." || s == legacyStaging {
			s = "x" + s
		}
		return s
	})
	// anyTime returns a time that ext4 can store: 1901 to 2446, in nanoseconds.
	anyTime = rapid.Custom(func(t *rapid.T) unix.Timespec {
		sec := rapid.OneOf(rapid.Int64Range(-1<<31, 0x37fffffff),
			rapid.SampledFrom([]int64{-1 << 31, -2, -1, 0, 1<<31 - 1, 1 << 33, 0x37fffffff}))
		return unix.Timespec{Sec: sec.Draw(t, "sec"),
			Nsec: rapid.SampledFrom([]int64{0, 1, 120_000_000, 999_999_999}).Draw(t, "nsec")}
	})
	anyOwner = rapid.OneOf(rapid.IntRange(0, 2000), rapid.IntRange(1<<21-1, 1<<32-2))
	anyAttrs = rapid.OneOf(
		rapid.Just(map[string][]byte(nil)),
		rapid.MapOfN(rapid.StringMatching(`user\.[ -~]{1,20}`), rapid.SliceOfN(rapid.Byte(), 0, 20), 0, 3),
		rapid.MapOfN(rapid.StringMatching(`user\.[a-z]{3}`), rapid.Just([]byte(nil)), 10, 30), // many, without a value
	)
	anyACL = rapid.Custom(func(t *rapid.T) []byte {
		return acl(rapid.Byte().Draw(t, "owner")&7, rapid.Byte().Draw(t, "rest")&7, rapid.Uint16().Draw(t, "user"))
	})
)

// randomTree fills dir with anything that a file system accepts, and returns its sparse files.
func randomTree(t *rapid.T, dir string) (holes []string) {
	all := []string{dir}
	folders, files := []string{dir}, []string(nil)
	for range rapid.IntRange(0, 30).Draw(t, "entries") {
		path := rapid.SampledFrom(folders).Draw(t, "parent") + "/" + anyName.Draw(t, "name")
		if _, err := os.Lstat(path); err == nil || len(path) > 3500 {
			continue
		}
		var err error
		switch rapid.SampledFrom([]string{"folder", "file", "file", "sparse", "symlink", "link", "link"}).Draw(t,
			"kind") {
		case "folder":
			err = os.Mkdir(path, 0o755)
			folders = append(folders, path)
		case "file":
			size := rapid.SampledFrom([]int{0, 1, pax.BlockSize, pax.BlockSize + 1, holeSize, 3000, copyBuffer,
				copyBuffer + 1}).Draw(t, "size")
			err = os.WriteFile(path, bytes.Repeat([]byte{rapid.Byte().Draw(t, "fill"), 1, 0}, size/3+1)[:size], 0o600)
			files = append(files, path)
		case "sparse":
			err = sparse(t, path)
			files, holes = append(files, path), append(holes, path)
		case "symlink":
			target := anyName.Draw(t, "target")
			if rapid.Bool().Draw(t, "absolute") {
				target = "/" + target
			}
			err = os.Symlink(target, path)
			files = append(files, path)
		case "link": // also of symlinks, and across folders
			if len(files) == 0 {
				continue
			}
			err = os.Link(rapid.SampledFrom(files).Draw(t, "linked"), path)
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, path)
	}
	// Backward, so that a folder's time is set after its content.
	for _, path := range slices.Backward(all) {
		decorate(t, path)
	}
	return holes
}

// decorate gives a file random attributes.
func decorate(t *rapid.T, path string) {
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	check(unix.Lchown(path, anyOwner.Draw(t, "uid"), anyOwner.Draw(t, "gid")))
	var st unix.Stat_t
	check(unix.Lstat(path, &st))
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFLNK {
		for key, value := range anyAttrs.Draw(t, "attrs") {
			check(unix.Setxattr(path, key, value, 0))
		}
		if rapid.IntRange(0, 3).Draw(t, "acl") == 0 {
			check(unix.Setxattr(path, "system.posix_acl_access", anyACL.Draw(t, "access"), 0))
		}
		if kind == unix.S_IFDIR && rapid.IntRange(0, 3).Draw(t, "default acl") == 0 {
			check(unix.Setxattr(path, "system.posix_acl_default", anyACL.Draw(t, "default"), 0))
		}
		check(unix.Chmod(path, rapid.Uint32Range(0, 0o7777).Draw(t, "mode")))
	}
	check(unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{{}, anyTime.Draw(t, "mtime")},
		unix.AT_SYMLINK_NOFOLLOW))
}

// sparse creates a file of holes with pieces of data in between.
func sparse(t *rapid.T, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	size := rapid.OneOf(rapid.Int64Range(0, 3<<20), rapid.Int64Range(0, 1<<40)).Draw(t, "size")
	if err := f.Truncate(size); err != nil {
		return err
	}
	for range rapid.IntRange(0, 4).Draw(t, "pieces") {
		at := rapid.Int64Range(0, size).Draw(t, "at")
		if _, err := f.WriteAt(bytes.Repeat([]byte("x"), rapid.IntRange(1, 9000).Draw(t, "piece")), at); err != nil {
			return err
		}
	}
	return nil
}

func TestRandomTreesSurviveIntoADirtyVolume(t *testing.T) {
	base := t.TempDir()
	round := 0
	seed.Rapid(t, func(rt *rapid.T) {
		round++
		from, to := filepath.Join(base, fmt.Sprint(round, "from")), filepath.Join(base, fmt.Sprint(round, "to"))
		var holes []string
		for _, dir := range []string{to, from} {
			if err := os.Mkdir(dir, 0o755); err != nil {
				rt.Fatal(err)
			}
			defer os.RemoveAll(dir)
			holes = randomTree(rt, dir)
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
		for _, path := range holes {
			wantParts, _, wantBlocks := mapOfFile(t, path)
			gotParts, _, gotBlocks := mapOfFile(t, to+strings.TrimPrefix(path, from))
			if !slices.Equal(gotParts, wantParts) || gotBlocks > wantBlocks+16 {
				rt.Fatalf("%q has data at %v in %d blocks, want %v in %d", path, gotParts, gotBlocks, wantParts,
					wantBlocks)
			}
		}
		// Packing has changed nothing, and packing the restored tree yields the same entries.
		if after := snapshot(t, from); !maps.Equal(after, want) {
			rt.Fatal("packing has changed the tree")
		}
		if len(pack(t, to)) != len(packed) {
			rt.Fatal("the restored tree packs differently")
		}
	})
}
