package coordinator

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Inventory lists the existing data of a workspace, for the person who recovers it. It implements
// service.Inventory.
type Inventory struct {
	Backend  backend.Sensors
	Archives *archive.Store
	Identity *identity.Guard
}

// Inventory asks the backend and the object store. An error says which of them did not answer, or
// is not the recorded one. Then no choice may be made as if there were nothing.
func (i Inventory) Inventory(ctx context.Context, id workspace.ID) (workspace.Inventory, error) {
	volumes, err := i.Backend.Volumes(ctx, id)
	if err != nil {
		return workspace.Inventory{}, fmt.Errorf("looking for the volume of workspace %s: %w", id, err)
	}
	if err := i.Identity.Backend(ctx); err != nil {
		return workspace.Inventory{}, err
	}
	archives, err := i.Versions(ctx, id)
	if err != nil {
		return workspace.Inventory{}, err
	}
	found := workspace.Inventory{Archives: archives}
	if v, ok := volumes[id]; ok {
		found.Volume = &v
	}
	return found, nil
}

// Versions asks the object store only. An error means that it did not answer, or is not the recorded one.
func (i Inventory) Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error) {
	archives, err := i.Archives.Versions(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("looking for the archives of workspace %s: %w", id, err)
	}
	return archives, i.Identity.Bucket(ctx)
}
