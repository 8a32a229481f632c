// Package hostmemory measures how short of memory the host of an engine is. It owns the source: the kernel if the
// engine runs on this host, and otherwise the engine. It must not decide what to do about it.
package hostmemory

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/guard"
)

const (
	// memoryQuestions is how many containers' memory the engine is asked for at the same time.
	memoryQuestions = 8
	// sizeKnown is how long this process remembers the size of the host's memory. To report it, the engine starts three
	// programs.
	sizeKnown = 30 * time.Minute
	// procfs is where the kernel describes the whole host, even in a container.
	procfs = "/proc"
)

// Host is the host of an engine. It is safe for concurrent use.
type Host struct {
	api          *engine.Client
	installation string

	mu     sync.Mutex // guards the fields below
	engine string     // the identity of the engine on the host
	size   int64      // in bytes
	asked  time.Time
}

// New returns the host of the engine behind api. It performs no I/O.
func New(api *engine.Client, o spec.Options) *Host {
	return &Host{api: api, installation: o.Installation}
}

// known returns the memory size of an engine's host, if it is known.
func (h *Host) known(identity string) (int64, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.size, h.engine == identity && time.Since(h.asked) < sizeKnown
}

// learn records it.
func (h *Host) learn(identity string, size int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine, h.size, h.asked = identity, size, time.Now()
}

// Memory implements Memory of [backend.Backend]. An engine behind a Unix socket runs on this host, unless it reports
// another size of memory, as an engine in a virtual machine does. If it runs on this host, the kernel answers. On any
// other host, only the memory of the installation's containers is known.
func (h *Host) Memory(ctx context.Context) (backend.Memory, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	total, err := h.Size(ctx)
	if err != nil {
		return backend.Memory{}, err
	}
	if strings.HasPrefix(h.api.DaemonHost(), "unix://") {
		if m, err := kernelMemory(procfs); err == nil && m.Total == total {
			return m, nil
		}
	}
	used, err := h.used(ctx)
	return backend.Memory{Total: total, Available: max(0, total-used)}, err
}

// Size returns the size of the host's memory, in bytes.
func (h *Host) Size(ctx context.Context) (int64, error) {
	identity, err := h.api.Identity(ctx)
	if err != nil {
		return 0, err
	}
	if size, ok := h.known(identity); ok {
		return size, nil
	}
	const doing = "asking the engine how much memory its host has"
	info, err := h.api.Info(ctx)
	switch {
	case err != nil:
		return 0, engine.Wrap(doing, err)
	case info.MemTotal <= 0:
		return 0, fmt.Errorf("%s: it says %d", doing, info.MemTotal)
	}
	h.learn(identity, info.MemTotal)
	return info.MemTotal, nil
}

// used returns the memory that the installation's containers use, except for memory that the kernel may drop.
func (h *Host) used(ctx context.Context) (int64, error) {
	const doing = "reading how much memory the containers use"
	list, err := h.api.ContainerList(ctx, container.ListOptions{
		Filters: filters.NewArgs(filters.Arg("label", spec.LabelInstallation+"="+h.installation)),
	})
	if err != nil {
		return 0, engine.Wrap(doing, err)
	}
	var sum atomic.Int64
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(memoryQuestions)
	for _, c := range list {
		guard.Go(g, func() error {
			used, err := h.api.Usage(ctx, c.ID)
			if err == nil {
				sum.Add(status.InUse(used.MemoryStats))
			}
			if errdefs.IsNotFound(err) || errdefs.IsConflict(err) {
				return nil // it has ended
			}
			return engine.Wrap(doing, err)
		})
	}
	err = g.Wait()
	return sum.Load(), err
}

// kernelMemory asks the kernel of this host, whose files are below proc.
func kernelMemory(proc string) (m backend.Memory, err error) {
	text, err := os.ReadFile(filepath.Join(proc, "meminfo"))
	if err != nil {
		return m, err
	}
	found := 0
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		into := map[string]*int64{"MemTotal": &m.Total, "MemAvailable": &m.Available}[name]
		if into == nil {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		if err != nil {
			return m, fmt.Errorf("reading %s: %w", name, err)
		}
		*into = kib << 10
		found++
	}
	if found != 2 || m.Total <= 0 {
		return m, fmt.Errorf("%s does not tell how much memory is available", filepath.Join(proc, "meminfo"))
	}
	// A kernel without pressure information lacks the file, or refuses to read it.
	if text, err := os.ReadFile(filepath.Join(proc, "pressure", "memory")); err == nil {
		m.Stalled = stalled(string(text))
	}
	return m, nil
}

// stalled returns the share of the last 10 s in which something waited for memory, or 0 if the text has none.
func stalled(text string) float64 {
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "some" {
			continue
		}
		value, ok := strings.CutPrefix(fields[1], "avg10=")
		if percent, err := strconv.ParseFloat(value, 64); ok && err == nil && percent >= 0 {
			return min(percent, 100) / 100
		}
	}
	return 0
}
