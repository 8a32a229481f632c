package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Unused is a running workspace that was not used recently.
type Unused struct {
	ID workspace.ID
	// UsedAt is its last use or its start. While the owner keeps the workspace awake, UsedAt is instead the time of a
	// use that would have kept it awake for just as long.
	UsedAt time.Time
	// QuietSince is its last use or its start.
	QuietSince time.Time
	// KeepAwakeUntil and DozeAt are those of [workspace.Workspace].
	KeepAwakeUntil, DozeAt time.Time
	// Endpoint and BasePath are where its application answers.
	Endpoint, BasePath string
	// Busy and SleepAt are the last values that [Store.Announce] wrote.
	Busy    *workspace.Busy
	SleepAt time.Time
	// Unreadable is that of [workspace.Workspace].
	Unreadable error `db:"-"`
}

// MarkUnreadable sets Unreadable.
func (u *Unused) MarkUnreadable(err error) { u.Unreadable = err }

const (
	// usedAt is the time from which the @ttl is counted. Keeping a workspace awake has the same effect as a later use.
	usedAt = `GREATEST(last_access_at, phase_changed_at, keep_awake_until - @ttl::interval)`
	// quietSince is the key of the index of running workspaces.
	quietSince = `GREATEST(last_access_at, phase_changed_at)`
	// runs is the condition for putting a workspace to sleep.
	runs = `phase = 'RUNNING' AND operation = 'NONE' AND deleted_at IS NULL AND desired_state = 'RUNNING'`

	// frozen is the condition that the container was frozen when the controller last observed it. A workspace that
	// should doze may have a container that is not frozen yet, or that cannot be frozen.
	frozen = `(conditions #>> '{infra.dozing,status}') IS NOT DISTINCT FROM 'True'`
	// dozing selects the workspaces whose memory can be freed without anyone noticing.
	dozing = `doze_at IS NOT NULL AND ` + runs

	longestDozingSQL = `
		SELECT id FROM workspaces WHERE ` + dozing + ` ORDER BY doze_at, id
		LIMIT GREATEST(0, @limit::bigint - (SELECT count(*) FROM workspaces
			WHERE in_transition AND phase = 'RUNNING' AND desired_state = 'STANDBY' AND deleted_at IS NULL))`

	unusedSQL = `
		SELECT now(), id, ` + usedAt + ` AS used_at, ` + quietSince + ` AS quiet_since,
			keep_awake_until, doze_at, endpoint, base_path, busy, sleep_at
		FROM workspaces
		WHERE ` + runs + `
			AND ` + quietSince + ` < now() - @idle::interval AND ` + usedAt + ` < now() - @idle::interval
			AND (` + quietSince + `, id) > (@after, @after_id::uuid)
		ORDER BY ` + quietSince + `, id LIMIT @limit`

	// announceSQL locks the rows in the order of their ids, so that two concurrent calls cannot deadlock.
	announceSQL = `
		WITH fence AS (
			SELECT FROM system_locks WHERE lock_name = @lock AND epoch = @epoch FOR SHARE
		), found AS (
			SELECT w.id, v.busy, v.sleep_at
			FROM fence, unnest(@ids::uuid[], @used_at::timestamptz[], @busy::text[], @sleep_at::timestamptz[])
				AS v (id, used_at, busy, sleep_at)
			JOIN workspaces w USING (id)
			WHERE ` + runs + ` AND ` + usedAt + ` = v.used_at
			ORDER BY w.id
			FOR UPDATE OF w
		)
		UPDATE workspaces w SET busy = found.busy::jsonb, sleep_at = found.sleep_at FROM found WHERE w.id = found.id`
)

// Unused returns the running workspaces that are meant to run and were neither used nor started within idle, the
// longest unused first. It also returns the database's time. It returns at most limit workspaces, beginning with the
// first one that follows the workspace after; the zero value starts at the beginning. ttl is used to compute
// [Unused.UsedAt].
func (s *Store) Unused(ctx context.Context, ttl, idle time.Duration, after Unused, limit int) (
	all []Unused, now time.Time, err error) {
	from := after.QuietSince
	if from.IsZero() {
		from = time.Unix(0, 0)
	}
	rows, err := postgres.Select(ctx, s.DB, "reading unused workspaces", postgres.RowToStruct[struct {
		Now time.Time
		Unused
	}], unusedSQL, postgres.Args{
		"ttl": ttl, "idle": idle, "after": from, "after_id": string(cmp.Or(after.ID, noID)), "limit": limit,
	})
	for _, r := range rows {
		all, now = append(all, r.Unused), r.Now
	}
	return all, now, err
}

// LongestDozing returns dozing workspaces without an operation in progress. Those that have dozed for longest come
// first, because they give up their memory first. It returns at most limit of them, minus the number of workspaces that
// are already on their way from RUNNING to STANDBY, because those will free memory, too.
func (s *Store) LongestDozing(ctx context.Context, limit int) ([]workspace.ID, error) {
	return s.ids(ctx, "reading the workspaces that doze longest", longestDozingSQL, postgres.Args{"limit": limit})
}

// Announce writes Busy and SleepAt of the workspaces. It skips those that were used or changed since [Store.Unused]
// returned them, and skips all if the epoch is no longer f's.
func (s *Store) Announce(ctx context.Context, f postgres.Fence, ttl time.Duration, all []Unused) error {
	if len(all) == 0 {
		return nil
	}
	ids, used := make([]string, len(all)), make([]time.Time, len(all))
	busy, sleep := make([]*string, len(all)), make([]*time.Time, len(all))
	for i, u := range all {
		ids[i], used[i], sleep[i] = string(u.ID), u.UsedAt, postgres.NullTime(u.SleepAt)
		if u.Busy != nil {
			text, err := json.Marshal(u.Busy)
			if err != nil {
				return fmt.Errorf("announcing that workspace %s is busy: %w", u.ID, err)
			}
			busy[i] = postgres.NullText(string(text))
		}
	}
	_, err := s.Exec(ctx, fmt.Sprintf("announcing when %d workspaces go to sleep", len(all)), announceSQL, postgres.Args{
		"lock": f.Lock, "epoch": f.Epoch, "ttl": ttl, "ids": ids, "used_at": used, "busy": busy, "sleep_at": sleep,
	})
	return err
}
