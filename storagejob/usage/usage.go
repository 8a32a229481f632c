// Package usage counts the content of homes and reads how full their disk is (SPEC 7). It reads folders that others may
// be writing to, in bounded time and memory, follows no link and changes nothing.
//
// It owns the counting. It must not know what a workspace is, or reach the object store.
package usage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// page is how many names are read at a time: a folder may hold millions.
	page = 512
	// maxDepth bounds how many folders are open at once. Deeper folders are not counted.
	maxDepth = 500
	// maxLinks bounds how many files with several names are remembered. Further ones count once per name.
	maxLinks = 100_000
)

// Run counts the folders in args, prints the result to stdout, and returns the exit code.
func Run(ctx context.Context, args []string, getenv func(string) string, stdout io.Writer) int {
	result, err := run(ctx, args, getenv)
	if err != nil {
		result.Error = err.Error()
	}
	return contract.End(stdout, result, err)
}

func run(ctx context.Context, args []string, getenv func(string) string) (contract.UsageResult, error) {
	result := contract.UsageResult{Homes: make(map[string]contract.HomeUsage)}
	seconds, err := strconv.Atoi(getenv(contract.EnvUsageSeconds))
	if err != nil || seconds <= 0 {
		return result, fmt.Errorf("%w: %s must be a number of seconds, not %q", contract.ErrUsage,
			contract.EnvUsageSeconds, getenv(contract.EnvUsageSeconds))
	}
	if result.Disk, err = Disk(contract.UsageDiskPath); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	for i, folder := range args {
		// The remaining time is shared equally: one large home must not use up the time of the others.
		share, done := ctx, func() {}
		if end, ok := ctx.Deadline(); ok {
			share, done = context.WithTimeout(ctx, time.Until(end)/time.Duration(len(args)-i))
		}
		if home, err := Count(share, folder); err == nil {
			result.Homes[filepath.Base(folder)] = home
		}
		done()
	}
	return result, nil
}

// Disk reads how full the file system of a folder is.
func Disk(folder string) (contract.DiskUsage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return contract.DiskUsage{}, fmt.Errorf("reading the free space of the disk of %s: %w", folder, err)
	}
	size := int64(s.Bsize)
	return contract.DiskUsage{
		// This counts like df: the space reserved for root is neither used nor free.
		Total: (int64(s.Blocks) - int64(s.Bfree) + int64(s.Bavail)) * size,
		Free:  int64(s.Bavail) * size,
		ID:    fmt.Sprintf("%x:%v", s.Type, s.Fsid.Val),
	}, nil
}

// counter counts one folder.
type counter struct {
	contract.HomeUsage
	links map[link]struct{} // counted files with several names
}

// link identifies a file.
type link struct{ dev, ino uint64 }

// Count counts the content of a folder until ctx ends. It fails only if the folder cannot be opened at all.
func Count(ctx context.Context, folder string) (contract.HomeUsage, error) {
	fd, err := unix.Open(folder, openFolder, 0)
	if err != nil {
		return contract.HomeUsage{}, fmt.Errorf("opening %s: %w", folder, err)
	}
	c := counter{links: make(map[link]struct{})}
	c.folder(ctx, fd, 0)
	return c.HomeUsage, nil
}

const openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// folder counts the content of the open folder fd, and closes it.
func (c *counter) folder(ctx context.Context, fd, depth int) {
	// ReadDir needs this name to look up the types that the file system does not list.
	f := os.NewFile(uintptr(fd), fmt.Sprintf("/proc/self/fd/%d", fd))
	defer f.Close()
	for {
		if ctx.Err() != nil {
			c.AtLeast = true
			return
		}
		names, err := f.ReadDir(page)
		for _, e := range names {
			c.Files++
			switch {
			case e.Type().IsRegular():
				c.file(fd, e.Name())
			case e.IsDir():
				c.below(ctx, fd, e.Name(), depth)
			}
		}
		if err != nil {
			// A folder that is removed meanwhile also ends here: it is empty.
			c.AtLeast = c.AtLeast || !errors.Is(err, io.EOF) && !errors.Is(err, unix.ENOENT)
			return
		}
	}
}

// below counts the folder with that name in fd.
func (c *counter) below(ctx context.Context, fd int, name string, depth int) {
	if depth == maxDepth || ctx.Err() != nil {
		c.AtLeast = true
		return
	}
	inner, err := unix.Openat(fd, name, openFolder, 0)
	if err != nil {
		// The folder may have been removed or replaced since it was listed.
		c.AtLeast = c.AtLeast || !gone(err)
		return
	}
	c.folder(ctx, inner, depth+1)
}

// file counts the regular file with that name in the folder fd.
func (c *counter) file(fd int, name string) {
	var s unix.Stat_t
	if err := unix.Fstatat(fd, name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		c.AtLeast = c.AtLeast || !gone(err)
		return
	}
	if s.Nlink > 1 {
		l := link{uint64(s.Dev), s.Ino}
		if _, counted := c.links[l]; counted {
			return
		}
		if len(c.links) < maxLinks {
			c.links[l] = struct{}{}
		}
	}
	const blockSize = 512 // always, whatever the file system's block size is
	size := s.Size
	if stored := s.Blocks * blockSize; stored > 0 && stored < size {
		size = stored
	}
	c.Bytes += size
}

// gone reports whether an entry was removed or replaced since it was listed.
func gone(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}
