package docker

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/firewall"
)

// KeepIsolated makes the rules about what workspaces and storage jobs reach, and reports whether they stood:
// they are lost when the engine's host restarts, or somebody flushes them. The process
// that leads calls it from time to time; a start of a workspace sees to them, too. Its errors are
// those of [firewall.Guard.Keep].
func (d *Docker) KeepIsolated(ctx context.Context) (stood bool, err error) { return d.guard.Keep(ctx) }

// RemoveEgressRules removes the rules of an installation that is no longer used.
func RemoveEgressRules(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	api, err := engine.Connect(o.Host, o.Transport)
	if err != nil {
		return err
	}
	defer api.Close()
	if err := firewall.New(api, o.WithDefaults(), nil, nil).Remove(ctx); err != nil {
		return fmt.Errorf("removing the egress rules: %w", err)
	}
	return nil
}
