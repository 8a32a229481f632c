package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	archives "github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/encryption"
	"github.com/codehub/gateway/storagejob/internal/object"
	"github.com/codehub/gateway/storagejob/internal/proof"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

const meta = testKey + contract.MetaSuffix

// testSum stands for the checksum of an archive.
var testSum = strings.Repeat("0f", 32)

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
				if back.Size != made.Size || back.SHA256 != sum || back.Bytes != made.Bytes ||
					back.Files != made.Files {
					t.Errorf("archived %+v, restored %+v", made, back)
				}
				requireSame(t, want, to)
			}
		})
	}
}

// granted is a job with what the coordinator gives it: an environment without credentials, and a grant in the scratch
// folder.
func (b *bench) granted(store *archives.Store, kind workspace.JobKind, key string) *bench {
	b.t.Helper()
	g, err := store.Grant(b.t.Context(), kind, key, time.Hour)
	must(b.t, err)
	text, err := json.Marshal(g)
	must(b.t, err)
	with := *b
	with.scratch, with.env = b.t.TempDir(), append(store.JobEnv(key), asJob+"=1")
	must(b.t, os.WriteFile(filepath.Join(with.scratch, contract.GrantName), text, 0o400))
	return &with
}

// TestWorksWithTheCoordinator: the job understands the environment, the grants and the archives that the coordinator
// makes, and the coordinator understands the job's archives.
func TestWorksWithTheCoordinator(t *testing.T) {
	b := newBench(t)
	store, err := archives.New(archives.Options{
		Endpoint: b.store.Endpoint, Region: b.store.Region, Bucket: b.store.Bucket,
		AccessKey: b.store.AccessKey, SecretKey: b.store.SecretKey, PathStyle: true,
	})
	must(t, err)
	const empty = "a/empty/home.tar.zst"
	to := home(t, 3000)
	must(t, store.CreateEmpty(t.Context(), empty))
	if res := b.granted(store, workspace.JobRestore, empty).ok("restore", to); res.Files != 0 {
		t.Errorf("restoring the empty archive: %+v", res)
	}
	if names, err := os.ReadDir(to); err != nil || len(names) != 0 {
		t.Errorf("it left %v, %v", names, err)
	}
	// This home compresses like a bomb: the sizes must be recorded.
	sparse := t.TempDir()
	must(t, os.WriteFile(filepath.Join(sparse, "zeros"), make([]byte, 200<<20), 0o600))
	for name, from := range map[string]string{"one part": home(t, 100_000), "several parts": home(t, 50<<20),
		"zeros": sparse} {
		t.Run(name, func(t *testing.T) {
			key := "a/" + strings.ReplaceAll(name, " ", "-") + "/home.tar.zst"
			job := b.granted(store, workspace.JobArchive, key)
			res := job.ok("archive", from)
			info, err := store.Stat(t.Context(), key)
			if err != nil || info.Size != res.Size {
				t.Errorf("the job: %+v; the coordinator: %+v, %v", res, info, err)
			}
			if left, err := os.ReadDir(job.scratch); err != nil || len(left) != 0 {
				t.Errorf("the scratch folder holds %v, %v", left, err)
			}
			if again := b.granted(store, workspace.JobArchive, key).ok("archive", from); !again.Done ||
				again.SHA256 != res.SHA256 {
				t.Errorf("run again: %+v", again)
			}
			if n := b.unfinished(); n != 0 {
				t.Errorf("%d unfinished uploads", n)
			}
			b.granted(store, workspace.JobRestore, key).ok("restore", to)
			requireSame(t, listing(t, from), to)
		})
	}
}

