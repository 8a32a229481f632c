package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// frozen reports whether the container runs and is frozen, by Freeze or by [Backend.Change].
func (k *container) frozen() bool {
	return k.state.Running && k.state.Health == workspace.HealthPaused
}

// thaw restores the former state of the container. The caller holds the lock.
func (k *container) thaw() {
	k.state.Health, k.thawed = k.thawed, ""
	k.state.Ready = k.state.Health == ""
}

// frozenError is [backend.ErrFrozen] for that workspace.
func frozenError(id workspace.ID) error {
	return fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrFrozen)
}

// Freeze implements [backend.Freezer]. The server behind the endpoint is the test's own: it stops where it calls
// [Backend.AwaitThaw].
func (b *Backend) Freeze(ctx context.Context, id workspace.ID, started time.Time) error {
	if err := b.begin(ctx, "Freeze", id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k, err := b.container(id)
	if err != nil || k == nil || !k.state.Running || k.frozen() || !backend.SameStart(k.state.StartedAt, started) {
		return err
	}
	k.thawed = k.state.Health
	k.state.Ready, k.state.Health = false, workspace.HealthPaused
	b.changed(b.owner, id)
	return nil
}

// Thaw implements [backend.Freezer].
func (b *Backend) Thaw(ctx context.Context, id workspace.ID) error {
	if err := b.begin(ctx, "Thaw", id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k, err := b.container(id)
	if err != nil || k == nil || !k.frozen() {
		return err
	}
	k.thaw()
	b.changed(b.owner, id)
	return nil
}
