package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
)

const (
	// lockLimit is how long a migration waits for one lock before it gives way. Meanwhile, every statement that needs
	// the same table waits behind it.
	lockLimit = 200 * time.Millisecond
	// vacuumLimit is the same if only automatic vacuuming holds the lock. An automatic vacuum gives way to a session
	// that has waited for one second, the server's deadlock_timeout.
	vacuumLimit = 1500 * time.Millisecond
	// firstPause and longestPause bound the time between two attempts, which doubles.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
	// quiet is how long a migration waits before it reports the wait: processes that start together always wait for
	// each other for a moment.
	quiet = time.Second
	// tellEvery is the time between two reports of one wait.
	tellEvery = 10 * time.Second
	// watchInterval is how often a running migration's locks are queried.
	watchInterval = 40 * time.Millisecond
)

// LockWait means that the schema is not migrated yet, because other sessions hold locks that the migration
// needs (SPEC 12.14).
type LockWait struct {
	// Migration is the name of the migration. It is empty if another process is migrating and holds the lock of all
	// migrations.
	Migration string
	// For is the time since the first attempt.
	For time.Duration
	// Holders are the sessions that held the locks, as far as they were seen.
	Holders []LockHolder
}

// String describes the wait for people.
func (w LockWait) String() string {
	held := "a session that ended meanwhile"
	if len(w.Holders) > 0 {
		all := make([]string, len(w.Holders))
		for i, h := range w.Holders {
			all[i] = h.String()
		}
		held = strings.Join(all, "; ")
	}
	return fmt.Sprintf("migrating the schema (%s) waits for a lock since %s, held by %s; it is tried again until the lock is free",
		cmp.Or(w.Migration, "one process at a time"), w.For.Round(time.Second), held)
}

// LockHolder is a session that holds a lock. Fields that the database does not show this user are empty.
type LockHolder struct {
	// PID is the session's process on the server; 0 for a prepared transaction, which has none.
	PID int
	// Application, Username and Address identify the client.
	Application, Username, Address string
	// Since is when its transaction began, and Age how long ago.
	Since time.Time
	Age   time.Duration
	// State is the session's state, such as "idle in transaction", and Command the first word of its statement.
	// The rest of the statement may hold secrets.
	State, Command string
	// Vacuum means that the session is an automatic vacuum, which gives way.
	Vacuum bool
}

// String describes the session for people.
func (h LockHolder) String() string {
	if h.PID == 0 {
		return "a prepared transaction (pg_prepared_xacts)"
	}
	var details []string
	for _, d := range []struct{ before, value string }{
		{"application ", h.Application}, {"user ", h.Username}, {"from ", h.Address}, {"", h.State}, {"last statement ", h.Command},
	} {
		if d.value != "" {
			details = append(details, d.before+d.value)
		}
	}
	if !h.Since.IsZero() {
		details = append(details, fmt.Sprintf("transaction since %s (%s)", h.Since.UTC().Format(time.RFC3339), h.Age.Round(time.Second)))
	}
	return strings.TrimSpace(fmt.Sprintf("session %d (%s)", h.PID, strings.Join(details, ", ")))
}

// holdersSQL reads the sessions that the session $1 waits for.
const holdersSQL = `
	SELECT b.pid, COALESCE(application_name, '') AS application, COALESCE(usename, '') AS username,
		COALESCE(host(client_addr), CASE WHEN client_port = -1 THEN 'a local socket' END, '') AS address,
		xact_start AS since, COALESCE(now() - xact_start, '0') AS age, COALESCE(state, '') AS state,
		COALESCE(upper(substring(query FROM '^\s*([A-Za-z]+)')), '') AS command,
		COALESCE(backend_type = 'autovacuum worker', false) AS vacuum
	FROM unnest(pg_blocking_pids($1)) AS b (pid) LEFT JOIN pg_stat_activity a ON a.pid = b.pid AND b.pid <> 0
	ORDER BY xact_start`

// watchLocks calls f, whose session is served by the PostgreSQL process pid. It returns the sessions that f last waited
// for.
func (db *DB) watchLocks(ctx context.Context, pid uint32, f func() error) ([]LockHolder, error) {
	ended := make(chan error, 1)
	go func() { ended <- guard.Call(guard.Task, f) }()
	var last []LockHolder
	ticker := time.NewTicker(watchInterval)
	defer ticker.Stop()
	for {
		select {
		case err := <-ended:
			return last, err
		case <-ticker.C:
			// This is information only: without an answer the wait continues.
			found, err := Select(ctx, db, "reading what the migration waits for", RowToStruct[LockHolder], holdersSQL, pid)
			if err == nil && len(found) > 0 {
				last = found
			}
		}
	}
}