// TestEncryptedByTheCoordinator: the coordinator passes its keys to the job in grants: public keys to archive, and
// secret ones to restore. They also open its own empty archives.
func TestEncryptedByTheCoordinator(t *testing.T) {
	b, to, id := newBench(t), home(t, 3000), identity(t)
	store, err := archives.New(archives.Options{
		Endpoint: b.store.Endpoint, Region: b.store.Region, Bucket: b.store.Bucket,
		AccessKey: b.store.AccessKey, SecretKey: b.store.SecretKey, PathStyle: true,
	})
	must(t, err)
	store.Apply(archives.Settings{Verify: contract.VerifyFull, Keys: archives.Keys{
		Recipients: []string{id.key.Recipient().String()}, Identities: []string{id.key.String()},
	}})
	const encrypted = "a/encrypted/home.tar.zst"
	const empty = "a/empty/home.tar.zst"
	must(t, store.CreateEmpty(t.Context(), empty))
	from := home(t, 100_000)
	b.granted(store, workspace.JobArchive, encrypted).ok("archive", from)
	for key, want := range map[string]string{encrypted: listing(t, from), empty: ""} {
		b.granted(store, workspace.JobRestore, key).ok("restore", to)
		if want != "" {
			requireSame(t, want, to)
		} else if names, err := os.ReadDir(to); err != nil || len(names) != 0 {
			t.Errorf("the empty archive left %v, %v", names, err)
		}
	}
	store.Apply(archives.DefaultSettings())
	b.granted(store, workspace.JobRestore, encrypted).fails(contract.ExitLocked, "restore", to)
}

// TestAGrantThatIsNotThere: the job waits for the missing grant, accepts nothing else instead, and reveals nothing of
// the grant.
func TestAGrantThatIsNotThere(t *testing.T) {
	name := filepath.Join(t.TempDir(), contract.GrantName)
	if _, err := takeGrant(t.Context(), name, time.Millisecond); err == nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a grant: %v", err)
	}
	must(t, os.WriteFile(name, []byte(`{"requests":[{"url":"https://secret"`), 0o400))
	if _, err := takeGrant(t.Context(), name, time.Millisecond); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("with half a grant: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		g, err := takeGrant(t.Context(), name, time.Minute)
		if err == nil && g.Requests[0].URL != "https://secret" {
			err = fmt.Errorf("it took %+v", g)
		}
		done <- err
	}()
	must(t, os.WriteFile(name+".new", []byte(`{"requests":[{"url":"https://secret"}]}`), 0o400))
	must(t, os.Rename(name+".new", name))
	must(t, <-done)
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the grant is still there: %v", err)
	}

}

