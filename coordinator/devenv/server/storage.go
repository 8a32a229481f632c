package server

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RunEnv names a test run. Scratch folders of the run carry it in their names.
const RunEnv = "CODEHUB_TEST_RUN"

const (
	scratchPrefix = "codehub-scratch-"
	scratchLock   = "data.lock"
	// scratchAge is how long a server's first start may take: it may have to run initdb.
	scratchAge = 10 * time.Minute
	// scratchRoom is how much memory must be free for a test's databases to be kept in memory.
	scratchRoom = 512 << 20
	memoryDir   = "/dev/shm"
)

// Storage is where one server keeps its files.
type Storage struct {
	// Dir has the data. The server's log and lock are beside it.
	Dir string
	// Sockets is the folder for the sockets, which is removed with the server. Its path is short.
	Sockets string
	// scratch is the folder that contains all these files, if none of them must outlast the server.
	scratch string
}

// Durable keeps a server's data in dir/name and its sockets in dir/run/name.
func Durable(dir, name string) Storage {
	return Storage{Dir: filepath.Join(dir, name), Sockets: SocketDir(filepath.Join(dir, "run", name))}
}

// Scratch makes a folder that is removed with the server, on disk or, if there is room, in memory. It removes the
// folders that killed processes have left.
func Scratch(inMemory bool) (Storage, error) {
	root := os.TempDir()
	if inMemory && hasRoom(memoryDir) {
		root = memoryDir
	}
	if err := sweep(root); err != nil {
		return Storage{}, err
	}
	dir, err := os.MkdirTemp(root, scratchPrefix+os.Getenv(RunEnv)+"-")
	if err != nil {
		return Storage{}, fmt.Errorf("making a scratch folder: %w", err)
	}
	return Storage{Dir: filepath.Join(dir, "data"), Sockets: dir, scratch: dir}, nil
}

// ScratchFolders lists the present scratch folders of a test run.
func ScratchFolders(run string) ([]string, error) {
	var all []string
	for _, root := range []string{os.TempDir(), memoryDir} {
		found, err := filepath.Glob(filepath.Join(root, scratchPrefix+run+"-*"))
		if err != nil {
			return nil, fmt.Errorf("listing scratch folders: %w", err)
		}
		all = append(all, found...)
	}
	return all, nil
}

// Program returns what all servers have in common.
func (s Storage) Program(name string) (Program, error) {
	if err := makePrivate(s.Dir, nil); err != nil {
		return Program{}, err
	}
	return Program{
		Name: name, Env: []string{"PATH=" + systemPath, "LC_ALL=C", "TZ=UTC", "HOME=" + s.Dir},
		Log: s.Dir + ".log", Lock: s.Dir + ".lock", Folders: []string{s.Sockets},
	}, nil
}

// sweep removes the scratch folders in root whose servers are gone.
func sweep(root string) error {
	found, err := filepath.Glob(filepath.Join(root, scratchPrefix+"*"))
	if err != nil {
		return fmt.Errorf("listing scratch folders: %w", err)
	}
	for _, dir := range found {
		info, err := os.Stat(dir)
		if err != nil {
			continue // gone by now
		}
		// The supervisor makes the lock file, locks it, and then writes its token.
		token, err := os.ReadFile(filepath.Join(dir, scratchLock))
		if (err != nil || len(token) == 0) && time.Since(info.ModTime()) < scratchAge {
			continue // its server is just being started
		}
		lock, err := TryLock(filepath.Join(dir, scratchLock))
		if err != nil {
			continue // in use, or of another user
		}
		err = os.RemoveAll(dir)
		lock.Close()
		if err != nil {
			return fmt.Errorf("sweeping a scratch folder: %w", err)
		}
	}
	return nil
}

func hasRoom(dir string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(dir, &fs) == nil && uint64(fs.Bavail)*uint64(fs.Bsize) >= scratchRoom &&
		unix.Access(dir, unix.W_OK) == nil
}

// SocketDir returns dir if a socket's whole path fits into it, else a short folder that
// belongs to dir alone. It does not make the folder.
func SocketDir(dir string) string {
	// The longest name below it is exec/containerd/containerd-debug.sock; the limit is
	// 104 bytes on macOS and 108 on Linux.
	if len(dir) <= 60 {
		return dir
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(strings.TrimSuffix(os.TempDir(), "/"), "codehub-"+hex.EncodeToString(sum[:6]))
}

// makePrivate makes a folder that only its owner can enter: the given user, or the present one if user is nil.
func makePrivate(dir string, user *syscall.Credential) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) // also if another process has made it
	}
	if err == nil && user != nil {
		err = os.Chown(dir, int(user.Uid), int(user.Gid))
	}
	if err != nil {
		return fmt.Errorf("making a private folder: %w", err)
	}
	return nil
}

// CacheDir returns the folder for things that are kept between runs and can be made again: built programs and a
// prepared database cluster.
func CacheDir() (string, error) {
	base, err := os.UserCacheDir()
	dir := filepath.Join(base, "codehub-gateway")
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	return dir, nil
}

// ErrLocked is returned by [TryLock] for a lock that another process holds.
var ErrLocked = errors.New("locked by another process")

// Lock takes the lock file path for this process alone and waits for it. Closing the
// file, or the end of the process, frees it.
func Lock(path string) (*os.File, error) { return lock(path, unix.LOCK_EX) }

// TryLock is [Lock] without waiting. It returns [ErrLocked] if another process has the lock.
func TryLock(path string) (*os.File, error) { return lock(path, unix.LOCK_EX|unix.LOCK_NB) }

func lock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening a lock file: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("locking %s: %w", path, err)
}