// isLocked reports whether a statement has given way to the holders of a lock.
func isLocked(err error) bool {
	const lockNotAvailable, deadlockDetected = "55P03", "40P01"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == lockNotAvailable || refused.Code == deadlockDetected)
}

// untilUnlocked repeats attempt until it succeeds or fails for a reason other than a held lock. It limits how long each
// attempt waits for a lock, and reports the wait. It has no limit of its own: a backup may take hours.
func (db *DB) untilUnlocked(ctx context.Context, attempt func(limit time.Duration) (LockWait, error)) error {
	began, pause, limit := time.Now(), firstPause, lockLimit
	told := began.Add(quiet - tellEvery)
	for {
		wait, err := attempt(limit)
		if !isLocked(err) {
			return err
		}
		wait.For = time.Since(began)
		if db.waiting != nil && time.Since(told) >= tellEvery {
			db.waiting(wait)
			told = time.Now()
		}
		limit = lockLimit
		if len(wait.Holders) > 0 && !slices.ContainsFunc(wait.Holders, func(h LockHolder) bool { return !h.Vacuum }) {
			limit = vacuumLimit
		}
		// Pauses are random, so that processes that wait for the same lock do not retry at the same time.
		if !periodic.Pause(ctx, pause/2+rand.N(pause)) {
			return fmt.Errorf("%w: %s", ctx.Err(), wait)
		}
		pause = min(2*pause, longestPause)
	}
}

// The parts of migrations that need table locks. Function bodies and comments are removed first.
var (
	unlocked     = regexp.MustCompile(`(?s)\$\$.*?\$\$|--[^\n]*|'[^']*'`)
	createsTable = regexp.MustCompile(`(?i)\bCREATE\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)`)
	altersTable  = regexp.MustCompile(`(?i)\b(?:ALTER|DROP)\s+TABLE\s+(?:IF\s+EXISTS\s+)?(?:ONLY\s+)?(\w+)`)
	dropsTrigger = regexp.MustCompile(`(?i)\bDROP\s+TRIGGER\s[^;]*?\bON\s+(\w+)`)
	dropsIndex   = regexp.MustCompile(`(?i)\bDROP\s+INDEX\b`)
	makesIndex   = regexp.MustCompile(`(?i)\bCREATE\s+(?:UNIQUE\s+)?INDEX\s[^;]*?\bON\s+(\w+)`)
	changesTable = regexp.MustCompile(`(?i)\bCREATE\s+TRIGGER\s[^;]*?\bON\s+(\w+)|\bREFERENCES\s+(\w+)|\bINSERT\s+INTO\s+(\w+)` +
		`|\bDELETE\s+FROM\s+(\w+)|\bUPDATE\s+(\w+)\s+(?:AS\s+)?(?:\w+\s+)?SET\b|\bCREATE\s+STATISTICS\s[^;]*?\bFROM\s+(\w+)`)
)

// locksFirst returns the statements that take all table locks of a migration before it begins to work. Otherwise it
// might wait for one table after it has locked or rewritten another. The locks keep writers away from all tables that
// the migration changes, and readers only from those that it alters.
func locksFirst(sql string) string {
	text := unlocked.ReplaceAllString(sql, " ")
	made, altered := names(text, createsTable), names(text, altersTable, dropsTrigger)
	changed := append(names(text, changesTable, makesIndex), versionTable)
	if dropsIndex.MatchString(text) {
		altered = append(altered, names(text, makesIndex)...) // the tables of the replaced ones
	}
	lock := func(mode string, tables, but []string) string {
		tables = slices.DeleteFunc(slices.Sorted(slices.Values(tables)), func(name string) bool { return slices.Contains(but, name) })
		if len(tables) == 0 {
			return ""
		}
		return "LOCK TABLE " + strings.Join(slices.Compact(tables), ", ") + " IN " + mode + " MODE;\n"
	}
	return lock("ACCESS EXCLUSIVE", altered, made) + lock("EXCLUSIVE", changed, append(made, altered...))
}

// names returns the matches of the patterns in a text.
func names(text string, patterns ...*regexp.Regexp) (all []string) {
	for _, p := range patterns {
		for _, m := range p.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.ToLower(strings.Join(m[1:], "")))
		}
	}
	return all
}
