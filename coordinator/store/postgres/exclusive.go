package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// exclusiveSilence is how long the holder of an [Exclusive] may be silent before the server ends its session
// and lets another process take the lock. It is longer than one request to an object store takes, including retries.
const exclusiveSilence = 5 * time.Minute

// Exclusive is work that only one process of the installation does at a time, but any process may do. It holds an
// advisory lock on its own connection, and has its own epoch in system_locks. Unlike with the leadership, no process
// waits for it. Its methods are for one goroutine.
type Exclusive struct {
	conn  *pgx.Conn
	fence Fence
}

// LockGC is the name of the lock for collecting archives.
const LockGC = "gc"

// exclusiveKey is the key of the advisory lock for the work named $1.
const exclusiveKey = `hashtextextended('codehub ' || $1, 0)`

// BusyError means that another process is doing the work.
type BusyError struct {
	// Lock is the name of the work. Holder is the process that has been doing it since Since.
	Lock, Holder string
	Since        time.Time
}

// Error implements error.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s is being done already, by %s since %s", e.Lock, e.Holder, e.Since.UTC().Format(time.RFC3339))
}

// ErrNotExclusive means that another process may be doing the work by now.
var ErrNotExclusive = errors.New("another process may be doing this by now")

// TryExclusive begins the work called name on behalf of holder. If it is being done already, the error is a
// [*BusyError]. The caller MUST call [Exclusive.End].
func (db *DB) TryExclusive(ctx context.Context, name, holder string) (*Exclusive, error) {
	conn, err := pgx.ConnectConfig(ctx, db.ConnConfig())
	if err != nil {
		return nil, fmt.Errorf("connecting for the lock of %s: %w", name, err)
	}
	x := &Exclusive{conn: conn, fence: Fence{Lock: name}}
	if err := x.begin(ctx, holder); err != nil {
		x.End(ctx)
		return nil, err
	}
	return x, nil
}

// begin takes the lock, whose key is derived from its name, and writes the epoch.
func (x *Exclusive) begin(ctx context.Context, holder string) error {
	name := x.fence.Lock
	if _, err := x.conn.Exec(ctx, "SELECT set_config('idle_session_timeout', $1, false), "+
		"set_config('application_name', $2, false)",
		fmt.Sprint(exclusiveSilence.Milliseconds()), "codehub "+name+" "+holder); err != nil {
		return fmt.Errorf("bounding the silence of the lock of %s: %w", name, err)
	}
	var locked bool
	if err := x.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock("+exclusiveKey+")", name).Scan(&locked); err != nil {
		return fmt.Errorf("taking the lock of %s: %w", name, err)
	}
	if !locked {
		busy := &BusyError{Lock: name, Holder: "another process"}
		err := x.conn.QueryRow(ctx, "SELECT holder_id, acquired_at FROM system_locks WHERE lock_name = $1", name).
			Scan(&busy.Holder, &busy.Since)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return fmt.Errorf("reading who holds the lock of %s: %w", name, err)
		}
		return busy
	}
	if err := x.conn.QueryRow(ctx, nextEpochSQL, name, holder).Scan(&x.fence.Epoch); err != nil {
		return fmt.Errorf("beginning the epoch of %s: %w", name, err)
	}
	return nil
}

// nextEpochSQL writes the next epoch of a lock that this session holds.
const nextEpochSQL = `
INSERT INTO system_locks AS l (lock_name, holder_id, epoch, acquired_at) VALUES ($1, $2, 1, now())
ON CONFLICT (lock_name) DO UPDATE SET holder_id = excluded.holder_id, epoch = l.epoch + 1, acquired_at = now()
RETURNING epoch`

// WhileIdle calls f while no process does the work called name, and lets no process begin it until f has returned. The
// next process to begin it then sees the rows that f has written. If the work is in progress, WhileIdle returns false
// and does not call f.
func (db *DB) WhileIdle(ctx context.Context, name string, f func() error) (idle bool, err error) {
	conn, err := pgx.ConnectConfig(ctx, db.ConnConfig())
	if err != nil {
		return false, fmt.Errorf("connecting for the lock of %s: %w", name, err)
	}
	x := &Exclusive{conn: conn}
	defer x.End(ctx)
	if err := conn.QueryRow(ctx, "SELECT pg_try_advisory_lock_shared("+exclusiveKey+")", name).Scan(&idle); err != nil {
		return false, fmt.Errorf("looking whether %s is being done: %w", name, err)
	}
	if !idle {
		return false, nil
	}
	return true, f()
}

// Fence returns the condition for the writes of this work.
func (x *Exclusive) Fence() Fence { return x.fence }

// Check returns nil while no other process does the work, and keeps the session alive. It uses the connection
// that holds the lock, so that it notices if the connection is lost.
func (x *Exclusive) Check(ctx context.Context) error {
	var epoch int64
	err := x.conn.QueryRow(ctx, "SELECT epoch FROM system_locks WHERE lock_name = $1", x.fence.Lock).Scan(&epoch)
	if err != nil {
		return fmt.Errorf("checking the lock of %s: %w: %w", x.fence.Lock, ErrNotExclusive, err)
	}
	if epoch != x.fence.Epoch {
		return fmt.Errorf("checking the lock of %s: %w", x.fence.Lock, ErrNotExclusive)
	}
	return nil
}

// End ends the work. It also works after ctx has ended. If the server does not answer, the lock is released when the
// server notices that the connection is closed.
func (x *Exclusive) End(ctx context.Context) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	// The server notices some time later that a connection was closed.
	_, _ = x.conn.Exec(closing, "SELECT pg_advisory_unlock_all()")
	_ = x.conn.Close(closing)
}
