package home

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// diskFresh is how long an answer about the disk stays valid if it took a container to get it.
	diskFresh = time.Minute
	// diskLocal is how long this process assumes that a folder of this machine is on the homes' disk, once that was
	// checked.
	diskLocal = 30 * time.Minute
)

// diskProbe knows how full the disk of the volumes is. A short-lived container measures it reliably. If the engine runs
// on this machine, this process may see the same file system at the same path. If so, this process asks the kernel
// itself until the next measurement by a container.
type diskProbe struct {
	asking chan struct{} // held while a container runs

	mu     sync.Mutex // guards the fields below
	engine string     // the identity of the engine that has the disk
	last   contract.DiskUsage
	asked  time.Time // when a container measured it
	folder string    // the folder of the volumes as this process sees it, or empty
}

// known returns the state of an engine's disk if it is known without asking the engine.
func (p *diskProbe) known(identity string) (contract.DiskUsage, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	age := time.Since(p.asked)
	switch {
	case p.engine != identity || p.asked.IsZero():
	case p.folder != "" && age < diskLocal:
		if now, err := statfs(p.folder); err == nil && now.ID == p.last.ID {
			return now, true
		}
	case age < diskFresh:
		return p.last, true
	}
	return contract.DiskUsage{}, false
}

// learn records what a container has measured.
func (p *diskProbe) learn(identity, folder string, seen contract.DiskUsage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.engine, p.last, p.asked, p.folder = identity, seen, time.Now(), ""
	// Neither the size nor the id alone is enough: some file systems have no id.
	if own, err := statfs(folder); err == nil && own.ID == seen.ID && near(own.Total, seen.Total) {
		p.folder = folder
	}
}

// near compares a disk's sizes at two moments. Space reserved for root may account for the difference.
func near(a, b int64) bool { return max(a, b)-min(a, b) <= b/1000 }

// Disk returns how full the disk of the homes is. All homes are below the engine's data folder.
func (h *Volumes) Disk(ctx context.Context) (backend.Disk, error) {
	identity, err := h.api.Identity(ctx)
	if err != nil {
		return backend.Disk{}, err
	}
	select {
	case h.disk.asking <- struct{}{}:
		defer func() { <-h.disk.asking }()
	case <-ctx.Done():
		return backend.Disk{}, ctx.Err()
	}
	if u, ok := h.disk.known(identity); ok {
		return backend.Disk{Total: u.Total, Free: u.Free}, nil
	}
	info, err := h.api.Info(ctx)
	if err != nil {
		return backend.Disk{}, engine.Wrap("asking the engine for its data folder", err)
	}
	result, err := h.usageHelper(ctx, time.Second, nil)
	if err != nil {
		return backend.Disk{}, err
	}
	h.disk.learn(identity, volumesFolder(info.DockerRootDir), result.Disk)
	return backend.Disk{Total: result.Disk.Total, Free: result.Disk.Free}, nil
}

// statfs asks this machine's kernel about a disk, and counts in the same way as the program in the container.
func statfs(folder string) (contract.DiskUsage, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(folder, &s); err != nil {
		return contract.DiskUsage{}, err
	}
	size := int64(s.Bsize)
	return contract.DiskUsage{
		Total: (int64(s.Blocks) - int64(s.Bfree) + int64(s.Bavail)) * size,
		Free:  int64(s.Bavail) * size,
		ID:    fmt.Sprintf("%x:%v", s.Type, s.Fsid.Val),
	}, nil
}
