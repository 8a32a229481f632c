package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// unmeasuredSQL finds sleeping homes first, because they do not change any more.
const unmeasuredSQL = `
(SELECT id FROM workspaces
	WHERE @asleep AND phase = 'STANDBY' AND deleted_at IS NULL AND operation = 'NONE' AND desired_state = 'STANDBY'
		AND ` + inShard + ` AND phase_changed_at < now() - @settled::interval
		AND (home_measured_at IS NULL OR home_measured_at < phase_changed_at)
	ORDER BY phase_changed_at LIMIT @limit)
UNION ALL
(SELECT id FROM workspaces
	WHERE phase = 'RUNNING' AND deleted_at IS NULL AND operation = 'NONE' AND ` + inShard + `
		AND phase_changed_at < now() - @settled::interval
		AND (home_measured_at IS NULL OR home_measured_at < now() - @age::interval)
	ORDER BY home_measured_at NULLS FIRST LIMIT @limit)
LIMIT @limit`

// UnmeasuredHomes returns at most limit workspaces of a shard whose homes need measuring: those that have been
// running for at least settled and whose last measurement is older than age. With asleep, it also returns workspaces
// that have been asleep for at least settled and have not been measured since they fell asleep.
func (s *Store) UnmeasuredHomes(ctx context.Context, shard, shards int, settled, age time.Duration, asleep bool,
	limit int,
) ([]workspace.ID, error) {
	return s.ids(ctx, "reading workspaces whose homes are to be measured", unmeasuredSQL, postgres.Args{
		"shard": shard, "shards": shards, "settled": settled, "age": age, "asleep": asleep, "limit": limit,
	})
}

const saveHomeSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = @lock AND epoch = @epoch FOR SHARE
)
UPDATE workspaces w
SET home_bytes = @bytes, home_files = @files, home_at_least = @at_least, home_measured_at = @measured_at
FROM fence
WHERE w.id = @id AND w.phase IN ('STANDBY', 'RUNNING') AND w.deleted_at IS NULL
	AND (w.home_measured_at IS NULL OR w.home_measured_at < @measured_at)`

// SaveHome writes the size of the home of a workspace that has one, and reports whether it did. It does not if
// a newer size is known or the epoch is no longer f's. The size is one of the controller's columns (SPEC 4).
func (s *Store) SaveHome(ctx context.Context, f postgres.Fence, id workspace.ID, h workspace.HomeSize) (bool, error) {
	n, err := s.Exec(ctx, "saving the size of the home of workspace "+string(id), saveHomeSQL, postgres.Args{
		"lock": f.Lock, "epoch": f.Epoch, "id": string(id),
		"bytes": h.Bytes, "files": h.Files, "at_least": h.AtLeast, "measured_at": h.MeasuredAt,
	})
	return n == 1, err
}

// LongestAsleep returns at most limit workspaces that have been in STANDBY for longer than asleep, are meant to
// be and wait for nothing. The longest asleep come first: they give up their disk first.
func (s *Store) LongestAsleep(ctx context.Context, asleep time.Duration, limit int) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the workspaces that sleep longest",
		`SELECT id FROM workspaces WHERE `+expiredStandby+` AND waiting IS NULL ORDER BY phase_changed_at LIMIT @limit`,
		postgres.Args{"ttl": asleep, "limit": limit})
}

// SleepingImages returns at most limit distinct image_ref values of the workspaces in STANDBY, the most recently asleep
// first. An empty one means the default image.
func (s *Store) SleepingImages(ctx context.Context, limit int) ([]string, error) {
	return postgres.Select(ctx, s.DB, "reading the images of the workspaces in STANDBY", pgx.RowTo[string],
		`SELECT COALESCE(image_ref, '') FROM workspaces
			WHERE phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL
			GROUP BY 1 ORDER BY max(phase_changed_at) DESC LIMIT $1`, limit)
}

// Leaving describes the homes that are being moved from the disk to archives.
type Leaving struct {
	// Workspaces is the number of workspaces in STANDBY that are on their way to ARCHIVED. Bytes is the total size of
	// their homes, as far as it is known. Failed archivings do not count. Archivings that wait for the object store do
	// count: archiving other workspaces instead would not help, because they would wait for it, too.
	Workspaces int
	Bytes      int64
}

// LeavingDisk returns the homes on their way from the disk to archives.
func (s *Store) LeavingDisk(ctx context.Context) (Leaving, error) {
	return postgres.SelectOne(ctx, s.DB, "counting the workspaces that are being archived", postgres.RowToStruct[Leaving], `
		SELECT count(*) AS workspaces, COALESCE(sum(home_bytes), 0)::bigint AS bytes FROM workspaces
		WHERE watched AND phase = 'STANDBY' AND desired_state = 'ARCHIVED' AND deleted_at IS NULL
			AND waiting->>'reason' IS DISTINCT FROM $1`, workspace.WaitArchiveFailed)
}
