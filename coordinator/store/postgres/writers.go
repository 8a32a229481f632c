package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// sessionLocks is the first key of the advisory locks that show which processes have a session; the second key is the
// hash of the instance. A lock with two keys never conflicts with the leader's locks, which have one.
const sessionLocks = 0x434f4445

// lockOf returns the condition that selects the session lock of an instance in pg_locks. The instance is given as an
// SQL expression.
func lockOf(instance string) string {
	return fmt.Sprintf(`locktype = 'advisory' AND objsubid = 2 AND granted AND classid = %d
		AND objid = (hashtext(%s)::bigint & 4294967295)::oid
		AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, sessionLocks, instance)
}

var (
	showSessionSQL = fmt.Sprintf(`SELECT pg_advisory_lock_shared(%d, hashtext($1))`, sessionLocks)

	writerFlushedSQL = `
		INSERT INTO activity_writers (instance, node_id, flushed_at, due_at, has_session)
		SELECT $1::uuid, $2, now() - make_interval(secs => $3), now() + make_interval(secs => $4),
			EXISTS (SELECT FROM pg_locks WHERE ` + lockOf(`$1::text`) + `)
		ON CONFLICT (instance) DO UPDATE SET node_id = EXCLUDED.node_id,
			flushed_at = EXCLUDED.flushed_at, due_at = EXCLUDED.due_at, has_session = EXCLUDED.has_session`

	writersSQL = `
		SELECT now(), w.instance, w.node_id, w.flushed_at, w.due_at < now() AS late, w.knows, w.has_session AND NOT EXISTS (
			SELECT FROM pg_locks WHERE ` + lockOf(`w.instance::text`) + `) AS gone
		FROM (SELECT) AS one LEFT JOIN activity_writers w ON true`

	// forgetWritersSQL deletes the rows of killed processes, long after anything needs them.
	forgetWritersSQL = `DELETE FROM activity_writers WHERE flushed_at < now() - interval '1 day'`
)

// Writer is a process that records activity, according to its last report.
type Writer struct {
	// Instance is unique, Node is the name in the configuration.
	Instance string
	Node     string `db:"node_id"`
	// FlushedAt is the time up to which all use seen by the process has been written.
	FlushedAt time.Time
	// Late means that it has not written again by the promised time.
	Late bool
	// Knows is the newest migration that it knows; 0 before migration 18.
	Knows int
	// Gone means that the process had a database session when it last wrote, and has none now: it was killed, or its
	// connection broke.
	Gone bool
}

// Writers lists the processes that record activity, as they were at the database's time Now.
type Writers struct {
	Now time.Time
	All []Writer
}

// showSession marks this process as present for as long as the connection lives: PostgreSQL notices immediately
// when a process is killed.
func (db *DB) showSession(ctx context.Context, conn *pgx.Conn) error {
	if _, err := conn.Exec(ctx, showSessionSQL, db.instance); err != nil {
		return fmt.Errorf("showing this process's session: %w", err)
	}
	return nil
}

// WriterFlushed records two facts: all use that this process saw until age ago is in Redis or in PostgreSQL, and the
// process will write again within due.
func (db *DB) WriterFlushed(ctx context.Context, node string, age, due time.Duration) error {
	_, err := db.Exec(ctx, "recording that the activity is written", writerFlushedSQL, db.instance, node, max(age, 0).Seconds(), due.Seconds())
	return err
}

// WriterGone records that this process has ended and has written everything.
func (db *DB) WriterGone(ctx context.Context) error {
	_, err := db.Exec(ctx, "recording that this process writes no more activity", `DELETE FROM activity_writers WHERE instance = $1`, db.instance)
	return err
}

// Writers returns the processes that record activity. It first deletes those that have written nothing for a
// day.
func (db *DB) Writers(ctx context.Context) (Writers, error) {
	const doing = "reading which processes have written their activity"
	if _, err := db.Exec(ctx, doing, forgetWritersSQL); err != nil {
		return Writers{}, err
	}
	rows, err := Select(ctx, db, doing, RowToStruct[struct {
		Now time.Time
		Writer
	}], writersSQL)
	if err != nil {
		return Writers{}, err
	}
	var out Writers
	for _, r := range rows {
		out.Now = r.Now
		if r.Instance != "" { // there is always one row, for the time
			out.All = append(out.All, r.Writer)
		}
	}
	return out, nil
}
