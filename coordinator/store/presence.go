package store

import (
	"context"

	"github.com/codehub/gateway/coordinator/workspace"
)

// SetPageActivity records how the workspace's pages tell people from automated requests. It writes nothing if this is
// recorded already, or if the workspace does not exist.
func (s *Store) SetPageActivity(ctx context.Context, id workspace.ID, activity workspace.PageActivity) error {
	_, err := s.Exec(ctx, "recording the page activity of workspace "+string(id), `
		UPDATE workspaces SET page_activity = $2 WHERE id = $1 AND page_activity IS DISTINCT FROM $2`,
		string(id), string(activity))
	return err
}
