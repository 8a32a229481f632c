package memory

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Usage implements [backend.Inspector]. It returns the values of [Backend.Fill].
func (b *Backend) Usage(ctx context.Context, _ time.Duration, ids ...workspace.ID) (
	map[workspace.ID]backend.Usage, error) {
	for _, id := range ids {
		if err := b.begin(ctx, "Usage", id); err != nil {
			return nil, err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[workspace.ID]backend.Usage)
	for _, id := range ids {
		if v, ok := b.volumes[id]; ok && v.owner == b.owner {
			out[id] = v.usage
		}
	}
	return out, nil
}

// Disk implements [backend.Inspector]. It returns the value of [Engine.SetDisk]. By default the disk is large and empty.
func (b *Backend) Disk(ctx context.Context) (backend.Disk, error) {
	if err := b.before(ctx, "Disk", ""); err != nil {
		return backend.Disk{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.disk == (backend.Disk{}) {
		return backend.Disk{Total: 1 << 40, Free: 1 << 40}, nil
	}
	return b.disk, nil
}

// Memory is the function of that name in [backend.Backend]. It returns the value of [Engine.SetMemory]. By default
// there is plenty of memory.
func (b *Backend) Memory(ctx context.Context) (backend.Memory, error) {
	if err := b.before(ctx, "Memory", ""); err != nil {
		return backend.Memory{}, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.memory == (backend.Memory{}) {
		return backend.Memory{Total: 1 << 40, Available: 1 << 40}, nil
	}
	return b.memory, nil
}

// Fill sets the content of a home. It does nothing if there is no volume.
func (b *Backend) Fill(id workspace.ID, u backend.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v, ok := b.volumes[id]; ok {
		v.usage = u
		b.volumes[id] = v
	}
}

// SetDisk sets the size and the free space of the homes' disk.
func (e *Engine) SetDisk(d backend.Disk) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disk = d
}

// SetMemory sets the state of the host's memory.
func (e *Engine) SetMemory(m backend.Memory) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.memory = m
}
