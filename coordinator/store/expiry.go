package store

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// usedSQL selects the workspaces whose last use or last input is more recent than their rows say.
const usedSQL = `
			SELECT w.id, u.at, u.input_at, w.doze_at
			FROM (SELECT id, now() - make_interval(secs => age) AS at, now() - make_interval(secs => input) AS input_at
				FROM unnest($1::uuid[], $2::float8[], $3::float8[]) AS v (id, age, input)) AS u
			JOIN workspaces w ON w.id = u.id
			WHERE w.deleted_at IS NULL AND (w.last_access_at IS NULL OR w.last_access_at < u.at - interval '1 second'
				OR COALESCE(w.last_input_at, '-infinity') < u.input_at - interval '1 second')
			ORDER BY w.id`

// usedArgs are the arguments of usedSQL.
func usedArgs(ages, inputs map[workspace.ID]time.Duration) []any {
	ids, seconds, input := make([]string, 0, len(ages)), make([]float64, 0, len(ages)), make([]*float64, 0, len(ages))
	for id, age := range ages {
		ids, seconds, input = append(ids, string(id)), append(seconds, max(age, 0).Seconds()), append(input, nil)
		if age, known := inputs[id]; known {
			input[len(input)-1] = new(max(age, 0).Seconds())
		}
	}
	return []any{ids, seconds, input}
}

// TouchLastAccess moves last_access_at forward to the times that are the given ages ago. It never moves it back or
// beyond the present. PostgreSQL subtracts the ages from its own time, so that no other machine's clock matters.
// Differences below a second are ignored: an age is reported repeatedly for some minutes, and must not rewrite the row
// each time. Unknown and deleted workspaces are ignored. last_input_at moves in the same way, by the ages in inputs. A
// use ends a doze; a workspace that has given up its place then goes to STANDBY: see [Limited].
func (s *Store) TouchLastAccess(ctx context.Context, ages, inputs map[workspace.ID]time.Duration) error {
	if len(ages) == 0 {
		return nil
	}
	// The rows are locked in the order of their ids, so that two concurrent calls cannot deadlock.
	_, err := s.Exec(ctx, fmt.Sprintf("writing the last access of %d workspaces", len(ages)), `
		WITH used AS (`+usedSQL+` FOR UPDATE OF w)
		UPDATE workspaces w SET last_access_at = GREATEST(w.last_access_at, used.at),
			last_input_at = GREATEST(w.last_input_at, used.input_at)
		FROM used WHERE w.id = used.id`,
		usedArgs(ages, inputs)...)
	return err
}

// expiredStandby is the condition of expiry in STANDBY. The TTL runner finds workspaces with it, and
// [Store.ExpireStandby] checks it again when it writes.
const (
	expiredStandby = `phase = 'STANDBY' AND operation = 'NONE' AND deleted_at IS NULL AND desired_state = 'STANDBY'
		AND phase_changed_at < now() - @ttl::interval`

	expiredStandbySQL = `SELECT id FROM workspaces WHERE ` + expiredStandby + ` ORDER BY phase_changed_at LIMIT @limit`
)

// ExpiredStandby returns at most limit workspaces that have been in STANDBY for longer than ttl and are meant
// to be, the longest first. The database's clock decides.
func (s *Store) ExpiredStandby(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error) {
	return s.ids(ctx, "reading workspaces long in standby", expiredStandbySQL,
		postgres.Args{"ttl": ttl, "limit": limit})
}
