package store

import (
	"context"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Frozen is a workspace whose container is frozen, or is about to be.
type Frozen struct {
	ID   workspace.ID
	Name string
	// Dozes means that its doze continues.
	Dozes bool
}

// Frozen returns the workspaces that doze, and those whose containers were frozen at the last observation.
func (s *Store) Frozen(ctx context.Context) ([]Frozen, error) {
	return postgres.Select(ctx, s.DB, "reading the frozen workspaces", postgres.RowToStruct[Frozen], `
		SELECT id, name, doze_at IS NOT NULL AS dozes FROM workspaces
		WHERE watched AND phase = 'RUNNING' AND (doze_at IS NOT NULL OR `+frozen+`) ORDER BY id`)
}

// ToThaw returns the workspaces that should run and whose containers this program has frozen since they started: some
// may still be frozen. With an id it returns at most that workspace.
func (s *Store) ToThaw(ctx context.Context, id workspace.ID) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the workspaces to thaw", `
		SELECT id FROM workspaces WHERE watched AND doze_at IS NULL AND (home_ctx ? 'dozed' OR `+frozen+`) AND `+runs+`
			AND (@id = '' OR id::text = @id)`, postgres.Args{"id": string(id)})
}
