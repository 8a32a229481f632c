package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"
)

const meta = testKey + ".meta"

func TestArchiveThenRestore(t *testing.T) {
	for name, size := range map[string]int{"nothing": 0, "one part": 1 << 20, "several parts": 50 << 20} {
		t.Run(name, func(t *testing.T) {
			b, from, to := newBench(t), home(t, size), home(t, 3000)
			want := listing(t, from)

			made := b.ok("archive", from)
			content, ok := b.get(b.key)
			if !ok {
				t.Fatal("no archive in the store")
			}
			sum := fmt.Sprintf("%x", sha256.Sum256(content))
			if made.Size != int64(len(content)) || made.SHA256 != sum || made.Bytes < int64(size) || made.Done {
				t.Errorf("result %+v of an archive of %d bytes, sha256 %s", made, len(content), sum)
			}
			if text, _ := b.get(meta); string(text) != "sha256:"+sum {
				t.Errorf(".meta is %q", text)
			}
			if n := b.unfinished(); n != 0 {
				t.Errorf("%d unfinished uploads", n)
			}
			if again := b.ok("archive", from); !again.Done || again.SHA256 != sum || again.Size != made.Size {
				t.Errorf("run again: %+v", again)
			}
			for range 2 {
				back := b.ok("restore", to)
				if back.Size != made.Size || back.SHA256 != sum || back.Bytes != made.Bytes || back.Files != made.Files {
					t.Errorf("archived %+v, restored %+v", made, back)
				}
				requireSame(t, want, to)
			}
		})
	}
}

func TestArchiveKilledAndRunAgain(t *testing.T) {
	from := home(t, 80<<20)
	want := listing(t, from)
	for name, when := range map[string]func(progress) bool{
		"at the start":    func(p progress) bool { return p.Step == stepArchive },
		"between parts":   func(p progress) bool { return p.Transferred > 40<<20 },
		"while it counts": func(p progress) bool { return p.Step == stepCommit },
	} {
		t.Run(name, func(t *testing.T) {
			b, to := newBench(t), t.TempDir()
			if _, sent := b.kill(syscall.SIGKILL, "archive", from, when); !sent {
				t.Fatal("the job ended before it was killed")
			}
			// At the last step the signal may come too late to hinder it.
			if _, committed := b.get(meta); committed && name != "while it counts" {
				t.Error("a killed job has committed")
			}
			b.ok("archive", from)
			if n := b.unfinished(); n != 0 {
				t.Errorf("%d unfinished uploads are left", n)
			}
			b.ok("restore", to)
			requireSame(t, want, to)
		})
	}
}

func TestRestoreKilledAndRunAgain(t *testing.T) {
	b, from := newBench(t), home(t, 60<<20)
	want := listing(t, from)
	b.ok("archive", from)
	for name, when := range map[string]func(progress) bool{
		"at the start": func(p progress) bool { return p.Step == stepUnpack },
		"half way":     func(p progress) bool { return p.Transferred > 30<<20 },
		"at the swap":  func(p progress) bool { return p.Step == stepSwap },
	} {
		t.Run(name, func(t *testing.T) {
			to := home(t, 3000)
			if _, sent := b.kill(syscall.SIGKILL, "restore", to, when); !sent {
				t.Fatal("the job ended before it was killed")
			}
			b.ok("restore", to)
			requireSame(t, want, to)
		})
	}
}

func TestTerminatedJobCleansUp(t *testing.T) {
	b, from := newBench(t), home(t, 80<<20)
	code, sent := b.kill(syscall.SIGTERM, "archive", from, func(p progress) bool { return p.Transferred > 40<<20 })
	if !sent || code != exitOther {
		t.Errorf("signal sent: %v, exit code %d", sent, code)
	}
	if n := b.unfinished(); n != 0 {
		t.Errorf("%d unfinished uploads are left", n)
	}
	b.ok("archive", from)
	to := home(t, 3000)
	before := listing(t, to)
	code, sent = b.kill(syscall.SIGTERM, "restore", to, func(p progress) bool { return p.Transferred > 30<<20 })
	if !sent || code != exitOther {
		t.Errorf("signal sent: %v, exit code %d", sent, code)
	}
	requireSame(t, before, to)
}

func TestDamagedArchiveLeavesTheVolumeAlone(t *testing.T) {
	b, from, to := newBench(t), home(t, 5<<20), home(t, 3000)
	before := listing(t, to)
	b.ok("archive", from)
	good, _ := b.get(b.key)
	goodMeta, _ := b.get(meta)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	empty := sha256.Sum256(nil)
	for name, damage := range map[string]struct{ archive, meta []byte }{
		"one bit":              {flipped, goodMeta},
		"last byte gone":       {good[:len(good)-1], goodMeta},
		"trailing garbage":     {append(bytes.Clone(good), "garbage"...), goodMeta},
		"nothing":              {nil, goodMeta},
		"nothing, as promised": {nil, fmt.Appendf(nil, "sha256:%x", empty)},
		"another checksum":     {good, fmt.Appendf(nil, "sha256:%064x", 1)},
		"no checksum":          {good, []byte("hello")},
		"not a tar, as promised": {
			[]byte("garbage"), fmt.Appendf(nil, "sha256:%x", sha256.Sum256([]byte("garbage"))),
		},
	} {
		t.Run(name, func(t *testing.T) {
			b.put(b.key, damage.archive)
			b.put(meta, damage.meta)
			b.fails(exitCorrupted, "restore", to)
			requireSame(t, before, to)
		})
	}
}

