package tree

import (
	"archive/tar"
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/storagejob/internal/pax/paxtest"
)

// craft creates a tar stream from headers; the content of a regular file is its own name.
func craft(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	tw := tar.NewWriter(&out)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(h.Name))
		}
		h.Mode = 0o755
		must(t, tw.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := tw.Write([]byte(h.Name))
			must(t, err)
		}
	}
	must(t, tw.Close())
	return out.Bytes()
}

func file(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
func dir(name string) tar.Header  { return tar.Header{Typeflag: tar.TypeDir, Name: name} }
func link(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
}
func symlink(name, to string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
}

// hostile returns archives that must be refused.
func hostile(t testing.TB) map[string][]byte {
	whole := craft(t, file("a"), file("b"))
	archives := map[string][]byte{
		"absolute":                    craft(t, file("/outside")),
		"absolute folder":             craft(t, dir("/outside/")),
		"parent":                      craft(t, file("../outside")),
		"parent inside":               craft(t, dir("a/"), file("a/../../outside")),
		"parent folder":               craft(t, dir("../")),
		"dot inside":                  craft(t, dir("a/"), file("a/./b")),
		"empty part":                  craft(t, dir("a/"), file("a//b")),
		"long name":                   craft(t, file(strings.Repeat("x", 256))),
		"symlink longer than a path":  craft(t, symlink("a", strings.Repeat("x/", 3000))),
		"owner below zero":            craft(t, tar.Header{Typeflag: tar.TypeDir, Name: "a/", Uid: -1}),
		"group that means none":       craft(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b", Gid: 1<<32 - 1}),
		"below a symlink":             craft(t, symlink("a", ".."), file("a/outside")),
		"below a symlink that stays":  craft(t, dir("b/"), symlink("a", "b"), file("a/file")),
		"folder through a symlink":    craft(t, symlink("a", ".."), dir("a/")),
		"below a file":                craft(t, file("a"), file("a/b")),
		"file over a symlink":         craft(t, symlink("a", "../outside"), file("a")),
		"twice":                       craft(t, file("a"), file("a")),
		"file over a folder":          craft(t, dir("a/"), file("a")),
		"hard link outside":           craft(t, link("a", "../sentinel")),
		"absolute hard link":          craft(t, link("a", "/etc/passwd")),
		"hard link through a symlink": craft(t, symlink("s", ".."), link("a", "s/sentinel")),
		"hard link to a folder":       craft(t, dir("d/"), link("a", "d")),
		"hard link to the root":       craft(t, link("a", "./")),
		"hard link to what comes":     craft(t, link("a", "b"), file("b")),
		"hard link to the old files":  craft(t, link("a", "mine")),
		"device":                      craft(t, tar.Header{Typeflag: tar.TypeBlock, Name: "sda", Devmajor: 8}),
		"character device":            craft(t, tar.Header{Typeflag: tar.TypeChar, Name: "mem", Devmajor: 1, Devminor: 1}),
		"fifo":                        craft(t, tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"}),
		"root is a file":              craft(t, tar.Header{Typeflag: tar.TypeSymlink, Name: ".", Linkname: "/"}),
		"reserved name":               craft(t, dir(legacyStaging+"/"), file(legacyStaging+"/verified-x")),
		"time of no file system": craft(t,
			tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 0, Format: tar.FormatPAX, ModTime: time.Unix(1<<62, 0)},
			file("/x")),
		"cut in a file":   whole[:512],
		"cut in a header": whole[:1300],
		"garbage":         bytes.Repeat([]byte("garbage "), 200),
	}
	maps.Copy(archives, paxtest.Lies(t))
	return archives
}

func TestHostileArchivesAreRefusedAndTheVolumeStays(t *testing.T) {
	for name, archive := range hostile(t) {
		t.Run(name, func(t *testing.T) {
			around := t.TempDir()
			volume := filepath.Join(around, "volume")
			must(t, os.Mkdir(volume, 0o755))
			must(t, os.WriteFile(filepath.Join(around, "sentinel"), []byte("untouched"), 0o600))
			must(t, os.WriteFile(filepath.Join(volume, "mine"), []byte("mine"), 0o600))
			must(t, os.Chtimes(volume, time.Time{}, time.Unix(3, 4)))
			want := snapshot(t, around)
			if err := restoreInto(t, volume, archive); !errors.Is(err, ErrCorrupt) {
				t.Errorf("got %v, want %v", err, ErrCorrupt)
			}
			requireEqual(t, want, snapshot(t, around))
		})
	}
}

func TestHarmlessOdditiesAreAccepted(t *testing.T) {
	volume := t.TempDir()
	archive := craft(t, dir("./"), file("no/folder/entries"), symlink("out", "/etc/passwd"), symlink("up", "../../.."),
		file("...three"), file("a..b"), link("again", "./no/folder/entries"), dir("no/"), file("no/later"))
	must(t, restoreInto(t, volume, archive))
	got := snapshot(t, volume)
	for _, name := range []string{"no/folder/entries", "out", "up", "...three", "a..b", "again", "no/later"} {
		if _, ok := got[name]; !ok {
			t.Errorf("%q is missing", name)
		}
	}
}
