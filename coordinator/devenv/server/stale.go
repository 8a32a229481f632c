package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// endLimit is how long a server that nobody guards any more may take to end: as long
// as its guard would have given it.
const endLimit = 30 * time.Second

// removeStalePID removes the pid file path of a server that was killed. Servers do so
// themselves, except when the number belongs to another process by now. A server that
// still runs with data, its folder, is waited for: it ends, because its guard has.
func removeStalePID(path, data string) error {
	for deadline := time.Now().Add(endLimit); ; time.Sleep(20 * time.Millisecond) {
		b, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a pid file: %w", err)
		}
		pid, _, _ := strings.Cut(string(b), "\n")
		command, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
		if err != nil || !strings.Contains(string(command), data) {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("removing a stale pid file: %w", err)
			}
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %s still runs with the data in %s: end it first", pid, data)
		}
	}
}

// awaitSilence waits until nobody answers at an address that a server is to have again.
// A server whose guard was killed is still ending: it would answer for the new one, and
// take the new one's socket with it.
func awaitSilence(name string, ask func() error) error {
	for deadline := time.Now().Add(endLimit); ask() == nil; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("starting %s: another one answers at its address and does not end", name)
		}
	}
	return nil
}
