package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

// spoiled is an archive in the store to be damaged, and a volume in memory that no damage may change.
type spoiled struct {
	*bench
	to     string
	before string
	good   []byte
	runs   int
}

// newSpoiled archives a small home with one file of every kind.
func newSpoiled(t *testing.T) *spoiled {
	b := newBench(t)
	for _, assignment := range b.env {
		name, value, _ := strings.Cut(assignment, "=")
		t.Setenv(name, value)
	}
	from := t.TempDir()
	must(t, os.Mkdir(filepath.Join(from, "folder"), 0o750))
	must(t, os.WriteFile(filepath.Join(from, "folder/file"), []byte("the only copy of this text"), 0o640))
	must(t, os.Link(filepath.Join(from, "folder/file"), filepath.Join(from, "link")))
	must(t, os.Symlink("folder/file", filepath.Join(from, "symlink")))
	must(t, os.WriteFile(filepath.Join(from, "sparse"), []byte("begins"), 0o600))
	must(t, os.Truncate(filepath.Join(from, "sparse"), 1<<20))
	must(t, unix.Setxattr(filepath.Join(from, "folder"), "user.attribute", []byte("value"), 0))

	to := t.TempDir()
	must(t, unix.Mount("tmpfs", to, "tmpfs", 0, "size=16m"))
	t.Cleanup(func() { must(t, unix.Unmount(to, unix.MNT_DETACH)) })
	s := &spoiled{bench: b, to: to}
	b.ok("archive", from)
	s.good, _ = b.get(b.key)
	s.refill()
	return s
}

// refill restores the volume's initial content: the owner's current files.
func (s *spoiled) refill() {
	s.t.Helper()
	names, err := os.ReadDir(s.to)
	must(s.t, err)
	for _, name := range names {
		must(s.t, os.RemoveAll(filepath.Join(s.to, name.Name())))
	}
	must(s.t, os.Mkdir(filepath.Join(s.to, "folder"), 0o700))
	must(s.t, os.WriteFile(filepath.Join(s.to, "folder/mine"), []byte("mine"), 0o600))
	must(s.t, os.Chtimes(s.to, time.Time{}, time.Unix(7, 8)))
	s.before = summary(s.t, s.to)
}

// restore runs the job in this process.
func (s *spoiled) restore() (code int, out string) {
	var stdout, stderr bytes.Buffer
	s.runs++
	code = run(s.t.Context(), []string{"restore", "--volume", s.to, "--progress", "1h"}, os.Getenv, &stdout,
		&stderr, nil)
	return code, stdout.String()
}

// refuses expects a clear error and an unchanged volume.
func (s *spoiled) refuses(what string, codes ...int) {
	s.t.Helper()
	code, out := s.restore()
	res, ok := contract.ParseResult([]byte(out))
	if !slices.Contains(codes, code) || !ok || res.OK || res.Error == "" {
		s.t.Fatalf("%s: exit code %d, %s", what, code, out)
	}
	if after := summary(s.t, s.to); after != s.before {
		s.t.Fatalf("%s has changed the volume:\n%s\nwas\n%s", what, after, s.before)
	}
}

// summary describes a folder with everything except access and change times.
func summary(t testing.TB, dir string) string {
	t.Helper()
	var lines strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%q %o %d:%d %d %d", strings.TrimPrefix(path, dir), st.Mode, st.Uid, st.Gid,
			st.Mtim.Nano(), st.Nlink)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&lines, " %x", sha256.Sum256(content))
		case unix.S_IFLNK:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&lines, " %q", target)
		}
		lines.WriteByte('\n')
		return nil
	}))
	return lines.String()
}

// TestChangesThatTheChecksumFinds changes the archive, and every byte of the .meta.
func TestChangesThatTheChecksumFinds(t *testing.T) {
	s := newSpoiled(t)
	text, _ := s.get(meta)
	for i := 0; i < len(s.good); i += 5 { // the checksum treats all bytes alike
		bad := bytes.Clone(s.good)
		bad[i] ^= 1 << (i % 8)
		s.put(s.key, bad)
		s.refuses(fmt.Sprint("byte ", i, " flipped"), contract.ExitCorrupted)
	}
	for size := 0; size < len(s.good); size += 1 + len(s.good)/20 {
		s.put(s.key, s.good[:size])
		s.refuses(fmt.Sprint("cut to ", size), contract.ExitCorrupted)
	}
	s.put(s.key, s.good)
	for i := range text {
		bad := bytes.Clone(text)
		bad[i] ^= []byte{1, 0x20}[i%2] // 0x20 turns lower case into upper case
		s.put(meta, bad)
		s.refuses(fmt.Sprintf(".meta %q", bad), contract.ExitCorrupted)
		s.put(meta, text[:i])
		s.refuses(fmt.Sprintf(".meta %q", text[:i]), contract.ExitCorrupted)
	}
	s.put(meta, text)
	if code, out := s.restore(); code != contract.ExitOK {
		t.Fatalf("undamaged: %d, %s", code, out)
	}
	t.Logf("%d restores of an archive of %d bytes", s.runs, len(s.good))
}