func TestArchiveKilledAndRunAgain(t *testing.T) {
	from := home(t, 50<<20)
	want := listing(t, from)
	for name, when := range map[string]func(contract.ProgressLine) bool{
		"at the start":         func(p contract.ProgressLine) bool { return p.Step == contract.StepArchive },
		"between parts":        func(p contract.ProgressLine) bool { return p.Step == contract.StepArchive && p.Transferred > 25<<20 },
		"at the last part":     func(p contract.ProgressLine) bool { return p.Step == contract.StepUpload },
		"before it is read":    func(p contract.ProgressLine) bool { return p.Step == contract.StepVerify },
		"while it is verified": func(p contract.ProgressLine) bool { return p.Step == contract.StepVerify && p.Transferred > 25<<20 },
		"while it counts":      func(p contract.ProgressLine) bool { return p.Step == contract.StepCommit },
	} {
		t.Run(name, func(t *testing.T) {
			b, to := newBench(t), t.TempDir()
			var env []string
			if name != "while it counts" { // the signal may come too late to prevent that
				env = append(env, b.uncommitted())
			}
			if _, sent := b.kill(syscall.SIGKILL, "archive", from, when, env...); !sent {
				t.Fatal("the job ended before it was killed")
			}
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
	for name, when := range map[string]func(contract.ProgressLine) bool{
		"at the start": func(p contract.ProgressLine) bool { return p.Step == contract.StepUnpack },
		"half way":     func(p contract.ProgressLine) bool { return p.Transferred > 30<<20 },
		"at the swap":  func(p contract.ProgressLine) bool { return p.Step == contract.StepSwap },
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
	code, sent := b.kill(syscall.SIGTERM, "archive", from,
		func(p contract.ProgressLine) bool { return p.Transferred > 40<<20 }, b.uncommitted())
	if !sent || code != contract.ExitInterrupted {
		t.Errorf("signal sent: %v, exit code %d", sent, code)
	}
	if n := b.unfinished(); n != 0 {
		t.Errorf("%d unfinished uploads are left", n)
	}
	b.ok("archive", from)
	to := home(t, 3000)
	before := listing(t, to)
	proxy := faulty.NewStore(t, b.store.Endpoint)
	proxy.Hold(40 << 20) // it must not finish before the signal comes
	code, sent = b.kill(syscall.SIGTERM, "restore", to,
		func(p contract.ProgressLine) bool { return p.Transferred > 30<<20 },
		contract.EnvEndpoint+"="+proxy.URL())
	if !sent || code != contract.ExitInterrupted {
		t.Errorf("signal sent: %v, exit code %d", sent, code)
	}
	requireSame(t, before, to)
}

func TestDamagedArchiveLeavesTheVolumeUnchanged(t *testing.T) {
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
			b.fails(contract.ExitCorrupted, "restore", to)
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
	b.putMeta(out.Bytes(), nil)
	b.fails(contract.ExitCorrupted, "restore", to)
}

func TestHalfAnArchiveIsMissing(t *testing.T) {
	b, from, to := newBench(t), home(t, 100_000), home(t, 3000)
	before := listing(t, to)
	b.fails(contract.ExitMissing, "restore", to)
	b.ok("archive", from)
	b.remove(meta)
	b.fails(contract.ExitMissing, "restore", to)
	// Not committed: the next run archives the volume's current content.
	must(t, os.WriteFile(filepath.Join(from, "new"), []byte("new"), 0o600))
	if again := b.ok("archive", from); again.Done {
		t.Errorf("an archive without .meta counted: %+v", again)
	}
	b.remove(b.key)
	b.fails(contract.ExitMissing, "restore", to)
	requireSame(t, before, to)
	// A .meta without its archive is replaced as well.
	if again := b.ok("archive", from); again.Done {
		t.Errorf("a .meta without archive counted: %+v", again)
	}
	// An archive that does not match the .meta is replaced, too.
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
	port, err := server.FreePort() // which refuses connections
	must(t, err)
	dead := fmt.Sprintf("AWS_ENDPOINT_URL_S3=http://127.0.0.1:%d", port)
	for _, job := range []string{"archive", "restore"} {
		b.fails(contract.ExitUnreachable, job, volume, dead)
		b.fails(contract.ExitUnreachable, job, volume, "AWS_SECRET_ACCESS_KEY=wrong")
		// A wrong bucket must not look like lost data.
		b.fails(contract.ExitUnreachable, job, volume, "ARCHIVE_URL=s3://no-such-bucket/x/home.tar.zst")
	}
	requireSame(t, before, volume)
}

func TestDiskFullIsClearAndLeavesTheVolumeUnchanged(t *testing.T) {
	b, from, to := newBench(t), home(t, 8<<20), t.TempDir()
	b.ok("archive", from)
	must(t, unix.Mount("tmpfs", to, "tmpfs", 0, "size=4m"))
	t.Cleanup(func() { must(t, unix.Unmount(to, 0)) })
	must(t, os.WriteFile(filepath.Join(to, "mine"), []byte("mine"), 0o600))
	before := listing(t, to)
	res := b.fails(contract.ExitDiskFull, "restore", to)
	if !strings.Contains(res.Error, "no space left") {
		t.Errorf("the error is %q", res.Error)
	}
	requireSame(t, before, to)
}

// bomb returns a small archive of one file, whose size is given in bytes, and the size of the archive's content.
func bomb(t *testing.T, fill byte, size int64) (archive []byte, content int64) {
	t.Helper()
	var out bytes.Buffer
	enc, err := zstd.NewWriter(&out, zstd.WithWindowSize(4<<20), zstd.WithEncoderLevel(zstd.SpeedBetterCompression))
	must(t, err)
	stream := proof.NewWriter()
	tw := tar.NewWriter(io.MultiWriter(enc, stream))
	must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bomb", Size: size, Mode: 0o600}))
	for chunk, left := bytes.Repeat([]byte{fill}, 1<<20), size; left > 0; left -= int64(len(chunk)) {
		_, err := tw.Write(chunk)
		must(t, err)
	}
	must(t, errors.Join(tw.Close(), enc.Close()))
	if int64(out.Len()) > size/10_000 {
		t.Fatalf("%d bytes compressed to %d: not a bomb", size, out.Len())
	}
	return out.Bytes(), stream.Content(1, size).Size
}

// TestBombsAreRefused: archives that unpack to thousands of times their size are refused, even if their checksum is
// correct.
func TestBombsAreRefused(t *testing.T) {
	const disk = 96 << 20
	b, to := newBench(t), t.TempDir()
	must(t, unix.Mount("tmpfs", to, "tmpfs", 0, fmt.Sprint("size=", disk)))
	t.Cleanup(func() { must(t, unix.Unmount(to, unix.MNT_DETACH)) })
	must(t, os.WriteFile(filepath.Join(to, "mine"), []byte("mine"), 0o600))
	before := listing(t, to)

	solid, content := bomb(t, 'x', 1<<30)
	zeros, _ := bomb(t, 0, 1<<30)
	for name, c := range map[string]struct {
		archive []byte
		sizes   map[string]string
		code    int
		says    string
	}{
		"no size on record":               {solid, nil, contract.ExitCorrupted, "more than the"},
		"zeros, which would take no room": {zeros, nil, contract.ExitCorrupted, "more than the"},
		"a recorded size below zero":      {solid, map[string]string{contract.MetaContentSize: "-1"}, contract.ExitCorrupted, "more than the"},
		"more than on record": {solid, map[string]string{contract.MetaContentSize: "1048576"},
			contract.ExitCorrupted, "more than the allowed 1048576 bytes"},
		"as on record, more than the disk": {solid, map[string]string{contract.MetaContentSize: fmt.Sprint(content)}, contract.ExitDiskFull, "must stay free"},
	} {
		t.Run(name, func(t *testing.T) {
			b.putMeta(c.archive, c.sizes)
			if res := b.fails(c.code, "restore", to); !strings.Contains(res.Error, c.says) {
				t.Errorf("the error is %q", res.Error)
			}
			requireSame(t, before, to)
		})
	}
}

// TestSparseHomeIsNotABomb: the job restores everything that it has archived, however much it was compressed.
func TestSparseHomeIsNotABomb(t *testing.T) {
	const size = 128 << 20
	b, from, to := newBench(t), t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "disk.img"), []byte("header"), 0o600))
	must(t, os.Truncate(filepath.Join(from, "disk.img"), size))
	want := listing(t, from)
	made := b.ok("archive", from)
	if made.Size*maxExpansion+freeExpansion > size {
		t.Fatalf("the archive has %d bytes: it is not compressed enough for this test", made.Size)
	}
	b.ok("restore", to)
	requireSame(t, want, to)
}

func TestUsage(t *testing.T) {
	env := map[string]string{"ARCHIVE_URL": "s3://bucket/key"}
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		want int
	}{
		"help":           {[]string{"--help"}, env, contract.ExitOK},
		"help of a job":  {[]string{"archive", "--help"}, env, contract.ExitOK},
		"nothing":        {nil, env, contract.ExitUsage},
		"unknown":        {[]string{"delete"}, env, contract.ExitUsage},
		"surplus":        {[]string{"archive", "now"}, env, contract.ExitUsage},
		"no address":     {[]string{"archive"}, nil, contract.ExitUsage},
		"bad address":    {[]string{"archive"}, map[string]string{"ARCHIVE_URL": "http://x/y"}, contract.ExitUsage},
		"only a bucket":  {[]string{"restore"}, map[string]string{"ARCHIVE_URL": "s3://bucket/"}, contract.ExitUsage},
		"bad path style": {[]string{"archive"}, map[string]string{"ARCHIVE_URL": "s3://b/k", "S3_PATH_STYLE": "maybe"}, contract.ExitUsage},
		"bad grant":      {[]string{"archive"}, map[string]string{"ARCHIVE_URL": "s3://b/k", "CODEHUB_GRANT": "maybe"}, contract.ExitUsage},
		"bad operation":  {[]string{"restore"}, map[string]string{"ARCHIVE_URL": "s3://b/k", "CODEHUB_OPERATION": "../up"}, contract.ExitUsage},
		"bad interval":   {[]string{"archive", "--progress", "0s"}, env, contract.ExitUsage},
		"all kept free":  {[]string{"restore", "--keep-free", "1"}, env, contract.ExitUsage},
		"less than none": {[]string{"restore", "--keep-free", "-0.1"}, env, contract.ExitUsage},
		"no number":      {[]string{"restore", "--keep-free", "NaN"}, env, contract.ExitUsage},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), c.args, func(key string) string { return c.env[key] }, &out, &errs, nil)
			if code != c.want {
				t.Errorf("exit code %d, want %d: %s", code, c.want, &errs)
			}
			if c.want == contract.ExitOK && !strings.Contains(errs.String(), "ARCHIVE_URL") {
				t.Errorf("help says %q", &errs)
			}
		})
	}
}

