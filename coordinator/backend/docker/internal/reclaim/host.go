// Package reclaim hands the memory of frozen containers back: it asks the kernel to move what they do not
// use to swap (SPEC 6). It owns when that is possible and when it ends. It must not decide what is frozen,
// nor write to the group of anything but the container that it is told of.
package reclaim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Host is where the kernel of this host shows itself.
type Host struct {
	// Proc is the mount of procfs, Groups that of cgroup v2, and Zswap says whether zswap is on.
	Proc, Groups, Zswap string
}

// This is where Linux has them.
var This = Host{Proc: "/proc", Groups: "/sys/fs/cgroup", Zswap: "/sys/module/zswap/parameters/enabled"}

// Why memory stays where it is.
var (
	ErrNoGroups  = errors.New("the host does not use cgroup v2")
	ErrNoReclaim = errors.New("the kernel has no memory.reclaim (Linux 5.19)")
	ErrNoSwap    = errors.New("the host has no free swap")
	ErrSlowSwap  = errors.New("the swap is on a disk, and zswap is off")
	ErrReadOnly  = errors.New("this process may not write to the control groups of containers")
	errElsewhere = errors.New("the container is not in a control group of this host")
)

// Able returns why nothing can be handed back here, or nil.
func (h Host) Able() error {
	if _, err := os.Stat(filepath.Join(h.Groups, "cgroup.controllers")); err != nil {
		return ErrNoGroups
	}
	// What the engine makes below belongs to whom this belongs to. In a container, it is read-only.
	if unix.Access(h.Groups, unix.W_OK) != nil {
		return ErrReadOnly
	}
	if has, err := filepath.Glob(filepath.Join(h.Groups, "*", "memory.reclaim")); err != nil || len(has) == 0 {
		return ErrNoReclaim
	}
	return h.swap()
}

// May returns why the memory of this container, whose first process that is, cannot be handed back, or nil.
func (h Host) May(containerID string, pid int) error {
	if err := h.Able(); err != nil {
		return err
	}
	group, err := h.group(containerID, pid)
	if err != nil {
		return err
	}
	if unix.Access(filepath.Join(group, "memory.reclaim"), unix.W_OK) != nil {
		return ErrReadOnly
	}
	return nil
}

// swap returns why nothing should be moved to the host's swap, or nil.
func (h Host) swap() error {
	areas, err := os.ReadFile(filepath.Join(h.Proc, "swaps"))
	if err != nil {
		return ErrNoSwap
	}
	zswap, _ := os.ReadFile(h.Zswap) // a kernel without it has no such file
	return swap(string(areas), string(zswap))
}

// swap reads /proc/swaps, a line of titles and then one for each area with its size and what is used, and
// whether zswap is on. Without swap the kernel can drop only what it has read from files: it does that by
// itself where memory is needed, and counts it as available all the time. And what is on a disk comes
// back slowly; a workspace that goes on would wait for it.
func swap(areas, zswap string) error {
	result := ErrNoSwap
	for line := range strings.Lines(areas) {
		var name, kind string
		var size, used int64
		if n, _ := fmt.Sscan(line, &name, &kind, &size, &used); n != 4 || used >= size {
			continue
		}
		if on := strings.TrimSpace(zswap); on == "Y" || on == "1" || strings.HasPrefix(name, "/dev/zram") {
			return nil
		}
		result = ErrSlowSwap
	}
	return result
}

// group returns the folder of the container's control group. The process is the container's as the engine
// reports it: on another host, or seen from another PID namespace, that number is of another process, or
// of none. So the group must have the container's id in its name.
func (h Host) group(containerID string, pid int) (string, error) {
	text, err := os.ReadFile(filepath.Join(h.Proc, fmt.Sprint(pid), "cgroup"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", errElsewhere
	}
	if err != nil {
		return "", err
	}
	path := groupOf(string(text), containerID)
	if path == "" {
		return "", errElsewhere
	}
	return filepath.Join(h.Groups, path), nil
}

// groupOf finds the path of the container's group in cgroup v2, or "": a line is id:controllers:path, and
// both first are empty but for the 0.
func groupOf(text, containerID string) string {
	const idLength = 64
	if len(containerID) != idLength {
		return ""
	}
	for line := range strings.Lines(text) {
		path, v2 := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "0::")
		if v2 && filepath.IsAbs(path) && filepath.Clean(path) == path && !strings.HasPrefix(path, "/..") &&
			strings.Contains(filepath.Base(path), containerID) {
			return path
		}
	}
	return ""
}
