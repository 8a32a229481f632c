// Package auditlog reads the audit (SPEC 13), deletes old entries, and writes the entries that accompany no
// change of the database. Code that changes the database must not use this package: the statement that makes the change
// writes the entry, too (package audit).
package auditlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultRetention is how long entries are kept by default, and MinRetention the shortest allowed time.
const (
	DefaultRetention = 365 * 24 * time.Hour
	MinRetention     = 24 * time.Hour
)

// CheckRetention returns an error if the time for which entries are kept is invalid; it names the setting.
func CheckRetention(d time.Duration) error {
	if d < 0 || d > 0 && d < MinRetention {
		return setting.Errorf("audit_retention", "must be at least 1d, such as 365d, or 0 to keep the audit for good, not %s", d)
	}
	return nil
}

// Log is the audit of an installation. It is safe for concurrent use.
type Log struct {
	db       *postgres.DB
	refusals *refusals
}

// Actor is the requester of a change, with the name at that time.
type Actor struct {
	audit.Actor
	TokenName string `json:"token_name"`
}

// Entry is one row. Empty strings stand for NULL.
type Entry struct {
	ID int64
	// At is the database's time of the change.
	At     time.Time
	Action audit.Action
	// Outcome is [audit.Done], or the type of the problem that refused the request.
	Outcome string
	Actor   Actor
	// WorkspaceID and UserID are the objects concerned, with their names at that time. The user is the owner of
	// the workspace, or the user who is changed or signs in.
	WorkspaceID   workspace.ID
	WorkspaceName string
	UserID        string
	UserName      string
	// Details depend on the action.
	Details map[string]any
}

// Cursor is a position in a list: it selects the entries that are older than the one with that time and id.
type Cursor struct {
	At time.Time
	ID int64
}

// Cursor returns the position after e.
func (e Entry) Cursor() Cursor { return Cursor{e.At, e.ID} }

// Filter selects entries; its zero value selects all.
type Filter struct {
	// User is the id or the name of a user who made the request or is concerned by it; Concerning is the id of
	// a concerned user only.
	User, Concerning string
	Workspace        workspace.ID
	// Actions are the accepted actions; nil means all.
	Actions []audit.Action
	// Since is the earliest time, and Until the first time that is too late; zero means any.
	Since, Until time.Time
}

const columns = `id, at, action, outcome, actor, workspace_id, workspace_name, user_id, user_name, details`

// newestFirst is the order of every list, and of the indexes.
const newestFirst = ` ORDER BY at DESC, id DESC LIMIT @limit`

// List returns at most limit entries, the newest first, that are older than the cursor; nil starts with the
// newest. An entry whose transaction ends late may still appear among those of the last minute. An unreadable
// entry is an error: none is left out.
func (l *Log) List(ctx context.Context, f Filter, limit int, before *Cursor) ([]Entry, error) {
	sql, args := f.statement(limit, before)
	return postgres.SelectAll(ctx, l.db, "reading the audit", postgres.RowToStruct[Entry], sql, args)
}

// statement returns the statement of [Log.List]. Few exist: one for each set of conditions.
func (f Filter) statement(limit int, before *Cursor) (string, postgres.Args) {
	args := postgres.Args{"limit": limit}
	var where []string
	add := func(condition, name string, value any) {
		where, args[name] = append(where, condition), value
	}
	if f.Workspace != "" {
		add(`workspace_id = @workspace`, "workspace", string(f.Workspace))
	}
	if f.Concerning != "" {
		add(`user_id = @concerning`, "concerning", f.Concerning)
	}
	if f.Actions != nil {
		add(`action = ANY(@actions::text[])`, "actions", f.Actions)
	}
	if !f.Since.IsZero() {
		add(`at >= @since`, "since", f.Since)
	}
	if !f.Until.IsZero() {
		add(`at < @until`, "until", f.Until)
	}
	if before != nil {
		add(`(at, id) < (@at, @id::bigint)`, "at", before.At)
		args["id"] = before.ID
	}
	of := func(more ...string) string {
		all := slices.Concat(where, more)
		if len(all) > 0 {
			return `SELECT ` + columns + ` FROM audit_log WHERE ` + strings.Join(all, ` AND `) + newestFirst
		}
		return `SELECT ` + columns + ` FROM audit_log` + newestFirst
	}
	if f.User == "" {
		return of(), args
	}
	args["user"] = f.User
	user := `@user::uuid`
	if uuid.Validate(f.User) != nil {
		user = `(SELECT id FROM users WHERE lower(username) = lower(@user))`
	}
	// Two index scans that end at the limit; an OR would sort the whole table.
	return `SELECT * FROM ((` + of(`user_id = `+user) + `) UNION ALL (` +
		of(`actor_id = `+user, `user_id IS DISTINCT FROM `+user) + `)) AS of` + newestFirst, args
}

// Each calls do with every entry of the filter, the newest first, as of the time of the call. It holds no
// connection while do runs, and one page of entries in memory. It returns the first error.
func (l *Log) Each(ctx context.Context, f Filter, do func(Entry) error) error {
	const page = 500
	for before := (*Cursor)(nil); ; {
		entries, err := l.List(ctx, f, page, before)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := do(e); err != nil {
				return err
			}
		}
		if len(entries) < page {
			return nil
		}
		before = new(entries[len(entries)-1].Cursor())
	}
}

// Trim deletes at most limit entries that are older than olderThan, the oldest first, and returns how many.
func (l *Log) Trim(ctx context.Context, olderThan time.Duration, limit int) (int64, error) {
	return l.db.Exec(ctx, "trimming the audit", `
		DELETE FROM audit_log WHERE id IN (
			SELECT id FROM audit_log WHERE at < now() - $1::interval ORDER BY at, id LIMIT $2)`, olderThan, limit)
}

// Write writes an entry of the context's actor about something that does not change the database: a command in
// a container, or an action that is about to begin. The caller MUST write before the action begins, and not
// begin it after an error.
func (l *Log) Write(ctx context.Context, action audit.Action, about workspace.ID, details map[string]any) error {
	return l.WriteIf(ctx, nil, action, about, details)
}

// ErrStale: the workspace has none of the expected revisions.
var ErrStale = errors.New("the workspace has changed meanwhile")

// WriteIf is [Log.Write] if the workspace has one of the revisions; otherwise it writes nothing and returns
// [ErrStale]. Nil revisions allow any.
func (l *Log) WriteIf(ctx context.Context, revisions []int64, action audit.Action, about workspace.ID, details map[string]any) error {
	tag, err := l.db.Pool().Exec(ctx, `
		INSERT INTO audit_log (actor, action, workspace_id, workspace_name, user_id, user_name, details)
		SELECT audit_actor(@by::jsonb), @action, @workspace::uuid, w.name, w.owner_user_id, u.username, @details
		FROM (SELECT) AS one LEFT JOIN workspaces w ON w.id = @workspace LEFT JOIN users u ON u.id = w.owner_user_id
		WHERE (w.revision <> ALL(@if_revision::bigint[])) IS NOT TRUE`,
		postgres.Args{
			"by": audit.Of(ctx), "action": string(action), "workspace": postgres.NullText(about), "details": details,
			"if_revision": revisions,
		})
	if err != nil {
		return fmt.Errorf("writing the audit: %w", err)
	}
	if tag.RowsAffected() == 0 {
		return ErrStale
	}
	return nil
}
