package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Look implements [backend.Inspector]. Every container is idle: only the application's process runs.
func (b *Backend) Look(ctx context.Context, id workspace.ID) (work.Sample, error) {
	if err := b.begin(ctx, "Look", id); err != nil {
		return work.Sample{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k, err := b.running(id)
	if err != nil {
		return work.Sample{}, err
	}
	if k.frozen() {
		return work.Sample{}, frozenError(id)
	}
	return work.Sample{
		At: time.Now(), Container: k.uid, Terminals: true, Main: 1,
		Processes: []work.Process{{PID: 1, Group: 1, Session: 1, Foreground: -1, Args: "application"}},
	}, nil
}

// Stats implements [backend.Inspector]. It counts the one process that Look finds.
func (b *Backend) Stats(ctx context.Context, id workspace.ID) (backend.Stats, error) {
	if err := b.begin(ctx, "Stats", id); err != nil {
		return backend.Stats{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k, err := b.running(id)
	if err != nil {
		return backend.Stats{}, err
	}
	s := backend.Stats{At: time.Now(), Processes: -1}
	if !k.frozen() {
		s.Processes, s.Ports = 1, []int{8080}
	}
	return s, nil
}

// running returns the workspace's running container, or [backend.ErrNotFound]. The caller holds the lock.
func (b *Backend) running(id workspace.ID) (*container, error) {
	k, err := b.container(id)
	if err != nil || k == nil || !k.state.Running {
		return nil, fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	return k, nil
}
