package reclaim

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/guard"
)

const (
	// chunk is how many bytes are asked for at once: nothing ends the kernel's work on one, and whoever
	// removes the container's group waits for it.
	chunk = 16 << 20
	// limit bounds the work on one container.
	limit = 30 * time.Second
)

// Reclaimer hands memory back, of one container at a time. It is safe for concurrent use.
type Reclaimer struct {
	host  Host
	told  func(bytes int64)
	ctx   context.Context // ends with Close
	close context.CancelFunc
	turn  chan struct{} // held while one is worked on

	mu      sync.Mutex // nothing begins after Close
	working sync.WaitGroup
}

// New returns a reclaimer on a host. It calls told, if that is not nil, with the bytes of each container
// that went to swap. It performs no I/O.
func New(h Host, told func(bytes int64)) *Reclaimer {
	r := &Reclaimer{host: h, told: told, turn: make(chan struct{}, 1)}
	r.ctx, r.close = context.WithCancel(context.Background())
	return r
}

// Close ends what goes on, after the kernel's present work of some MB.
func (r *Reclaimer) Close() {
	r.mu.Lock()
	r.close()
	r.mu.Unlock()
	r.working.Wait()
}

// Frozen is called with a container that was frozen, and with the number of its first process. It returns
// at once. Where nothing can be handed back, nothing happens.
func (r *Reclaimer) Frozen(containerID string, pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil || pid <= 0 {
		return
	}
	r.working.Go(func() {
		select {
		case r.turn <- struct{}{}:
			defer func() { <-r.turn }()
		case <-r.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(r.ctx, limit)
		defer cancel()
		// What stays is the same memory as before: nobody waits for this, and doctor tells what is missing.
		guard.Run("handing back memory", func() {
			if n, _ := r.host.Reclaim(ctx, containerID, pid); n > 0 && r.told != nil {
				r.told(n)
			}
		})
	})
}

// Reclaim has the kernel move the memory of a frozen container to swap, until there is no more to move, it
// goes on, or ctx ends. It returns how many bytes fewer the container then uses.
func (h Host) Reclaim(ctx context.Context, containerID string, pid int) (int64, error) {
	if err := h.Able(); err != nil {
		return 0, err
	}
	group, err := h.group(containerID, pid)
	if err != nil {
		return 0, err
	}
	// A file of package os waits for ever after EAGAIN: the kernel never says that this one can be written.
	file, err := unix.Open(filepath.Join(group, "memory.reclaim"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(file)
	before, err := current(group)
	if err != nil {
		return 0, err
	}
	left := before
	for ctx.Err() == nil && frozen(group) && left > 0 && h.swap() == nil {
		_, err := unix.Write(file, strconv.AppendInt(nil, min(left, chunk), 10))
		now, gone := current(group)
		if gone != nil {
			return before - left, gone
		}
		less := now < left
		left = now
		switch {
		case errors.Is(err, unix.EINTR): // by a signal of Go's scheduler
		case errors.Is(err, unix.EAGAIN) || err == nil && !less: // it found less than it was asked for
			return before - left, nil
		case err != nil:
			return before - left, err
		}
	}
	return before - left, nil
}

// current reads how many bytes the group uses.
func current(group string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(group, "memory.current"))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

// frozen reports whether the kernel says that every process of the group is frozen.
func frozen(group string) bool {
	text, err := os.ReadFile(filepath.Join(group, "cgroup.events"))
	return err == nil && isFrozen(string(text))
}

func isFrozen(events string) bool {
	for line := range strings.Lines(events) {
		if strings.TrimSpace(line) == "frozen 1" {
			return true
		}
	}
	return false
}
