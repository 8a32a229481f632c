package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

const testOperation = "0f8fad5b-d9cb-469f-a165-70867728950e"

// killedAt runs the job, which kills itself before its n-th step. It returns that step's name, or "" if the job has no
// such step and has succeeded.
func (b *bench) killedAt(n int, job, volume string, env ...string) (step string) {
	b.t.Helper()
	cmd := b.command(job, volume, append(env, fmt.Sprintf("%s=%d", killAt, n))...)
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		_, step, _ = strings.Cut(strings.TrimSpace(said.String()), "killed before: ")
		return step
	}
	b.t.Fatalf("%v: %s", err, &said)
	return ""
}

// succeeds runs the job like ok.
func (b *bench) succeeds(job, volume string, env ...string) contract.Result {
	b.t.Helper()
	with := *b
	with.env = append(append([]string{}, b.env...), env...)
	return with.ok(job, volume)
}

// fillAttributes gives a folder so many extended attributes that there is no room for a mark. It reports whether the
// file system has such a limit.
func fillAttributes(t *testing.T, dir string) bool {
	t.Helper()
	for i, size := 0, 16<<10; size > 100; i++ {
		err := unix.Setxattr(dir, fmt.Sprintf("user.%d", i), bytes.Repeat([]byte{'x'}, size), 0)
		if i > 64 {
			return false
		}
		if err != nil {
			size /= 2
		}
	}
	return true
}

// TestARestoreIsKilledAnywhere kills a restore before each of its steps, so that its result is lost. The next run of
// the same operation completes it, or finds it complete, and never touches what users have changed since (SPEC 12.12).
func TestARestoreIsKilledAnywhere(t *testing.T) {
	for name, full := range map[string]bool{"with a mark": false, "without room for a mark": true} {
		t.Run(name, func(t *testing.T) {
			b, from := newBench(t), home(t, 3000)
			must(t, os.MkdirAll(filepath.Join(from, ".codehub-staging", "verified-"+testSum), 0o755)) // the user's own
			if full && !fillAttributes(t, from) {
				t.Skip("attributes have no bound on this file system")
			}
			must(t, os.Chtimes(from, time.Unix(1_700_000_000, 5), time.Unix(1_700_000_000, 5)))
			b.succeeds("archive", from, contract.EnvOperation+"="+testOperation)
			want := listing(t, from)
			env := []string{contract.EnvOperation + "=" + testOperation, contract.EnvNewVolume + "=true"}
			same := func(volume string) {
				t.Helper()
				got := listing(t, volume)
				if full { // the staging folder is the mark
					got = withoutStaging(got)
				}
				if got != withoutStaging(want) && full || got != want && !full {
					t.Fatalf("the folders differ:\nwant %.2000s\n got %.2000s", want, got)
				}
			}
			steps := 0
			for n := 1; ; n++ {
				to := t.TempDir()
				step := b.killedAt(n, "restore", to, env...)
				if steps = n; step == "" {
					break
				}
				if again := b.killedAt(n/2+1, "restore", to, env...); again != "" { // once more, on the way
					step += " and " + again
				}
				res := b.succeeds("restore", to, env...)
				t.Logf("killed before %s: done %t", step, res.Done)
				same(to)
				if err := tree.CheckFinished(to, testOperation); err != nil {
					t.Errorf("killed before %s: %v", step, err)
				}
				// The user works there, and then the same job runs once more because an outdated row requests it.
				must(t, os.WriteFile(filepath.Join(to, "newer"), []byte("newer"), 0o600))
				before := listing(t, to)
				if res := b.succeeds("restore", to, env...); !res.Done || res.Fingerprint != "" {
					t.Errorf("killed before %s, and run after its end: %+v", step, res)
				}
				requireSame(t, before, to)
				// Another operation ignores the mark.
				other := []string{contract.EnvOperation + "=" + strings.Replace(testOperation, "0", "1", 1),
					contract.EnvNewVolume + "=true"}
				b.fails(contract.ExitOccupied, "restore", to, other...)
				requireSame(t, before, to)
			}
			if steps < 15 {
				t.Errorf("only %d steps are announced", steps)
			}
			// An archive of the restored home contains neither the mark nor the staging folder.
			to, back := t.TempDir(), t.TempDir()
			b.succeeds("restore", to, env...)
			next := *b
			next.key = "archives/0b7c/6a2f/home.tar.zst"
			next.env = append(append([]string{}, b.env...),
				contract.EnvArchiveURL+"="+contract.ArchiveURL(b.bucket, next.key))
			next.succeeds("archive", to, contract.EnvOperation+"="+testOperation)
			other := contract.EnvOperation + "=" + strings.Replace(testOperation, "0", "2", 1)
			if res := next.succeeds("restore", back, other); res.Done {
				t.Error("an archive holds the mark of the restore before it")
			}
			same(back)
		})
	}
}

