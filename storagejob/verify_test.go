package main

import (
	"bytes"
	"errors"
	"hash/crc64"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"filippo.io/age"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

// observe returns the setting that sends the job's requests through a proxy, which passes each request to see.
func (b *bench) observe(see func(*http.Request)) (env string) {
	b.t.Helper()
	to, err := url.Parse(b.store.Endpoint)
	must(b.t, err)
	var mu sync.Mutex
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		mu.Lock()
		see(r.In)
		mu.Unlock()
		r.SetURL(to)
		r.Out.Host = r.In.Host // it is signed
	}})
	b.t.Cleanup(proxy.Close)
	return contract.EnvEndpoint + "=" + proxy.URL
}

// counts returns the setting for a proxy, and counters that tell how often the archive was sent and read.
func (b *bench) counts() (env string, sent, read *int) {
	sent, read = new(int), new(int)
	return b.observe(func(r *http.Request) {
		switch {
		case !strings.HasSuffix(r.URL.Path, "/"+b.key):
		case r.Method == http.MethodPut:
			*sent++
		case r.Method == http.MethodGet:
			*read++
		}
	}), sent, read
}

// uncommitted returns the setting for a proxy that holds back the commit of an archive until the test ends, so that the
// job cannot finish before it is killed, however late the signal comes.
func (b *bench) uncommitted() (env string) {
	b.t.Helper()
	held := make(chan struct{})
	env = b.observe(func(r *http.Request) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/"+b.key+contract.MetaSuffix) {
			<-held
		}
	})
	b.t.Cleanup(func() { close(held) })
	return env
}

// TestUploadOfAKilledRun: the upload that a killed run left is sent again only if it differs from the volume's content.
func TestUploadOfAKilledRun(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, b *bench, volume string)
		again  bool
	}{
		"the same": {func(*testing.T, *bench, string) {}, false},
		"the volume has another file": {func(t *testing.T, _ *bench, volume string) {
			must(t, os.WriteFile(filepath.Join(volume, "folder0", "new"), []byte("new"), 0o600))
		}, true},
		"the volume has a file less": {func(t *testing.T, _ *bench, volume string) {
			must(t, os.Remove(filepath.Join(volume, "folder1", "file1")))
		}, true},
		"only an attribute differs": {func(t *testing.T, _ *bench, volume string) {
			must(t, os.Chmod(filepath.Join(volume, "folder1", "file1"), 0o600))
		}, true},
		"half of it is there": {func(t *testing.T, b *bench, _ string) {
			content, _ := b.get(b.key)
			b.put(b.key, content[:len(content)/2])
		}, true},
		"something follows it": {func(t *testing.T, b *bench, _ string) {
			content, _ := b.get(b.key)
			b.put(b.key, append(content, content...))
		}, true},
		"it is something else": {func(t *testing.T, b *bench, _ string) { b.put(b.key, []byte("another")) }, true},
		"it is empty":          {func(t *testing.T, b *bench, _ string) { b.put(b.key, nil) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, volume, to := newBench(t), home(t, 3<<20), t.TempDir()
			if _, sent := b.kill(syscall.SIGKILL, "archive", volume,
				func(p contract.ProgressLine) bool { return p.Step == contract.StepVerify }, b.uncommitted()); !sent {
				t.Fatal("the job ended before it was killed")
			}
			if _, committed := b.get(meta); committed {
				t.Fatal("it counts before it was verified")
			}
			c.change(t, b, volume)
			env, sent, _ := b.counts()
			code, res := b.run("archive", volume, env)
			content, _ := b.get(b.key)
			if code != contract.ExitOK || res.Done || !res.Verified || res.Size != int64(len(content)) ||
				res.Files == 0 || res.Bytes == 0 {
				t.Errorf("exit code %d, %+v", code, res)
			}
			if again := *sent > 0; again != c.again {
				t.Errorf("sent again: %v", again)
			}
			if back := b.ok("restore", to); back.Bytes != res.Bytes || back.Files != res.Files {
				t.Errorf("archived %+v, restored %+v", res, back)
			}
			requireSame(t, listing(t, volume), to)
		})
	}
}

// TestUploadOfAKilledRunIsNotEncrypted: an unencrypted upload left by a killed run does not count if archives must be
// encrypted.
func TestUploadOfAKilledRunIsNotEncrypted(t *testing.T) {
	b, volume, id := newBench(t), home(t, 100_000), identity(t)
	b.ok("archive", volume)
	b.remove(meta)
	if code, res := b.run("archive", volume, id.recipient()); code != contract.ExitOK {
		t.Fatalf("exit code %d, %+v", code, res)
	}
	if content, _ := b.get(b.key); !bytes.HasPrefix(content, []byte("age-encryption.org/v1\n")) {
		t.Errorf("the archive begins with %q", content[:20])
	}
}