// TestWhatTheVolumeRefusesIsNoDamage: a refusal counts as damage of the archive only if the checksum is wrong.
func TestWhatTheVolumeRefusesIsNoDamage(t *testing.T) {
	b, to := newBench(t), home(t, 3000)
	before := listing(t, to)
	var out, packed bytes.Buffer
	tw := tar.NewWriter(&out)
	must(t, tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o600, Format: tar.FormatPAX,
		PAXRecords: map[string]string{
			"SCHILY.xattr.user.large": strings.Repeat("x", 70_000), // more than the kernel allows
		}}))
	must(t, tw.Close())
	enc, err := zstd.NewWriter(&packed)
	must(t, err)
	_, err = enc.Write(out.Bytes())
	must(t, errors.Join(err, enc.Close()))
	b.putMeta(packed.Bytes(), nil)
	if res := b.fails(contract.ExitRefused, "restore", to); !strings.Contains(res.Error,
		"the volume's file system refuses") {
		t.Errorf("the error is %q", res.Error)
	}
	requireSame(t, before, to)

	b.put(meta, fmt.Appendf(nil, "sha256:%064x", 1))
	b.fails(contract.ExitCorrupted, "restore", to)
	requireSame(t, before, to)

	b.putMeta(packed.Bytes(), nil)
	readOnly := t.TempDir()
	must(t, unix.Mount("tmpfs", readOnly, "tmpfs", unix.MS_RDONLY, ""))
	t.Cleanup(func() { must(t, unix.Unmount(readOnly, 0)) })
	if res := b.fails(contract.ExitRefused, "restore", readOnly); !strings.Contains(res.Error, "mounted read-only") {
		t.Errorf("the error is %q", res.Error)
	}
}

