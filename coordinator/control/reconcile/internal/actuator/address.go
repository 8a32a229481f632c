package actuator

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// addressTries is how many addresses a start tries if something else turns out to use them.
const addressTries = 5

// withAddress calls start with an address that belongs only to this workspace for as long as any process may route
// requests to it (SPEC 8). The address is taken before the container exists. If the process crashes in between, the
// only effect is that an unused address rests. A backend whose addresses cannot be chosen gets 0.
func (a *Actuator) withAddress(ctx context.Context, id workspace.ID, start func(slot int64) error) error {
	var pool backend.Pool
	if a.Addresses != nil {
		var err error
		if pool, err = a.Addresses(ctx); err != nil {
			return err
		}
	}
	if pool.Size == 0 {
		return start(0)
	}
	for range addressTries {
		slot, err := a.Store.TakeAddress(ctx, a.Fence, id, store.Pool(pool), a.Quarantine())
		switch {
		case errors.Is(err, store.ErrDeposed):
			return fmt.Errorf("%w: %w", ErrHeldBack, err)
		case errors.Is(err, store.ErrNoAddress):
			return fmt.Errorf("none of the %d addresses for workspaces is free; those that were used lately rest for "+
				"%s: put workspaces to sleep and wait, or set a larger docker subnet (with published ports, a larger "+
				"range as docker publish)",
				pool.Size, a.Quarantine())
		case err != nil:
			return fmt.Errorf("%w: %w", ErrHeldBack, err)
		}
		if err = start(slot); !errors.Is(err, backend.ErrAddressInUse) {
			return err
		}
		a.Log.Warn("something that is no workspace of this database has an address of the workspaces; it is left out "+
			"for some time",
			zap.String(logkey.Workspace, string(id)), zap.Error(err))
		if err := a.Store.DropAddress(ctx, a.Fence, id, pool.Name, slot); err != nil {
			return fmt.Errorf("%w: %w", ErrHeldBack, err)
		}
	}
	return fmt.Errorf("%d addresses for workspaces in a row are used by something else: set docker subnet (with "+
		"published ports, docker publish) to a range that is for workspaces alone", addressTries)
}
