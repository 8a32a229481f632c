package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/caddymodule/e2e/soak"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// victim is a server that a run kills, suspends and starts again.
type victim struct {
	soak.Target
	// processes returns the server's processes, in the order in which a signal is sent to them.
	processes func() []int
	// ended waits until the killed server is gone.
	ended func(*testing.T)
	// start starts it again.
	start func(*testing.T)
	// crash ends a part of it.
	crash func(*testing.T)
	// repair ends the present fault. It is nil if there is no fault.
	repair func()
}

// signal sends a signal to all processes. It does not matter if a process has ended in the meantime.
func (v *victim) signal(t *testing.T, how syscall.Signal) {
	t.Helper()
	for _, pid := range v.all(t) {
		_ = syscall.Kill(pid, how)
	}
}

// all returns the processes of the server. It fails the test if there are none, because a signal would then cause no
// fault.
func (v *victim) all(t *testing.T) []int {
	t.Helper()
	all := v.processes()
	if len(all) == 0 {
		t.Fatalf("%s has no processes", v.Name)
	}
	return all
}

// kill ends all processes. It suspends all of them first, so that none of them starts another process in the meantime.
func (v *victim) kill(t *testing.T) {
	t.Helper()
	all := v.all(t)
	for _, how := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} {
		for _, pid := range all {
			_ = syscall.Kill(pid, how)
		}
	}
	v.ended(t)
}

// supervised returns a victim that is run by a supervisor of package server. The command line of the victim's process
// contains mark.
func supervised(name, mark string, whats []string, process func() *server.Process, start func() error) *victim {
	return &victim{
		Target: soak.Target{Name: name, Whats: whats},
		processes: func() []int {
			for _, pid := range descendants(os.Getpid()) {
				command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // empty: it has ended meanwhile
				if strings.Contains(string(command), mark) {
					return append([]int{pid}, descendants(pid)...)
				}
			}
			return nil
		},
		ended: func(t *testing.T) { wait.Until(t, name+" has ended", process().Exited) },
		start: func(t *testing.T) {
			t.Helper()
			if err := start(); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// descendants returns the processes that a process has started, and all processes that these have started in turn, the
// nearest ones first.
func descendants(pid int) (all []int) {
	children := make(map[int][]int)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is right
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		id, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
		if fields := strings.Fields(rest); len(fields) > 1 {
			parent, _ := strconv.Atoi(fields[1])
			children[parent] = append(children[parent], id)
		}
	}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		found := children[next[0]]
		slices.Sort(found)
		all, next = append(all, found...), append(next, found...)
	}
	return all
}

// freeSharedMemory frees the small segment of shared memory by which PostgreSQL notices that an earlier server still
// runs. A killed server leaves the segment behind, and the next server never finds it.
func freeSharedMemory(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "data", "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended in order
	}
	if err != nil {
		return err
	}
	const line = 6 // its key and its id
	lines := strings.Split(string(text), "\n")
	if len(lines) <= line {
		return nil // it was killed before it had one
	}
	var key, id int
	if _, err := fmt.Sscan(lines[line], &key, &id); err != nil {
		return fmt.Errorf("reading %q: %w", lines[line], err)
	}
	_, err = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	return err
}

// memory is the folder for PostgreSQL's data. It is in memory, so that PostgreSQL's writes do not wait for a disk.
const memory = "/dev/shm"

// postgresVictim is a PostgreSQL server for one test with the database soak.
func postgresVictim(t *testing.T) (*victim, string) {
	t.Helper()
	dir, err := os.MkdirTemp(memory, "codehub-soak-") // not a scratch folder: other runs sweep those whose servers are gone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	storage := server.Durable(dir, "postgresql")
	pg, err := server.StartPostgreSQL(storage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pg.Stop() })
	if err := pg.CreateDatabase(t.Context(), "soak"); err != nil {
		t.Fatal(err)
	}
	v := supervised("postgresql", storage.Dir, []string{soak.Kill, soak.Stop, soak.Crash}, func() *server.Process { return pg.Process }, func() (err error) {
		if err := freeSharedMemory(storage.Dir); err != nil {
			return err
		}
		pg, err = server.StartPostgreSQL(storage)
		return err
	})
	v.crash = func(*testing.T) { // any session: the server then ends all of them, and recovers
		if all := v.processes(); len(all) > 1 {
			_ = syscall.Kill(all[len(all)-1], syscall.SIGKILL)
		}
	}
	return v, pg.DSN("soak")
}

// redisVictim is a Redis server for one test that keeps its data.
func redisVictim(t *testing.T) (*victim, string) {
	t.Helper()
	storage := server.Durable(t.TempDir(), "redis")
	r, err := server.StartRedis(storage)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Stop() })
	return supervised("redis", storage.Sockets, []string{soak.Kill, soak.Stop}, func() *server.Process { return r.Process }, func() (err error) {
		r, err = server.StartRedis(storage)
		return err
	}), r.URL()
}

// storeVictim is an object store for one test.
func storeVictim(t *testing.T) (*victim, *server.S3) {
	t.Helper()
	storage := server.Durable(t.TempDir(), "s3")
	s, err := server.StartS3(t.Context(), storage, "", "", server.Loopback, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := *s
	t.Cleanup(func() { _ = s.Stop() })
	return supervised("store", storage.Dir, []string{soak.Kill, soak.Stop}, func() *server.Process { return s.Process }, func() (err error) {
		s, err = server.StartS3(t.Context(), storage, first.AccessKey, first.SecretKey, server.Loopback, first.Port)
		return err
	}), &first
}

// engineVictim is a Docker engine for one test. When the engine ends, its containers survive one time, and end with it
// the next time.
func engineVictim(t *testing.T) (*victim, *ownEngine) {
	t.Helper()
	e := newOwnEngine(t, true)
	e.start(t)
	return &victim{
		Target:    soak.Target{Name: "engine", Whats: []string{soak.Kill, soak.Stop}},
		processes: func() []int { return []int{e.cmd.Process.Pid} },
		ended:     func(*testing.T) { _ = e.cmd.Wait() },
		start:     func(t *testing.T) { e.live = !e.live; e.start(t) },
	}, e
}
