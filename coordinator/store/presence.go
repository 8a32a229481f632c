package store

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/workspace"
)

// SetPageActivity records how the workspace's pages tell people from automated requests. It writes nothing if
// that is known already, or if the workspace does not exist.
func (s *Store) SetPageActivity(ctx context.Context, id workspace.ID, activity workspace.PageActivity) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE workspaces SET page_activity = $2 WHERE id = $1 AND page_activity IS DISTINCT FROM $2`,
		string(id), string(activity))
	if err != nil {
		return fmt.Errorf("recording the page activity of workspace %s: %w", id, err)
	}
	return nil
}