// withoutStaging removes a restore's staging folder from a listing, and the root's link count.
func withoutStaging(listing string) string {
	var kept []string
	for line := range strings.Lines(listing) {
		switch fields := strings.Split(line, "|"); {
		case strings.HasPrefix(line, ".codehub-restore-"):
		case fields[0] == "" && len(fields) > 5:
			fields[5] = ""
			kept = append(kept, strings.Join(fields, "|"))
		default:
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// TestAnArchiveIsKilledAnywhere: the next run of the same operation makes the archive, or finds it complete.
func TestAnArchiveIsKilledAnywhere(t *testing.T) {
	from := home(t, 3000)
	want := listing(t, from)
	for n := 1; ; n++ {
		b, to := newBench(t), t.TempDir()
		step := b.killedAt(n, "archive", from)
		if step == "" {
			if n < 6 {
				t.Errorf("only %d steps are announced", n)
			}
			break
		}
		res := b.succeeds("archive", from)
		t.Logf("killed before %s: done %t", step, res.Done)
		requireSame(t, want, from)
		if content, ok := b.get(b.key); !ok || int64(len(content)) != res.Size {
			t.Errorf("killed before %s: %d bytes in the store, %+v", step, len(content), res)
		}
		if b.unfinished() != 0 {
			t.Errorf("killed before %s: an unfinished upload is left", step)
		}
		b.succeeds("restore", to)
		requireSame(t, want, to)
	}
}

// TestFoldersLikeAStagingFolderAreArchived: only the staging folder of the volume's own operation is ours, and its name
// is not known in the workspace.
func TestFoldersLikeAStagingFolderAreArchived(t *testing.T) {
	b, from, to := newBench(t), home(t, 3000), t.TempDir()
	for _, name := range []string{".codehub-staging/verified-" + testSum, ".codehub-staging/tree",
		".codehub-restore-mine/cleared-" + testSum} {
		must(t, os.MkdirAll(filepath.Join(from, name), 0o755))
		must(t, os.WriteFile(filepath.Join(from, name, "file"), []byte("kept"), 0o600))
	}
	want := listing(t, from)
	op := contract.EnvOperation + "=" + testOperation
	b.succeeds("archive", from, op)
	b.succeeds("restore", to, op, contract.EnvNewVolume+"=true")
	requireSame(t, want, to)
}

// TestAnEarlierReleasesRestoreIsFinished: that release knew no operations.
func TestAnEarlierReleasesRestoreIsFinished(t *testing.T) {
	b, from := newBench(t), home(t, 3000)
	b.ok("archive", from)
	want := listing(t, from)
	for n := 1; ; n++ {
		to := t.TempDir()
		step := b.killedAt(n, "restore", to)
		if step == "" {
			break
		}
		code, res := b.run("restore", to, contract.EnvOperation+"="+testOperation, contract.EnvNewVolume+"=true")
		// That release left no mark: after a kill at its very end a person must decide, as before.
		if entries, err := os.ReadDir(filepath.Join(to, ".codehub-staging")); code == contract.ExitOccupied &&
			(err != nil || len(entries) == 0) {
			continue
		}
		if code != contract.ExitOK {
			t.Fatalf("killed before %s: exit code %d, %+v", step, code, res)
		}
		requireSame(t, want, to)
	}
}

// TestWithoutAFingerprintAHomeIsRestored: a home without a fingerprint is restored, too.
func TestWithoutAFingerprintAHomeIsRestored(t *testing.T) {
	b, from, to := newBench(t), home(t, 3000), t.TempDir()
	b.ok("archive", from)
	for _, e := range b.env {
		name, value, _ := strings.Cut(e, "=")
		t.Setenv(name, value)
	}
	s, err := parse([]string{"restore", "--volume", to, "--scratch", b.scratch}, os.Getenv, os.Stderr)
	must(t, err)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	s.step = func(what string) error {
		if what == "fingerprint" {
			interrupt()
		}
		return nil
	}
	rep := newReporter(&bytes.Buffer{}, s.origin, s.interval)
	res, err := work(ctx, s, rep)
	if err != nil || res.Fingerprint != "" || res.SHA256 == "" {
		t.Errorf("%+v, %v", res, err)
	}
	requireSame(t, listing(t, from), to)
}
