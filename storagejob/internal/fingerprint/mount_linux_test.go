package fingerprint

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/devenv/disk"
)

// written overwrites a file in place and flushes it to disk, as databases do.
func written(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	must(t, unix.Fdatasync(int(f.Fd())))
}

// synced flushes a whole file system to disk.
func synced(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open(dir)
	must(t, err)
	defer f.Close()
	must(t, unix.Syncfs(int(f.Fd())))
}

// TestAPowerCutLeavesNoProof: content written with fdatasync survives a power cut, possibly with its former inode, size
// and change time. The fingerprint after the cut must differ from every earlier one.
func TestAPowerCutLeavesNoProof(t *testing.T) {
	for kind, size := range map[string]int64{"ext4": 64, "xfs": 320} {
		t.Run(kind, func(t *testing.T) {
			d := disk.New(t, kind, size, filepath.Join(t.TempDir(), "disk"))
			path := filepath.Join(d.Dir, "table")
			written(t, path, "A")
			synced(t, d.Dir)
			before := of(t, d.Dir)
			var was, is unix.Stat_t
			must(t, unix.Stat(path, &was))
			written(t, path, "B")
			must(t, d.Cut())
			must(t, d.Return())
			must(t, unix.Stat(path, &is))
			if text, err := os.ReadFile(path); err != nil || string(text) != "B" {
				t.Fatalf("after the cut the file holds %q, %v", text, err)
			}
			t.Logf("the change time is the former one: %t", was.Ctim == is.Ctim && was.Ino == is.Ino && was.Size == is.Size)
			if after := of(t, d.Dir); after == before {
				t.Error("what was written before the power cut does not show")
			}
		})
	}
}

// TestEveryMountAndBootIsAnother: a file system gets a new identity at every mount and under each boot of the kernel,
// and keeps it while it stays mounted.
func TestEveryMountAndBootIsAnother(t *testing.T) {
	for kind, size := range map[string]int64{"ext4": 64, "xfs": 320, "btrfs": 256} {
		t.Run(kind, func(t *testing.T) {
			d := disk.New(t, kind, size, filepath.Join(t.TempDir(), "disk"))
			must(t, os.WriteFile(filepath.Join(d.Dir, "file"), nil, 0o600))
			first := of(t, d.Dir)
			must(t, unix.Mount("", d.Dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
			must(t, unix.Mount("", d.Dir, "", unix.MS_REMOUNT, ""))
			if again := of(t, d.Dir); again != first {
				t.Errorf("mounted with other options it has another one: %s, %s", first, again)
			}
			must(t, d.Remount())
			if of(t, d.Dir) == first {
				t.Error("mounted again it has the former one")
			}
		})
	}
	dir := folder(t)
	now := of(t, dir)
	booted(t, "11111111-2222-3333-4444-555555555555\n")
	if of(t, dir) == now {
		t.Error("under another boot it has the former one")
	}
}

// booted simulates a different boot of the kernel, whose id file holds that text.
func booted(t *testing.T, text string) {
	t.Helper()
	actual := system
	t.Cleanup(func() { system = actual })
	system.boot = filepath.Join(t.TempDir(), "boot_id")
	must(t, os.WriteFile(system.boot, []byte(text), 0o600))
}

// TestWithoutAnIdentityThereIsNoFingerprint: missing information of the kernel is not guessed.
func TestWithoutAnIdentityThereIsNoFingerprint(t *testing.T) {
	dir := folder(t)
	of(t, dir)
	for name, hide := range map[string]func(t *testing.T){
		"no boot id":       func(t *testing.T) { booted(t, ""); system.boot += ".none" },
		"an empty boot id": func(t *testing.T) { booted(t, "\n") },
		"no sysfs":         func(t *testing.T) { booted(t, "id"); system.sys = t.TempDir() },
	} {
		t.Run(name, func(t *testing.T) {
			hide(t)
			if sum, err := Of(t.Context(), dir, skipped); sum != "" || err != nil {
				t.Errorf("%q, %v", sum, err)
			}
		})
	}
}
