package store

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// ofWorkspace is the condition for reading an archive back: its workspace is not deleted.
const ofWorkspace = `EXISTS (SELECT FROM workspaces w WHERE w.id = a.workspace_id AND w.deleted_at IS NULL)`

// Scrub counts the archives to read back (SPEC 7): those of workspaces that are not deleted.
type Scrub struct {
	Archives, Bytes int64
	// Unread counts those that were never read back. OldestRead is the earliest of the times at which the archives were
	// last read back; zero if none ever was.
	Unread     int64
	OldestRead time.Time
	// Left counts the archives that an administrator has asked to be read back now and that have not been read since.
	Left, LeftBytes int64
}

// Scrub counts the archives. It reads every archive's row.
func (s *Store) Scrub(ctx context.Context) (Scrub, error) {
	return postgres.SelectOne(ctx, s.DB, "counting the archives to read back", postgres.RowToStruct[Scrub], `
		SELECT count(*) AS archives, COALESCE(sum(size), 0)::bigint AS bytes,
			count(*) FILTER (WHERE GREATEST(verified_at, checked_at) IS NULL) AS unread,
			min(GREATEST(verified_at, checked_at)) AS oldest_read,
			count(*) FILTER (WHERE requested_at IS NOT NULL) AS left,
			COALESCE(sum(size) FILTER (WHERE requested_at IS NOT NULL), 0)::bigint AS left_bytes
		FROM archives a WHERE `+ofWorkspace)
}

// RequestScrub asks the leader to read back all of these archives now. Earlier requests that are still open
// stay as they are: nothing is read twice.
func (s *Store) RequestScrub(ctx context.Context) error {
	_, err := s.Exec(ctx, "asking to read archives back", `
		WITH requested AS (
			UPDATE archives a SET requested_at = now() WHERE requested_at IS NULL AND `+ofWorkspace+` RETURNING key
		)
		`+audit.OfSystem+`'system.scrub', jsonb_build_object('archives', (SELECT count(*) FROM requested))`,
		postgres.Args{"by": audit.Of(ctx)})
	return err
}

// RequestedArchive returns an archive that is due because of [Store.RequestScrub]: it has not been read since the
// request. A suspected archive is due only once it has been suspected for at least the given time. ok is false when
// there is none.
func (s *Store) RequestedArchive(ctx context.Context, suspected time.Duration) (a Archive, ok bool, err error) {
	return one(s.archives(ctx, "looking for an archive that is to be read now", `
		SELECT `+archiveColumns+` FROM archives a
		WHERE a.requested_at IS NOT NULL AND (a.suspected_at IS NULL OR a.suspected_at < now() - $1::interval)
		ORDER BY a.key LIMIT 1`, suspected))
}

func one(found []Archive, err error) (a Archive, ok bool, _ error) {
	if err != nil || len(found) == 0 {
		return Archive{}, false, err
	}
	return found[0], true, nil
}
