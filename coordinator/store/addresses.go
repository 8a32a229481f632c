package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Pool is a range of addresses that a backend gives to containers by number. If pools with the same name overlap, they
// share the common addresses. So a range may grow, shrink or move.
type Pool struct {
	Name        string
	First, Size int64
}

// Errors of [Store.TakeAddress].
var (
	// ErrNoAddress: every address of the pool is in use, or was in use until a moment ago.
	ErrNoAddress = errors.New("no address is free")
	// ErrDeposed: the fence is not the newest of its lock.
	ErrDeposed = errors.New("another process is the leader now")
)

// free is the condition that no process can still have a route to the address a. @quarantine is how long a process may
// keep a route. A workspace with an endpoint, or with an operation that may give it one, still uses its address. The
// engine itself refuses an address at which a container runs.
const free = `a.used_at < clock_timestamp() - @quarantine::interval AND NOT EXISTS (
	SELECT FROM workspaces w WHERE w.id = a.workspace_id AND (w.endpoint IS NOT NULL OR w.operation <> 'NONE'))`

// takeAddressSQL prefers the workspace's own address, then a random one that was never used, then the one that
// has been unused for the longest time. A restored database does not know which addresses were given out since
// the backup; the random choice makes a collision with them unlikely.
const takeAddressSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = @lock AND epoch = @epoch FOR SHARE
), chosen AS (
	SELECT COALESCE(
		(SELECT a.slot FROM workspace_addresses a
			WHERE a.workspace_id = @id AND a.pool = @pool AND a.slot BETWEEN @first AND @last
			ORDER BY a.used_at DESC LIMIT 1),
		(SELECT r.slot FROM (
				SELECT @first + floor(random() * (@last - @first + 1))::bigint AS slot FROM generate_series(1, 64)) r
			WHERE NOT EXISTS (SELECT FROM workspace_addresses a WHERE a.pool = @pool AND a.slot = r.slot) LIMIT 1),
		(SELECT a.slot FROM workspace_addresses a
			WHERE a.pool = @pool AND a.slot BETWEEN @first AND @last AND ` + free + `
			ORDER BY a.used_at LIMIT 1),
		(SELECT r.slot FROM generate_series(@first, @last) r (slot)
			WHERE NOT EXISTS (SELECT FROM workspace_addresses a WHERE a.pool = @pool AND a.slot = r.slot) LIMIT 1)
	) AS slot FROM fence
), taken AS (
	INSERT INTO workspace_addresses AS a (pool, slot, workspace_id, used_at)
	SELECT @pool, slot, @id, clock_timestamp() FROM chosen WHERE slot IS NOT NULL
	ON CONFLICT (pool, slot) DO UPDATE SET workspace_id = excluded.workspace_id, used_at = excluded.used_at
		WHERE a.workspace_id = excluded.workspace_id OR ` + free + `
	RETURNING a.slot
)
SELECT EXISTS (SELECT FROM fence), (SELECT slot FROM chosen), (SELECT slot FROM taken)`

// TakeAddress gives the workspace an address of the pool: its last one, or one that was never used, or one that
// has been unused for longer than the quarantine. No other workspace gets the address while this workspace has an
// endpoint or an operation in progress, nor during the quarantine after that. Leaders of several shards may call it at
// the same time. It returns [ErrNoAddress] or [ErrDeposed] (SPEC 8).
func (s *Store) TakeAddress(ctx context.Context, f postgres.Fence, id workspace.ID, p Pool, quarantine time.Duration) (
	slot int64, err error,
) {
	doing := fmt.Sprintf("taking an address for workspace %s", id)
	const tries = 10
	for range tries {
		var held bool
		var chosen, taken *int64
		err := s.pool.QueryRow(ctx, takeAddressSQL, postgres.Args{
			"lock": f.Lock, "epoch": f.Epoch, "id": string(id),
			"pool": p.Name, "first": p.First, "last": p.First + p.Size - 1, "quarantine": quarantine,
		}).Scan(&held, &chosen, &taken)
		switch {
		case err != nil:
			return 0, fmt.Errorf("%s: %w", doing, err)
		case !held:
			return 0, fmt.Errorf("%s: %w", doing, ErrDeposed)
		case chosen == nil:
			return 0, fmt.Errorf("%s: %w", doing, ErrNoAddress)
		case taken != nil:
			return *taken, nil
		}
		// Another leader took the chosen address at the same time.
	}
	return 0, fmt.Errorf("%s: other leaders took the chosen one %d times", doing, tries)
}

const dropAddressSQL = `
WITH fence AS (
	SELECT FROM system_locks WHERE lock_name = $1 AND epoch = $2 FOR SHARE
)
UPDATE workspace_addresses a SET workspace_id = NULL, used_at = clock_timestamp()
FROM fence WHERE a.pool = $4 AND a.slot = $5 AND a.workspace_id = $3`

// DropAddress takes an address back from the workspace because another container has it. The address is
// quarantined as if it had been used.
func (s *Store) DropAddress(ctx context.Context, f postgres.Fence, id workspace.ID, pool string, slot int64) error {
	_, err := s.Exec(ctx, "giving back the address of workspace "+string(id), dropAddressSQL, f.Lock, f.Epoch, string(id), pool, slot)
	return err
}