func TestHugeWindowIsRefused(t *testing.T) {
	b, to := newBench(t), t.TempDir()
	var out bytes.Buffer
	enc, err := zstd.NewWriter(&out, zstd.WithWindowSize(64<<20))
	must(t, err)
	_, err = enc.Write(make([]byte, 100<<20))
	must(t, err)
	must(t, enc.Close())
	b.put(b.key, out.Bytes())
	b.put(meta, fmt.Appendf(nil, "sha256:%x", sha256.Sum256(out.Bytes())))
	b.fails(exitCorrupted, "restore", to)
}

func TestHalfAnArchiveIsMissing(t *testing.T) {
	b, from, to := newBench(t), home(t, 100_000), home(t, 3000)
	before := listing(t, to)
	b.fails(exitMissing, "restore", to)
	b.ok("archive", from)
	b.remove(meta)
	b.fails(exitMissing, "restore", to)
	// Not committed: archiving makes it anew, and of what the volume holds now.
	must(t, os.WriteFile(filepath.Join(from, "new"), []byte("new"), 0o600))
	if again := b.ok("archive", from); again.Done {
		t.Errorf("an archive without .meta counted: %+v", again)
	}
	b.remove(b.key)
	b.fails(exitMissing, "restore", to)
	requireSame(t, before, to)
	// A .meta without its archive is replaced as well.
	if again := b.ok("archive", from); again.Done {
		t.Errorf("a .meta without archive counted: %+v", again)
	}
	// And so is an archive that is not the one of the .meta.
	b.put(b.key, []byte("another"))
	if again := b.ok("archive", from); again.Done {
		t.Errorf("an archive of another size counted: %+v", again)
	}
	b.ok("restore", to)
	requireSame(t, listing(t, from), to)
}

func TestStoreThatCannotBeReached(t *testing.T) {
	b, volume := newBench(t), home(t, 3000)
	before := listing(t, volume)
	// A port that was free a moment ago: nobody listens.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	dead := "AWS_ENDPOINT_URL_S3=http://" + l.Addr().String()
	must(t, l.Close())
	for _, job := range []string{"archive", "restore"} {
		b.fails(exitUnreachable, job, volume, dead)
		b.fails(exitUnreachable, job, volume, "AWS_SECRET_ACCESS_KEY=wrong")
		// A wrong bucket must not look like lost data.
		b.fails(exitUnreachable, job, volume, "ARCHIVE_URL=s3://no-such-bucket/x/home.tar.zst")
	}
	requireSame(t, before, volume)
}

func TestDiskFullIsClearAndLeavesTheVolumeAlone(t *testing.T) {
	b, from, to := newBench(t), home(t, 8<<20), t.TempDir()
	b.ok("archive", from)
	must(t, unix.Mount("tmpfs", to, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { must(t, unix.Unmount(to, 0)) })
	must(t, os.WriteFile(filepath.Join(to, "mine"), []byte("mine"), 0o600))
	before := listing(t, to)
	res := b.fails(exitDiskFull, "restore", to)
	if !strings.Contains(res.Error, "no space left") {
		t.Errorf("the error is %q", res.Error)
	}
	requireSame(t, before, to)
}

func TestUsage(t *testing.T) {
	env := map[string]string{"ARCHIVE_URL": "s3://bucket/key"}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want int
	}{
		"help":           {[]string{"--help"}, env, exitOK},
		"help of a job":  {[]string{"archive", "--help"}, env, exitOK},
		"nothing":        {nil, env, exitUsage},
		"unknown":        {[]string{"delete"}, env, exitUsage},
		"surplus":        {[]string{"archive", "now"}, env, exitUsage},
		"no address":     {[]string{"archive"}, nil, exitUsage},
		"bad address":    {[]string{"archive"}, map[string]string{"ARCHIVE_URL": "http://x/y"}, exitUsage},
		"only a bucket":  {[]string{"restore"}, map[string]string{"ARCHIVE_URL": "s3://bucket/"}, exitUsage},
		"bad path style": {[]string{"archive"}, map[string]string{"ARCHIVE_URL": "s3://b/k", "S3_PATH_STYLE": "maybe"}, exitUsage},
		"bad interval":   {[]string{"archive", "--progress", "0s"}, env, exitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), c.args, func(key string) string { return c.env[key] }, &out, &errs)
			if code != c.want {
				t.Errorf("exit code %d, want %d: %s", code, c.want, &errs)
			}
			if c.want == exitOK && !strings.Contains(errs.String(), "ARCHIVE_URL") {
				t.Errorf("help says %q", &errs)
			}
		})
	}
}