// TestWhatTheStoreHasLost: the data that the store returns counts, not its acknowledgements.
func TestWhatTheStoreHasLost(t *testing.T) {
	id := identity(t)
	for name, damage := range map[string]func(b *bench, content []byte){
		"a bit":       func(b *bench, content []byte) { content[len(content)/2] ^= 1; b.put(b.key, content) },
		"the end":     func(b *bench, content []byte) { b.put(b.key, content[:len(content)-1]) },
		"more":        func(b *bench, content []byte) { b.put(b.key, append(content, 0)) },
		"all":         func(b *bench, content []byte) { b.remove(b.key) },
		"another one": func(b *bench, content []byte) { b.put(b.key, bytes.Repeat([]byte("x"), len(content))) },
	} {
		for _, mode := range []string{contract.VerifyFull, contract.VerifyChecksum} {
			for _, recipient := range []string{contract.EnvAgeRecipients + "=", id.recipient()} {
				t.Run(name+", "+mode, func(t *testing.T) {
					b, volume := newBench(t), home(t, 100_000)
					damaged := false
					env := b.observe(func(r *http.Request) {
						reads := r.Method == http.MethodGet || r.Method == http.MethodHead
						if content, there := b.get(b.key); reads && there && !damaged &&
							strings.HasSuffix(r.URL.Path, "/"+b.key) {
							damaged = true
							damage(b, content)
						}
					})
					res := b.fails(contract.ExitOther, "archive", volume, env, contract.EnvVerify+"="+mode, recipient)
					if !damaged || !strings.Contains(res.Error, "does not have the uploaded archive") {
						t.Errorf("damaged: %v, the error is %q", damaged, res.Error)
					}
					if _, committed := b.get(meta); committed {
						t.Error("it counts")
					}
				})
			}
		}
	}
}

// TestVerifyModes: in checksum mode nothing is read back.
func TestVerifyModes(t *testing.T) {
	for mode, want := range map[string]int{contract.VerifyFull: 2, contract.VerifyChecksum: 1} {
		b, volume := newBench(t), home(t, 20<<20)
		env, _, read := b.counts()
		code, res := b.run("archive", volume, env, contract.EnvVerify+"="+mode)
		if code != contract.ExitOK || res.Verified != (mode == contract.VerifyFull) {
			t.Fatalf("%s: exit code %d, %+v", mode, code, res)
		}
		// One read looks for the upload of an earlier run.
		if *read != want {
			t.Errorf("%s: it was read %d times, want %d", mode, *read, want)
		}
	}
}

func TestCRC64IsThatOfTheStores(t *testing.T) {
	if sum := crc64.Checksum([]byte("123456789"), crc64NVME); sum != 0xae8b14860a799888 {
		t.Errorf("%x", sum)
	}
}

// TestProgressOfEachStep: every step that transfers bytes of the archive reports their total, and reports all of them
// as transferred at its end.
func TestProgressOfEachStep(t *testing.T) {
	b, volume, to := newBench(t), home(t, 5<<20), t.TempDir()
	var steps []string
	last := make(map[string]contract.ProgressLine)
	watch := func(p contract.ProgressLine) bool {
		if !slices.Contains(steps, p.Step) {
			steps = append(steps, p.Step)
		}
		if l := last[p.Step]; p.Transferred < l.Transferred || p.Total > 0 && p.Transferred > p.Total {
			t.Errorf("%+v after %+v", p, l)
		}
		last[p.Step] = p
		return false
	}
	b.kill(nil, "archive", volume, watch)
	content, _ := b.get(b.key)
	size := int64(len(content))
	if p := last[contract.StepCommit]; p.Transferred != size || p.Total != size {
		t.Errorf("after the verification of %d bytes: %+v", size, p)
	}
	if p := last[contract.StepUpload]; p.Transferred != size || p.Total != 0 {
		t.Errorf("after the upload of %d bytes: %+v", size, p)
	}
	b.kill(nil, "restore", to, watch)
	if p := last[contract.StepSwap]; p.Transferred != size || p.Total != size {
		t.Errorf("after the download of %d bytes: %+v", size, p)
	}
	want := []string{contract.StepArchive, contract.StepUpload, contract.StepVerify, contract.StepCommit,
		contract.StepUnpack, contract.StepSwap}
	if !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
}

// TestProgressAfterTheUploadOfAKilledRun: while an earlier run's upload is replaced, the progress does not include the
// old upload.
func TestProgressAfterTheUploadOfAKilledRun(t *testing.T) {
	b, volume := newBench(t), home(t, 5<<20)
	b.put(b.key, []byte("another"))
	seen := false
	b.kill(nil, "archive", volume, func(p contract.ProgressLine) bool {
		if p.Step == contract.StepArchive {
			seen = true
			if p.Total != 0 || p.ETA != nil {
				t.Errorf("%+v", p)
			}
		}
		return false
	})
	if content, _ := b.get(b.key); !seen || len(content) < 1<<20 {
		t.Errorf("it was not sent again: %d bytes", len(content))
	}
}

