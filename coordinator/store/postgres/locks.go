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
)

const (
	// lockLimit is how long a migration waits for one lock before it gives way. Every statement that needs the same
	// table waits behind it for so long.
	lockLimit = 200 * time.Millisecond
	// vacuumLimit is the same where only automatic vacuuming holds the lock. It gives way to a session that has waited for
	// the server's deadlock_timeout, a second.
	vacuumLimit = 1500 * time.Millisecond
	// firstPause and longestPause bound the time between two attempts, which doubles.
	firstPause, longestPause = 100 * time.Millisecond, 2 * time.Second
	// quiet is how long a migration waits before it says so: processes that start together wait for each other for a moment.
	quiet = time.Second
	// tellEvery is the time between two reports of one wait.
	tellEvery = 10 * time.Second
	// watchInterval is how often a migration that runs is asked what it waits for.
	watchInterval = 40 * time.Millisecond
)

// LockWait says that the schema is not migrated yet, because other sessions hold locks that the migration needs (SPEC 12.14).
type LockWait struct {
	// Migration is the name of the migration; empty for the lock of all migrations, which another process holds that
	// migrates.
	Migration string
	// For is how long it has been tried.
	For time.Duration
	// Holders are the sessions for which it waited, as far as they were seen.
	Holders []LockHolder
}

// String says it to a person.
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

// LockHolder is a session that holds a lock. What the database does not tell this user is empty.
type LockHolder struct {
	// PID is the session's process on the server; 0 for a prepared transaction, which has none.
	PID int
	// Application, Username and Address are who is connected, and from where.
	Application, Username, Address string
	// Since is when its transaction began, and Age how long ago.
	Since time.Time
	Age   time.Duration
	// State is what the session does, such as "idle in transaction", and Command the first word of its statement. The
	// rest of the statement may hold secrets.
	State, Command string
	// Vacuum says that it is automatic vacuuming, which gives way.
	Vacuum bool
}

// String says it to a person.
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

// watchLocks calls f, which works in the session with that process, and returns for which sessions that has waited last.
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
			// It is only told. Without an answer the wait goes on all the same.
			found, err := Select(ctx, db, "reading what the migration waits for", RowToStruct[LockHolder], holdersSQL, pid)
			if err == nil && len(found) > 0 {
				last = found
			}
		}
	}
}

// isLocked reports whether a statement has given way to those that hold a lock.
func isLocked(err error) bool {
	const lockNotAvailable, deadlockDetected = "55P03", "40P01"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == lockNotAvailable || refused.Code == deadlockDetected)
}

// untilUnlocked calls attempt until it fails for another reason than a lock that others hold. It gives each attempt the limit for a
// lock, and tells of the wait. It has no limit of its own: a backup may take hours.
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
		// Of processes that wait for the same lock, each tries at times of its own.
		timer := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w: %s", ctx.Err(), wait)
		}
		pause = min(2*pause, longestPause)
	}
}

// The parts of migrations that need locks of tables. Bodies of functions and comments are left out before.
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

// locksFirst returns the statements that take all locks of tables that a migration needs. With them it has what it needs before it
// begins to work: it never holds one table, or has rewritten it, while it waits for another. Who writes is kept away from all
// tables that it changes, and who reads from those only that it alters.
func locksFirst(sql string) string {
	text := unlocked.ReplaceAllString(sql, " ")
	made, altered := names(text, createsTable), names(text, altersTable, dropsTrigger)
	changed := append(names(text, changesTable, makesIndex), versionTable)
	if dropsIndex.MatchString(text) {
		altered = append(altered, names(text, makesIndex)...) // the tables of those that it replaces
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

// names returns what the patterns find in a text.
func names(text string, patterns ...*regexp.Regexp) (all []string) {
	for _, p := range patterns {
		for _, m := range p.FindAllStringSubmatch(text, -1) {
			all = append(all, strings.ToLower(strings.Join(m[1:], "")))
		}
	}
	return all
}
