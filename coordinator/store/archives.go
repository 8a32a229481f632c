package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/tracing"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Archive is a row of the table of archives and describes one complete archive. The bucket is the truth: the
// table may lack archives that exist, and list ones that do not.
type Archive struct {
	WorkspaceID workspace.ID
	Key         string
	// Size is in bytes. Content is the total size of the regular files in the archive, Files the number of its
	// entries, and SHA256 its checksum. They are 0 or empty when unknown.
	Size      int64
	Content   int64 `db:"content_bytes"`
	Files     int64
	SHA256    string
	CreatedAt time.Time
	// VerifiedAt is when the whole archive was last read and found intact, CheckedAt when the scrub last read
	// it; zero if never. Damage describes the known damage; empty for none.
	VerifiedAt, CheckedAt time.Time
	Damage                string
	// SuspectedAt is when the scrub found damage that it has not confirmed or ruled out yet.
	SuspectedAt time.Time
}

// archiveColumns are the columns of an [Archive].
const archiveColumns = `a.workspace_id, a.key, a.size, a.content_bytes, a.files, a.sha256, a.created_at,
	a.verified_at, a.checked_at, a.damage, a.suspected_at`

func (s *Store) archives(ctx context.Context, doing, sql string, args ...any) ([]Archive, error) {
	return postgres.Select(ctx, s.DB, doing, postgres.RowToStruct[Archive], sql, args...)
}

// Archives returns the rows of a workspace's archives, the newest first.
func (s *Store) Archives(ctx context.Context, id workspace.ID) ([]Archive, error) {
	return s.archives(ctx, "reading the archives of workspace "+string(id),
		`SELECT `+archiveColumns+` FROM archives a WHERE workspace_id = $1 ORDER BY created_at DESC, key`, string(id))
}

// addArchivesSQL skips archives of workspaces without a row, and archives that have a row already.
const addArchivesSQL = `
	INSERT INTO archives (workspace_id, key, size, created_at)
	SELECT n.id, n.key, n.size, n.at
	FROM unnest($1::uuid[], $2::text[], $3::bigint[], $4::timestamptz[]) AS n (id, key, size, at)
	WHERE EXISTS (SELECT FROM workspaces w WHERE w.id = n.id)
		AND NOT EXISTS (SELECT FROM archives a WHERE a.workspace_id = n.id AND a.key = n.key)
	ON CONFLICT DO NOTHING`

// AddArchives adds rows for archives found in a listing of the bucket. It leaves existing rows as they are.
func (s *Store) AddArchives(ctx context.Context, found []Archive) error {
	ids, keys := make([]string, len(found)), make([]string, len(found))
	sizes, dates := make([]int64, len(found)), make([]time.Time, len(found))
	for i, a := range found {
		ids[i], keys[i], sizes[i], dates[i] = string(a.WorkspaceID), a.Key, a.Size, a.CreatedAt
	}
	_, err := s.Exec(ctx, "recording archives", addArchivesSQL, ids, keys, sizes, dates)
	return err
}

// RemoveArchives removes the rows of archives that are about to be deleted.
func (s *Store) RemoveArchives(ctx context.Context, keys []string) error {
	// The key begins with the workspace's id, by which the rows are found.
	_, err := s.Exec(ctx, "removing deleted archives", `
		DELETE FROM archives a USING unnest($1::text[]) AS gone (key)
		WHERE a.workspace_id = split_part(gone.key, '/', 1)::uuid AND a.key = gone.key`, keys)
	return err
}

const suspectSQL = `SELECT ` + archiveColumns + ` FROM archives a WHERE a.suspected_at < now() - $1::interval
	ORDER BY a.suspected_at LIMIT 1`

const nextArchiveSQL = `SELECT ` + archiveColumns + ` FROM archives a
	WHERE a.suspected_at IS NULL
		AND (GREATEST(a.verified_at, a.checked_at) IS NULL
			OR GREATEST(a.verified_at, a.checked_at) < now() - $1::interval)
		AND ` + ofWorkspace + `
	ORDER BY GREATEST(a.verified_at, a.checked_at) NULLS FIRST LIMIT 1`

// NextArchive returns the archive to read next: one that has been suspected for at least the time suspected, or else
// the archive that was read longest ago, if that was at least age ago. Archives that were never read come first. Of
// deleted workspaces only suspected archives are read. ok is false when there is nothing to read.
func (s *Store) NextArchive(ctx context.Context, suspected, age time.Duration) (a Archive, ok bool, err error) {
	const doing = "looking for an archive to verify"
	found, err := s.archives(ctx, doing, suspectSQL, suspected)
	if err == nil && len(found) == 0 {
		found, err = s.archives(ctx, doing, nextArchiveSQL, age)
	}
	return one(found, err)
}

