package store

import (
	"cmp"
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Inspected is a workspace with the recorded size and checksum of its current archive.
type Inspected struct {
	workspace.Workspace
	// ArchiveSize is in bytes, and ArchiveSHA256 is the checksum; 0 and empty if they are not known.
	ArchiveSize   int64
	ArchiveSHA256 string
}

// inspectSQL leaves the condition to its callers.
const inspectSQL = `
SELECT w.*, COALESCE(a.size, 0) AS archive_size, COALESCE(a.sha256, '') AS archive_sha256
FROM (SELECT ` + workspaceColumns + ` FROM workspaces WHERE `

// inspect returns the workspaces that meet the condition.
func (s *Store) inspect(ctx context.Context, condition string, args ...any) ([]Inspected, error) {
	type line struct {
		row
		ArchiveSize   int64
		ArchiveSHA256 string
	}
	return postgres.Select(ctx, s.DB, "reading workspaces", func(from pgx.CollectableRow) (Inspected, error) {
		l, err := postgres.RowToStruct[line](from)
		l.Home = l.HomeSize
		return Inspected{l.Workspace, l.ArchiveSize, l.ArchiveSHA256}, err
	}, inspectSQL+condition+`) w LEFT JOIN archives a ON a.workspace_id = w.id AND a.key = w.archive_key ORDER BY w.id`, args...)
}

// InspectAfter returns at most limit workspaces, deleted ones included, that follow after in the order of their
// ids; an empty after starts at the beginning.
func (s *Store) InspectAfter(ctx context.Context, after workspace.ID, limit int) ([]Inspected, error) {
	return s.inspect(ctx, `id > $1 ORDER BY id LIMIT $2`, string(cmp.Or(after, noID)), limit)
}

// Inspect returns one workspace, or none.
func (s *Store) Inspect(ctx context.Context, id workspace.ID) ([]Inspected, error) {
	return s.inspect(ctx, `id = $1`, string(id))
}
