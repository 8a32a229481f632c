package store

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Route is the part of a workspace's row that a gateway needs to serve it, and to tell which browsers and
// programs a change concerns. The fields mean the same as in [workspace.Workspace].
type Route struct {
	ID             workspace.ID
	OwnerID        string `db:"owner_user_id"`
	Name           string
	Phase          workspace.Phase
	Operation      workspace.Operation
	Desired        workspace.DesiredState `db:"desired_state"`
	Endpoint       string
	BasePath       string
	ImageRef       string
	KeepAwakeUntil time.Time
	Busy           *workspace.Busy
	SleepAt        time.Time
	DozeAt         time.Time
	PageActivity   workspace.PageActivity
	Progress       *workspace.JobProgress
	ErrorReason    workspace.ErrorReason
	ErrorMessage   string
	Waiting        *workspace.Waiting
	Deleted        bool // by its owner; the row remains
	PhaseChangedAt time.Time
	// InTransition means that the controller has work to do: an operation is in progress, or the phase is not
	// the desired one and nothing blocks the workspace.
	InTransition bool
	// Revision orders the answers about one workspace: the higher one is newer.
	Revision int64
}

// MarkUnreadable records an error like that of [workspace.Workspace]: users are told that the row is
// unreadable, and no request is routed elsewhere.
func (r *Route) MarkUnreadable(err error) { r.Waiting = workspace.InternalError(err, r.PhaseChangedAt) }

// routeColumns are the columns of a [Route].
const routeColumns = `id, owner_user_id, name, phase, operation, desired_state, endpoint, base_path, image_ref,
	keep_awake_until, busy, sleep_at, doze_at, page_activity, progress, error_reason, error_message, waiting,
	deleted_at IS NOT NULL AS deleted, phase_changed_at, in_transition, revision`

// Routes returns the routes of ids, deleted ones included, in no particular order. Ids without a row are
// omitted.
func (s *Store) Routes(ctx context.Context, ids []workspace.ID) ([]Route, error) {
	return s.routes(ctx, "reading routes",
		`SELECT `+routeColumns+` FROM workspaces WHERE id = ANY($1::uuid[])`, texts(ids))
}

const awakeRoutesSQL = `SELECT ` + routeColumns + ` FROM workspaces
	WHERE watched AND deleted_at IS NULL AND id > $1::uuid ORDER BY id LIMIT $2`

// AwakeRoutes returns at most limit routes that follow the given id, in the order of the ids; an empty id
// starts at the beginning. They are the workspaces that a tick observes and that are not deleted: all that run,
// should run or have an operation in progress, and few others. It reads no row of a sleeping workspace.
func (s *Store) AwakeRoutes(ctx context.Context, after workspace.ID, limit int) ([]Route, error) {
	return s.routes(ctx, "reading the workspaces that are awake", awakeRoutesSQL, string(cmp.Or(after, noID)), limit)
}

const changesSinceSQL = `SELECT ` + routeColumns + ` FROM workspaces WHERE revision > $1 ORDER BY revision LIMIT $2`

// ChangesSince returns at most limit workspaces whose last change has a higher revision than the given one, the
// lowest first. A transaction takes its revision before it commits, so a lower revision may still appear later:
// see package changes.
func (s *Store) ChangesSince(ctx context.Context, revision int64, limit int) ([]Route, error) {
	return s.routes(ctx, "reading what has changed", changesSinceSQL, revision, limit)
}

func (s *Store) routes(ctx context.Context, doing, sql string, args ...any) ([]Route, error) {
	return postgres.Select(ctx, s.DB, doing, postgres.RowToStruct[Route], sql, args...)
}

// Position is the database's current place in the sequence of revisions.
type Position struct {
	// Revision is the last revision that any transaction has taken, whether it has committed or not.
	Revision int64
	// Timeline changes when another server takes over or a backup is restored. Rows read before that may never
	// have been committed, and the same revisions may be used again.
	Timeline string
	// Origin changes with the timeline, and also when the server starts or the table is restored: earlier
	// transactions may then never have happened, and their ids may be used again. It is not shown to anyone.
	Origin string
	// Oldest and Next are transaction ids, which PostgreSQL assigns at a transaction's first write. All
	// transactions before Oldest have ended, and those that get an id after this position was read get Next or
	// a later one. An update takes its revision after its transaction got an id.
	Oldest, Next uint64
}

// Position returns the present position. The timeline is the first part of the name of a WAL file. A standby
// server has no position: the query fails there.
func (s *Store) Position(ctx context.Context) (Position, error) {
	var p Position
	var afterLast uint64
	var age int32
	err := s.pool.QueryRow(ctx, `SELECT last_value, left(pg_walfile_name(pg_current_wal_lsn()), 8),
		pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
		age('3'::xid), concat_ws('/', left(pg_walfile_name(pg_current_wal_lsn()), 8),
			extract(epoch FROM pg_postmaster_start_time()), pg_relation_filenode('workspaces'))
		FROM workspace_revision`).
		Scan(&p.Revision, &p.Timeline, &p.Oldest, &afterLast, &age, &p.Origin)
	if err != nil {
		return Position{}, fmt.Errorf("reading the last revision: %w", err)
	}
	// A snapshot gives the id after the last transaction that has ended; others may be in progress. PostgreSQL counts
	// an age from the next id, so an age yields that id's lower half.
	p.Next = afterLast + uint64(uint32(age)+3-uint32(afterLast))
	return p, nil
}

// maxAge limits how many transactions may have begun since a position. Beyond that, [Store.OwnedSince] cannot tell
// which transactions came later.
const maxAge = 1 << 31

// Follows reports whether the changes between the position before and p can be determined.
func (p Position) Follows(before Position) bool {
	return p.Origin == before.Origin && before.Oldest <= p.Oldest && p.Next-before.Oldest < maxAge
}

// A row holds the lower half of the id of the transaction that wrote it. Comparing two such halves is right if the ids
// are less than half of the range apart. Otherwise some older rows are read needlessly.
const (
	ownedSinceSQL = `(` + ofOwnerSince + `deleted_at IS NULL) UNION ALL (` + ofOwnerSince + `deleted_at IS NOT NULL)
		ORDER BY id LIMIT $4`
	ofOwnerSince = `SELECT ` + workspaceColumns + ` FROM workspaces
		WHERE owner_user_id = $1 AND age(xmin) <= age($2::text::xid) AND id > $3::uuid AND `
)

// OwnedSince returns the owner's workspaces, deleted ones included, that were written by a transaction that had
// not ended at position p, regardless of their revision. It returns at most limit workspaces whose ids follow after, in
// the order of their ids; an empty after starts at the beginning. The present position MUST follow p.
func (s *Store) OwnedSince(ctx context.Context, owner string, p Position, after workspace.ID, limit int) (
	[]workspace.Workspace, error,
) {
	return s.workspaces(ctx, "reading the workspaces of a user that have changed", ownedSinceSQL,
		owner, strconv.FormatUint(uint64(uint32(p.Oldest)), 10), string(cmp.Or(after, noID)), limit)
}