// LastCheck returns how long ago the scrub last read an archive, and that archive's size. ago is negative if
// the scrub has never read one.
func (s *Store) LastCheck(ctx context.Context) (ago time.Duration, size int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT now() - checked_at, size FROM archives
		WHERE checked_at IS NOT NULL ORDER BY checked_at DESC LIMIT 1`).Scan(&ago, &size)
	if errors.Is(err, pgx.ErrNoRows) {
		return -1, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("reading when an archive was verified last: %w", err)
	}
	return ago, size, nil
}

// checkedSQL records the result of reading an archive, unless a job has recorded a newer one since the scrub began,
// @took ago. The first finding of damage is a suspicion. If the second attempt cannot read the archive, the archive
// waits for another turn, and other archives are read first. A request to read the archive immediately stays in force
// until the second look. A missing archive that is not the current one loses its row.
const checkedSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = @lock AND epoch = @epoch FOR SHARE
), row AS (
	SELECT a.workspace_id, a.key, a.suspected_at IS NOT NULL AND NOT @unknown AS confirmed,
		@missing AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = a.workspace_id AND w.archive_key = a.key) AS gone
	FROM archives a, fence
	WHERE a.workspace_id = @id AND a.key = @key AND (a.verified_at IS NULL OR a.verified_at < now() - @took::interval)
	FOR UPDATE OF a
), removed AS (
	DELETE FROM archives a USING row
	WHERE a.workspace_id = row.workspace_id AND a.key = row.key AND row.confirmed AND row.gone
), checked AS (
	UPDATE archives a SET checked_at = now(),
		verified_at = CASE WHEN @damage::text IS NULL AND NOT @unknown THEN now() - @took::interval
			ELSE a.verified_at END,
		damage = CASE WHEN @damage IS NULL AND NOT @unknown THEN NULL WHEN row.confirmed THEN @damage ELSE a.damage END,
		suspected_at = CASE WHEN @unknown THEN CASE WHEN a.suspected_at IS NOT NULL THEN now() END
			WHEN @damage IS NULL OR row.confirmed THEN NULL ELSE now() END,
		requested_at = CASE WHEN @damage IS NOT NULL AND NOT @unknown AND NOT row.confirmed THEN a.requested_at END,
		size = CASE WHEN @size::bigint > 0 THEN @size ELSE a.size END,
		sha256 = CASE WHEN @damage IS NULL THEN COALESCE(@sha256, a.sha256) ELSE a.sha256 END
	FROM row WHERE a.workspace_id = row.workspace_id AND a.key = row.key AND NOT (row.confirmed AND row.gone)
	RETURNING a.workspace_id, a.key, a.verified_at, a.damage, a.suspected_at IS NOT NULL AS suspected
), shown AS (
	UPDATE workspaces w SET archive_damage = c.damage, archive_verified_at = c.verified_at,
		archive_suspected = c.suspected
	FROM checked c WHERE w.id = c.workspace_id AND w.archive_key = c.key
		AND (w.archive_damage, w.archive_verified_at, w.archive_suspected)
			IS DISTINCT FROM (c.damage, c.verified_at, c.suspected)
)
SELECT FROM row`

// Check is the result of reading an archive back.
type Check struct {
	// Damage is what is wrong with the archive; empty for nothing. Missing means that the archive does not exist.
	// Unknown means that it could not be read for another reason; then only the attempt is recorded.
	Damage           string
	Missing, Unknown bool
	// Size and SHA256 are those of the object; 0 and empty if they could not be determined.
	Size   int64
	SHA256 string
	// Took is the time since the reading began.
	Took time.Duration
}

// Checked records the result of reading an archive back, in the archive's row and, if it is the current one, in
// the workspace's. Damage is recorded only when it is found for the second time: the first finding only makes the
// archive suspected. Nothing is written, and recorded is false, if the epoch is no longer f's, if the archive was
// deleted, or if a storage job has read the whole archive in the meantime.
func (s *Store) Checked(ctx context.Context, f postgres.Fence, a Archive, c Check) (recorded bool, err error) {
	n, err := s.Exec(ctx, "recording the verification of archive "+a.Key, checkedSQL, postgres.Args{
		"lock": f.Lock, "epoch": f.Epoch, "id": string(a.WorkspaceID), "key": a.Key, "took": c.Took,
		"damage": postgres.NullText(c.Damage), "unknown": c.Unknown, "missing": c.Missing,
		"size": c.Size, "sha256": postgres.NullText(c.SHA256),
	})
	return n == 1, err
}

// ArchiveHealth describes the current archives of all workspaces that are not deleted.
type ArchiveHealth struct {
	// Current is how many workspaces have an archive. Damaged is how many of those archives are known to be
	// damaged or missing, and Unverified how many were never read back.
	Current, Damaged, Unverified int64
	// Oldest is the longest time since the verification of a current archive, or since its creation if it was
	// never verified. It is 0 without archives.
	Oldest time.Duration
}

// ArchiveHealth computes the health of the archives. It reads every workspace, so call it rarely.
func (s *Store) ArchiveHealth(ctx context.Context) (ArchiveHealth, error) {
	return postgres.SelectOne(ctx, s.DB, "reading the state of the archives", postgres.RowToStruct[ArchiveHealth], `
		SELECT count(*) AS current, count(*) FILTER (WHERE w.archive_damage IS NOT NULL) AS damaged,
			count(*) FILTER (WHERE w.archive_verified_at IS NULL) AS unverified,
			COALESCE(GREATEST(now() - min(COALESCE(w.archive_verified_at, a.created_at, w.created_at)), interval '0'),
				interval '0') AS oldest
		FROM workspaces w LEFT JOIN archives a ON a.workspace_id = w.id AND a.key = w.archive_key
		WHERE w.archive_key IS NOT NULL AND w.deleted_at IS NULL`)
}

// revertSQL decides and writes in one statement, like updateSQL. A dozing workspace runs again afterwards, so
// it needs a place.
const revertSQL = `
WITH w AS (
	SELECT id, name, owner_user_id, operation, phase, revert, home_ctx, archive_key, counted, revision, doze_at IS NOT NULL AS thaws
	FROM workspaces
	WHERE id = @id AND deleted_at IS NULL AND (@all OR owner_user_id = @user)
	FOR UPDATE
), decision AS (
	SELECT id, archive_key AS was, thaws, CASE
		WHEN ` + stale + ` THEN 'stale'
		WHEN operation <> 'NONE' OR phase NOT IN ('ARCHIVED', 'STANDBY', 'RUNNING')
			OR revert IS NOT NULL AND revert ->> 'id' IS DISTINCT FROM home_ctx ->> 'revert_id' THEN 'busy'
		WHEN phase = 'ARCHIVED' AND archive_key = @revert::jsonb ->> 'key' THEN 'unchanged'
		WHEN counted OR NOT thaws THEN 'changed'` + overLimit + `
		ELSE 'changed' END AS outcome
	FROM w
), written AS (
	UPDATE workspaces SET revert = @revert, origin = @origin::jsonb, doze_at = NULL, counted = counted OR thaws
	FROM decision WHERE workspaces.id = decision.id AND outcome = 'changed'
), history AS (
	INSERT INTO workspace_history (workspace_id, kind, old_value, new_value, cause, user_id)
	SELECT id, 'reverting', was, @revert::jsonb ->> 'key', @cause, @user FROM decision WHERE outcome = 'changed'
), audit AS (
	` + audit.OfWorkspaces + `'workspace.restore', jsonb_build_object('archive', @revert::jsonb ->> 'key')
	FROM w JOIN decision USING (id) WHERE outcome = 'changed'
)
SELECT outcome FROM decision`

// Revert writes the request to go back to an older archive, which the controller then carries out, and returns
// the workspace afterwards. The outcome is [Busy] while an operation or another revert is in progress, or if
// the phase is not the desired one yet. It is [Unchanged] if that archive is the current one and there is no
// volume. It is a limit if the workspace dozes and no place is free. Revert returns [ErrNotFound] like
// [Store.Update].
func (s *Store) Revert(ctx context.Context, v Viewer, id workspace.ID, r workspace.Revert, l Limits) (
	workspace.Workspace, Outcome, error) {
	return s.change(ctx, "going back to archive "+r.Key, true, id, revertSQL, postgres.Args{
		"per_user": l.PerUser, "global": l.Global,
		"id": string(id), "all": v.All, "user": postgres.NullText(v.UserID), "revert": r, "cause": v.Through,
		"by": audit.Of(ctx), "origin": tracing.Origin(ctx), "if_revision": v.IfRevision,
	})
}