// TestEveryByteFlippedBehindTheChecksum: the .meta vouches for the damaged archive. The checksum in the compressed
// stream then finds the damage, unless the damage has no effect.
func TestEveryByteFlippedBehindTheChecksum(t *testing.T) {
	s := newSpoiled(t)
	want, same := namesIn(t, s.good), 0
	try := func(what string, bad []byte) {
		t.Helper()
		s.putMeta(bad, nil)
		code, out := s.restore()
		switch code {
		case contract.ExitOK:
			if got := names(t, s.to); !slices.Equal(got, want) {
				t.Fatalf("%s: unpacked %q instead of %q", what, got, want)
			}
			same++
			s.refill()
		case contract.ExitCorrupted, contract.ExitRefused:
			if after := summary(t, s.to); after != s.before {
				t.Fatalf("%s has changed the volume:\n%s", what, after)
			}
		default:
			t.Fatalf("%s: exit code %d, %s", what, code, out)
		}
	}
	for i := range s.good {
		bad := bytes.Clone(s.good)
		bad[i] ^= 1 << (i % 8)
		try(fmt.Sprint("byte ", i), bad)
	}
	// One layer below the store, where testing every length is fast.
	volume, err := tree.OpenVolume(s.to, "")
	must(t, err)
	for size := range s.good {
		rep := newReporter(io.Discard, contract.About{}, time.Hour)
		err := decode(t.Context(), bytes.NewReader(s.good[:size]), nil, volume, tree.Limits{Bytes: 1 << 30}, rep)
		rep.finish(contract.Result{}, err)
		// An empty archive is refused because of its size, so an empty one never gets here.
		if size > 0 && !errors.Is(err, tree.ErrCorrupt) {
			t.Errorf("cut to %d: %v", size, err)
		}
		must(t, volume.Discard())
		if after := summary(t, s.to); after != s.before {
			t.Fatalf("cut to %d, it has changed the volume:\n%s", size, after)
		}
	}
	must(t, volume.Close())
	for _, size := range []int{1, 4, 5, len(s.good) / 2, len(s.good) - 1} {
		s.putMeta(s.good[:size], nil)
		s.refuses(fmt.Sprint("cut to ", size), contract.ExitCorrupted)
	}
	// Neither trailing garbage nor a second archive counts as part of the archive.
	s.putMeta(append(bytes.Clone(s.good), "garbage"...), nil)
	s.refuses("trailing garbage", contract.ExitCorrupted)
	t.Logf("%d restores, of which %d had something to unpack", s.runs, same)
}

// names lists kind, name and content of everything in a volume.
func names(t testing.TB, dir string) []string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		content := ""
		if entry.Type().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			content = fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		list = append(list, fmt.Sprintf("%q%s", strings.TrimPrefix(path, dir+"/"), content))
		return nil
	}))
	slices.Sort(list)
	return list
}

// namesIn is like names, but for what Go's tar reader finds in an archive.
func namesIn(t testing.TB, archive []byte) []string {
	t.Helper()
	dec, err := zstd.NewReader(bytes.NewReader(archive))
	must(t, err)
	defer dec.Close()
	content := make(map[string]string)
	tr := tar.NewReader(dec)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		sum := sha256.New()
		_, err = io.Copy(sum, tr)
		must(t, err)
		name := filepath.Clean(h.Name)
		switch h.Typeflag {
		case tar.TypeReg:
			content[name] = fmt.Sprintf(" %x", sum.Sum(nil))
		case tar.TypeLink:
			content[name] = content[filepath.Clean(h.Linkname)]
		default:
			content[name] = ""
		}
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if _, ok := content[dir]; !ok {
				content[dir] = "" // a folder without an entry
			}
		}
	}
	delete(content, ".")
	var list []string
	for name, sum := range content {
		list = append(list, strconv.Quote(name)+sum)
	}
	slices.Sort(list)
	return list
}

// TestSizesThatLie: the recorded sizes bound a restore and are checked.
func TestSizesThatLie(t *testing.T) {
	s := newSpoiled(t)
	size := int64(len(s.good))
	text := func(n int64) string { return strconv.FormatInt(n, 10) }
	for name, sizes := range map[string]map[string]string{
		"an archive one byte smaller": {contract.MetaArchiveSize: text(size - 1)},
		"an archive one byte larger":  {contract.MetaArchiveSize: text(size + 1)},
		"less content":                {contract.MetaContentSize: text(4096)},
		"content without the holes":   {contract.MetaContentSize: text(1 << 20)},
		"content of one byte":         {contract.MetaContentSize: "1"},
	} {
		s.putMeta(s.good, sizes)
		s.refuses(name, contract.ExitCorrupted)
	}
	for name, sizes := range map[string]map[string]string{
		"none": nil, "no numbers": {contract.MetaArchiveSize: "many", contract.MetaContentSize: "1e3"},
		"below zero": {contract.MetaArchiveSize: "-1", contract.MetaContentSize: "-1"}, "more than it is": {contract.MetaContentSize: text(1 << 40)},
	} {
		s.putMeta(s.good, sizes)
		if code, out := s.restore(); code != contract.ExitOK {
			t.Errorf("%s: exit code %d, %s", name, code, out)
		}
	}
}