// TestFileThatChangesWhileItIsRead: the error names the file, and no archive that counts is left.
func TestFileThatChangesWhileItIsRead(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"grows":   func(path string) error { return os.Truncate(path, 300<<20) },
		"shrinks": func(path string) error { return os.Truncate(path, 100) },
		"is written to, and its time set back": func(path string) error {
			var st unix.Stat_t
			err := unix.Stat(path, &st)
			f, openErr := os.OpenFile(path, os.O_WRONLY, 0)
			if err := errors.Join(err, openErr); err != nil {
				return err
			}
			_, err = f.WriteAt([]byte("x"), 0)
			return errors.Join(err, f.Close(),
				unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, volume := newBench(t), t.TempDir()
			path := filepath.Join(volume, "image.raw")
			// The content cannot be compressed, and is more than the job keeps in memory before it is sent.
			content := make([]byte, 96<<20)
			_, _ = rand.NewChaCha8([32]byte{1}).Read(content) // never fails
			must(t, os.WriteFile(path, content, 0o600))
			// The store accepts nothing before the change, so that the job is still reading then.
			changed := make(chan struct{})
			release := sync.OnceFunc(func() { close(changed) })
			env := b.observe(func(r *http.Request) {
				if r.Method == http.MethodPut {
					<-changed
				}
			})
			t.Cleanup(release)
			cmd := b.command("archive", volume, env)
			res := b.watch(cmd, func(p contract.ProgressLine) {
				if p.Bytes > 0 && change != nil {
					must(t, change(path))
					change = nil
					release()
				}
			})
			if res.OK || !strings.Contains(res.Error, `"./image.raw"`) || !strings.Contains(res.Error, tree.ErrChanged.Error()) || res.Changed != "./image.raw" {
				t.Errorf("%+v", res)
			}
			if _, committed := b.get(meta); committed {
				t.Error("it counts")
			}
			if _, there := b.get(b.key); there || b.unfinished() != 0 {
				t.Error("an upload is left")
			}
		})
	}
}

// TestUnchanged: until the volume changes, it keeps the fingerprint of its restore and is not archived.
func TestUnchanged(t *testing.T) {
	b, from, to := newBench(t), home(t, 100_000), t.TempDir()
	made := b.ok("archive", from)
	back := b.ok("restore", to)
	if made.Fingerprint != "" || back.Fingerprint == "" {
		t.Fatalf("fingerprints %q and %q", made.Fingerprint, back.Fingerprint)
	}
	b.key = "archives/0b7c/another/home.tar.zst"
	b.env = append(b.env, contract.EnvArchiveURL+"="+contract.ArchiveURL(b.bucket, b.key))
	given := contract.EnvFingerprint + "=" + back.Fingerprint
	// The store is not contacted.
	code, res := b.run("archive", to, given, "AWS_ENDPOINT_URL_S3=http://127.0.0.1:1")
	if code != contract.ExitOK || !res.Unchanged || res.Fingerprint != back.Fingerprint || res.Size != 0 {
		t.Errorf("exit code %d, %+v", code, res)
	}
	must(t, os.Chmod(filepath.Join(to, "folder1"), 0o700))
	must(t, os.Chmod(filepath.Join(to, "folder1"), 0o755))
	code, res = b.run("archive", to, given)
	if _, there := b.get(b.key); code != contract.ExitOK || res.Unchanged || !there || res.Size == 0 {
		t.Errorf("after a change: exit code %d, %+v", code, res)
	}
	if code, res = b.run("archive", from, contract.EnvFingerprint+"="); code != contract.ExitOK || res.Unchanged {
		t.Errorf("without a fingerprint: exit code %d, %+v", code, res)
	}
}

// keyFile is an identity and a file that contains it.
type keyFile struct {
	key  *age.X25519Identity
	path string
}

func identity(t *testing.T) keyFile {
	t.Helper()
	key, err := age.GenerateX25519Identity()
	must(t, err)
	path := filepath.Join(t.TempDir(), "key.txt")
	must(t, os.WriteFile(path, []byte("# made for a test\n\n"+key.String()+"\n"), 0o600))
	return keyFile{key, path}
}

// recipient returns the setting that makes the job encrypt to this key and to others.
func (k keyFile) recipient(others ...keyFile) string {
	env := contract.EnvAgeRecipients + "=" + k.key.Recipient().String()
	for _, o := range others {
		env += "\n" + o.key.Recipient().String()
	}
	return env
}

// identity returns the setting that makes the job decrypt with this key.
func (k keyFile) identity() string { return contract.EnvAgeIdentityFile + "=" + k.path }
