package e2e

import (
	"crypto/rand"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/disk"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// powerDisk is the size in MiB of the disk of a [poweredHost]. Only the used part takes space on this machine.
const powerDisk = 4 << 10

// poweredHost is a whole host whose power a test can cut. The container engine, PostgreSQL and the program keep their
// data on its only disk. The object store and Redis are elsewhere.
type poweredHost struct {
	*installation
	disk     *disk.Disk
	own      *ownEngine
	storage  server.Storage // of PostgreSQL
	postgres *server.PostgreSQL
}

// newPoweredHost starts a poweredHost, with settings as for [install]. It skips the test on a machine where the power
// of a disk cannot be cut.
func newPoweredHost(t *testing.T, settings ...string) *poweredHost {
	t.Helper()
	h := &poweredHost{own: newOwnEngine(t, false)}
	h.disk = disk.New(t, "ext4", powerDisk, filepath.Join(h.own.dir, "disk"))
	h.own.data = filepath.Join(h.disk.Dir, "docker")
	h.own.bridge = "power" + strings.ToLower(rand.Text()[:8])
	if out, err := exec.Command("ip", "link", "add", h.own.bridge, "type", "bridge").CombinedOutput(); err != nil {
		t.Fatalf("making a bridge: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", h.own.bridge).Run() })
	t.Cleanup(func() { h.own.stop(); h.own.endContainers(t) }) // before the disk goes
	h.own.start(t)
	h.storage = server.Durable(h.disk.Dir, "postgresql")
	h.startPostgreSQL(t)
	t.Cleanup(func() { _ = h.postgres.Stop() })
	if err := h.postgres.CreateDatabase(t.Context(), "codehub"); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(h.disk.Dir, "caddy")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	settings = append(settings, h.own.settings(t)...)
	h.installation = prepare(t, append(settings, "DATABASE_URL="+h.postgres.DSN("codehub"),
		"HOME="+home, "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home)...)
	h.docker = devenv.Inspect(t, h.own.host(), h.id)
	h.engine = h.docker
	t.Cleanup(func() { h.uninstall(t) })
	h.installation.start(t)
	return h
}

func (h *poweredHost) startPostgreSQL(t *testing.T) {
	t.Helper()
	var err error
	if h.postgres, err = server.StartPostgreSQL(h.storage); err != nil {
		t.Fatal(err)
	}
}

// lose cuts the power: everything on the host stops, and the disk ends without a flush.
func (h *poweredHost) lose(t *testing.T) {
	t.Helper()
	// Until all processes are stopped, one of them may start another one.
	for stopped := -1; ; {
		all := h.processes(t)
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGSTOP) // fails if it has ended
		}
		if len(all) == stopped {
			break
		}
		stopped = len(all)
	}
	if err := h.disk.Cut(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "everything on the host has ended", func() bool {
		all := h.processes(t)
		for _, pid := range all {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(all) == 0
	})
	<-h.exited
	_ = h.own.cmd.Wait() // a signal has ended it
	wait.Until(t, "PostgreSQL's supervisor has ended", h.postgres.Exited)
}

// processes returns all processes that run on the host. These are the program, the processes whose command lines
// contain the engine's folder, which is on the disk, and the descendants of both. The test itself does not count.
func (h *poweredHost) processes(t *testing.T) (all []int) {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int]bool)
	add := func(pid int) {
		if !seen[pid] {
			seen[pid] = true
			all = append(all, pid)
		}
	}
	select {
	case <-h.exited: // its number may be another's
	default:
		add(h.cmd.Process.Pid)
	}
	for _, path := range found {
		line, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(line), h.own.dir+"/") {
			continue // it has ended, or is not of this host
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		add(pid)
		for _, child := range descendants(pid) {
			add(child)
		}
	}
	return all
}

// boot restores the power: it mounts the disk's content and starts everything again. Nothing that was in memory is
// left.
func (h *poweredHost) boot(t *testing.T) {
	t.Helper()
	h.own.unmount(t)
	if err := errors.Join(h.disk.Return(), os.RemoveAll(filepath.Join(h.own.dir, "exec")), os.RemoveAll(filepath.Join(h.own.dir, "pid"))); err != nil {
		t.Fatal(err)
	}
	if err := freeSharedMemory(h.storage.Dir); err != nil {
		t.Fatal(err)
	}
	h.startPostgreSQL(t)
	h.own.start(t)
	h.installation.start(t)
}