// TestNewVolumeMustBeEmpty: a restore into a volume created for it touches nothing if it finds files. It continues what
// a killed run has left.
func TestNewVolumeMustBeEmpty(t *testing.T) {
	b := newBench(t)
	from, to := t.TempDir(), t.TempDir()
	must(t, os.WriteFile(filepath.Join(from, "old"), []byte("old"), 0o600))
	b.ok("archive", from)
	must(t, os.WriteFile(filepath.Join(to, "newer"), []byte("newer"), 0o600))
	before := listing(t, to)
	if res := b.fails(contract.ExitOccupied, "restore", to, contract.EnvNewVolume+"=true"); !strings.Contains(res.Error,
		"may be newer") {
		t.Errorf("the error is %q", res.Error)
	}
	requireSame(t, before, to)
	must(t, os.Remove(filepath.Join(to, "newer")))
	must(t, os.Mkdir(filepath.Join(to, tree.StagingName("")), 0o700))
	if code, res := b.run("restore", to, contract.EnvNewVolume+"=true"); code != contract.ExitOK {
		t.Fatalf("exit code %d: %s", code, res.Error)
	}
	requireSame(t, listing(t, from), to)
}

// TestAnUnfinishedRestoreIsNotArchived: between the verification and the end of a restore, the volume holds parts of
// two homes. Before that it holds the earlier home, which is archived.
func TestAnUnfinishedRestoreIsNotArchived(t *testing.T) {
	for stage, whole := range map[string]bool{"tree": true, "verified-x": true, "verified-" + testSum: false,
		"cleared-" + testSum: false} {
		t.Run(stage, func(t *testing.T) {
			b, volume := newBench(t), home(t, 3000)
			must(t, os.MkdirAll(filepath.Join(volume, tree.StagingName(""), stage, "folder"), 0o700))
			before := listing(t, volume)
			if whole {
				b.ok("archive", volume)
				return
			}
			if res := b.fails(contract.ExitOccupied, "archive", volume); !strings.Contains(res.Error,
				"restore the same archive again") {
				t.Errorf("the error is %q", res.Error)
			}
			// It does not count as unchanged, either.
			if sum, err := fingerprintOf(t.Context(), volume, ""); err == nil {
				b.fails(contract.ExitOccupied, "archive", volume, contract.EnvFingerprint+"="+sum)
			}
			if after := listing(t, volume); after != before {
				t.Errorf("the volume has changed:\n%s\n%s", before, after)
			}
			if _, there := b.get(b.key); there || b.unfinished() != 0 {
				t.Error("something was uploaded")
			}
		})
	}
	// Anything that is not a restore's folder does not matter.
	for name, make := range map[string]func(path string) error{
		"a file":  func(path string) error { return os.WriteFile(path, []byte("verified-"), 0o600) },
		"a link":  func(path string) error { return os.Symlink("/", path) },
		"a fifo":  func(path string) error { return unix.Mkfifo(path, 0o600) },
		"nothing": func(string) error { return nil },
	} {
		dir := t.TempDir()
		must(t, make(filepath.Join(dir, tree.StagingName(""))))
		if err := tree.CheckFinished(dir, ""); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestExitCodes(t *testing.T) {
	refusal := &tree.RefusedError{ByContent: true, Err: unix.EINVAL}
	for want, errs := range map[int][]error{
		contract.ExitOK:          {nil},
		contract.ExitUsage:       {fmt.Errorf("%w: no job", errUsage)},
		contract.ExitOther:       {errors.New("something"), unix.ENAMETOOLONG},
		contract.ExitInterrupted: {fmt.Errorf("%w: %w", errInterrupted, tree.ErrCorrupt)},
		contract.ExitUnreachable: {fmt.Errorf("%w: %w", object.ErrUnreachable, tree.ErrCorrupt)},
		contract.ExitMissing:     {object.ErrMissing},
		contract.ExitDiskFull: {fmt.Errorf("in the scratch folder: %w", unix.ENOSPC),
			&tree.RefusedError{Err: unix.ENOSPC}, &tree.RefusedError{Err: unix.EDQUOT}},
		contract.ExitCorrupted: {tree.ErrCorrupt, contract.ErrMalformedMeta,
			fmt.Errorf("%w: %w", tree.ErrCorrupt, unix.EEXIST)},
		contract.ExitLocked:   {fmt.Errorf("restoring: %w", encryption.ErrLocked)},
		contract.ExitOccupied: {fmt.Errorf("restoring: %w", tree.ErrOccupied), tree.ErrUnfinished},
		contract.ExitRefused:  {refusal, fmt.Errorf("unpacking: %w", refusal), &tree.RefusedError{Err: unix.EROFS}},
	} {
		for _, err := range errs {
			if got := exitCode(err); got != want {
				t.Errorf("%v: exit code %d, want %d", err, got, want)
			}
		}
	}
}
