package server

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	scratchPrefix = "codehub-devenv-"
	// scratchNeeds is how much room a test's servers may take.
	scratchNeeds = 512 << 20
)

// CacheDir returns the folder for what is kept between runs and can be made
// again: built binaries, a prepared database cluster, a test engine's images.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(base, "codehub-gateway")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	return dir, nil
}

// Scratch is a folder for one server that lasts no longer than the server.
type Scratch struct {
	Dir string
	// lock is held by us and by the guard that gets it passed on. A folder whose
	// lock is free belongs to nobody: it is left from a guard that was killed.
	lock *os.File
}

// NewScratch makes a scratch folder, in memory where there is room, and removes
// those that killed processes left behind.
func NewScratch() (*Scratch, error) {
	root, err := scratchRoot()
	if err != nil {
		return nil, err
	}
	return newScratchIn(root)
}

// newScratchIn is [NewScratch] in a given folder.
func newScratchIn(root string) (*Scratch, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, fmt.Errorf("making the scratch folder: %w", err)
	}
	if err := sweepIn(root); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(root, scratchPrefix)
	if err != nil {
		return nil, fmt.Errorf("making a scratch folder: %w", err)
	}
	lock, err := Lock(filepath.Join(dir, "lock"))
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return &Scratch{Dir: dir, lock: lock}, nil
}

// Remove gives the folder up before a guard has taken charge of it.
func (s *Scratch) Remove() {
	_ = os.RemoveAll(s.Dir)
	s.lock.Close()
}

// Sweep removes scratch folders whose processes are gone.
func Sweep() error {
	root, err := scratchRoot()
	if err != nil {
		return err
	}
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	return errors.Join(sweepIn(root), sweepIn(filepath.Join(cache, "scratch")))
}

func sweepIn(root string) error {
	found, err := filepath.Glob(filepath.Join(root, scratchPrefix+"*"))
	if err != nil {
		return fmt.Errorf("listing scratch folders: %w", err)
	}
	for _, dir := range found {
		if _, err := os.Stat(filepath.Join(dir, "lock")); err != nil {
			// Without its lock: just being made, or being removed right now.
			if info, err := os.Stat(dir); err != nil || time.Since(info.ModTime()) < time.Minute {
				continue
			}
		}
		lock, err := TryLock(filepath.Join(dir, "lock"))
		if err != nil {
			continue // in use, or somebody else's
		}
		if err := os.RemoveAll(dir); err != nil {
			lock.Close()
			return fmt.Errorf("sweeping a scratch folder: %w", err)
		}
		lock.Close()
	}
	return nil
}

// scratchRoot chooses where scratch folders are made: in memory when there is
// room for it, because databases write much there and nothing must last.
func scratchRoot() (string, error) {
	if runtime.GOOS == "linux" {
		var fs unix.Statfs_t
		const shm = "/dev/shm"
		if unix.Statfs(shm, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= scratchNeeds && unix.Access(shm, unix.W_OK) == nil {
			return shm, nil
		}
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	// A Unix socket's path is limited to 108 bytes (104 on macOS).
	if len(cache) > 50 {
		return os.TempDir(), nil
	}
	dir := filepath.Join(cache, "scratch")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the scratch folder: %w", err)
	}
	return dir, nil
}

// ErrLocked is returned by [TryLock] for a lock that another process holds.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock file path for this process alone and waits for it. Closing
// the file, or the end of the process, frees it.
func Lock(path string) (*os.File, error) { return lock(path, unix.LOCK_EX) }

// LockShared takes the lock file path together with others that share it.
func LockShared(path string) (*os.File, error) { return lock(path, unix.LOCK_SH) }

// TryLock is [Lock] without waiting: [ErrLocked] when somebody else has it.
func TryLock(path string) (*os.File, error) { return lock(path, unix.LOCK_EX|unix.LOCK_NB) }

func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening a lock file: %w", err)
	}
	for {
		switch err := unix.Flock(int(f.Fd()), how); {
		case err == nil:
			return f, nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, fmt.Errorf("%s: %w", path, ErrLocked)
		default:
			f.Close()
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
	}
}

// firstExecutable returns the first of the candidates that can be run. A
// candidate without a slash is looked up in PATH.
func firstExecutable(candidates ...string) (string, bool) {
	for _, c := range candidates {
		if !strings.Contains(c, "/") {
			for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin", "/opt/homebrew/bin", "/usr/local/bin") {
				if p := filepath.Join(dir, c); isExecutable(p) {
					return p, true
				}
			}
			continue
		}
		if isExecutable(c) {
			return c, true
		}
	}
	return "", false
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// MissingError says which program is needed and not there.
type MissingError struct {
	// Program is the program that was looked for.
	Program string
	// Package is the Debian package that has it.
	Package string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed (Debian and Ubuntu: package %s)", e.Program, e.Package)
}

// ScratchFolders lists the scratch folders that are there now, whoever uses them.
func ScratchFolders() ([]string, error) {
	root, err := scratchRoot()
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, dir := range []string{root, filepath.Join(cache, "scratch")} {
		found, err := filepath.Glob(filepath.Join(dir, scratchPrefix+"*"))
		if err != nil {
			return nil, fmt.Errorf("listing scratch folders: %w", err)
		}
		all = append(all, found...)
	}
	return slices.Compact(all), nil
}
