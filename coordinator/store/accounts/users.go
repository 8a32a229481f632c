package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// User is one row of users.
type User struct {
	ID, Username string
	// Role is "user" or "admin".
	Role string
	// PasswordHash is in PHC string form; empty for users who cannot sign in with a password. It MUST NOT be
	// logged.
	PasswordHash string
	// DisabledAt is zero for an enabled user.
	DisabledAt time.Time
	CreatedAt  time.Time
	// MaxRunning and MaxWorkspaces are the user's own limits; 0 means the global ones for each user.
	MaxRunning, MaxWorkspaces int
}

// Disabled reports whether the user may no longer sign in.
func (u User) Disabled() bool { return !u.DisabledAt.IsZero() }

// userColumns are the columns of a [User].
const userColumns = `id, username, role, password_hash, disabled_at, created_at, max_running, max_workspaces`

// user runs a query that returns at most one user. doing is the beginning of its error messages.
func (s *Store) user(ctx context.Context, doing, sql string, args ...any) (User, error) {
	return postgres.SelectOne(ctx, s.DB, doing, postgres.RowToStruct[User], sql, args...)
}

// UserByName returns a user. Upper and lower case are not distinguished.
func (s *Store) UserByName(ctx context.Context, username string) (User, error) {
	return s.user(ctx, "reading a user",
		`SELECT `+userColumns+` FROM users WHERE lower(username) = lower($1)`, username)
}

// Overview is a user as shown to administrators.
type Overview struct {
	User
	// LastSignInAt is the start of the user's most recent unexpired sign-in.
	LastSignInAt time.Time
	// Workspaces counts those that are not deleted, and Running those that count against the limits.
	Workspaces, Running int
}

// overviewSQL selects an [Overview] of each user for whom the condition holds.
func overviewSQL(condition string) string {
	return `SELECT ` + userColumns + `,
			(SELECT max(s.created_at) FROM sessions s
				WHERE s.user_id = users.id AND s.parent_id IS NULL AND s.name IS NULL) AS last_sign_in_at,
			(SELECT count(*) FROM workspaces w WHERE w.owner_user_id = users.id AND w.deleted_at IS NULL) AS workspaces,
			(SELECT count(*) FROM workspaces w WHERE w.owner_user_id = users.id AND w.counted) AS running
		FROM users WHERE ` + condition
}

// Overviews returns at most limit users whose names contain the text, in the order of their names and after the
// given name. An empty text or name means any.
func (s *Store) Overviews(ctx context.Context, text, after string, limit int) ([]Overview, error) {
	return postgres.Select(ctx, s.DB, "listing users", postgres.RowToStruct[Overview],
		overviewSQL(`strpos(lower(username), lower($1)) > 0 AND ($2 = '' OR lower(username) > lower($2))`)+`
		ORDER BY lower(username) LIMIT $3`, text, after, limit)
}

// OverviewOf returns one user. The id may be any text.
func (s *Store) OverviewOf(ctx context.Context, id string) (Overview, error) {
	return postgres.SelectOne(ctx, s.DB, "reading a user", postgres.RowToStruct[Overview], overviewSQL(`id::text = $1`), id)
}

// AddUser adds a user. created is false if the name is taken.
func (s *Store) AddUser(ctx context.Context, username, passwordHash, role string) (u User, created bool, err error) {
	if err := PeopleOnly(ctx); err != nil {
		return User{}, false, err
	}
	u, err = s.user(ctx, "adding a user", `
		WITH added AS (
			INSERT INTO users (username, password_hash, role) VALUES (@username, @password_hash, @role)
			ON CONFLICT (lower(username)) DO NOTHING
			RETURNING `+userColumns+`
		), audit AS (
			`+audit.OfUsers+`'user.create', jsonb_build_object('role', role) FROM added
		)
		SELECT * FROM added`, postgres.Args{
		"username": username, "password_hash": postgres.NullText(passwordHash), "role": role, "by": audit.Of(ctx),
	})
	if errors.Is(err, postgres.ErrNotFound) {
		return User{}, false, nil
	}
	return u, err == nil, err
}

// UserChange is a change of a user; nil fields keep their values.
type UserChange struct {
	PasswordHash, Role *string
	Disabled           *bool
	// MaxRunning and MaxWorkspaces may be 0 for the global limits.
	MaxRunning, MaxWorkspaces *int
	// SignOut ends all the user's sessions and access tokens, like a new password or role, or disabling the
	// user.
	SignOut bool
}

// onlyLimits reports whether the change affects neither the account nor its sign-ins.
func (c UserChange) onlyLimits() bool {
	return c.PasswordHash == nil && c.Role == nil && c.Disabled == nil && !c.SignOut
}

// actions returns the actions under which the audit records the change; there is one entry for each action.
func (c UserChange) actions() (of []audit.Action) {
	for _, a := range [...]struct {
		asked  bool
		action audit.Action
	}{
		{c.PasswordHash != nil, audit.UserPassword}, {c.Role != nil, audit.UserRole},
		{c.Disabled != nil && *c.Disabled, audit.UserDisable}, {c.Disabled != nil && !*c.Disabled, audit.UserEnable},
		{c.MaxRunning != nil || c.MaxWorkspaces != nil, audit.UserLimits}, {c.SignOut, audit.UserSignOut},
	} {
		if a.asked {
			of = append(of, a.action)
		}
	}
	return of
}

// details returns the changed values, without a password.
func (c UserChange) details() map[string]any {
	of := make(map[string]any)
	if c.Role != nil {
		of["role"] = *c.Role
	}
	if c.MaxRunning != nil {
		of["max_running"] = *c.MaxRunning
	}
	if c.MaxWorkspaces != nil {
		of["max_workspaces"] = *c.MaxWorkspaces
	}
	return of
}

// ErrLastAdministrator refuses to disable or demote the only enabled administrator.
var ErrLastAdministrator = errors.New("the last administrator")

// lockUserSQL locks the user's row in a statement of its own. So the next statement sees a session that AddSession was
// adding while lockUserSQL waited for the lock. With @demotes it also locks the rows of all administrators, in a fixed
// order. So of two concurrent changes, the second one sees the result of the first.
const lockUserSQL = `
SELECT id FROM users WHERE id = @id OR @demotes AND role = 'admin' AND disabled_at IS NULL
ORDER BY id FOR UPDATE`

// editUserSQL must run after lockUserSQL, in a statement of its own.
const editUserSQL = `
WITH changed AS (
	UPDATE users SET
		password_hash = COALESCE(@password_hash, password_hash), role = COALESCE(@role, role),
		disabled_at = CASE WHEN @disabled::boolean THEN COALESCE(disabled_at, now()) WHEN NOT @disabled THEN NULL
			ELSE disabled_at END,
		max_running = CASE WHEN @max_running::int IS NULL THEN max_running ELSE NULLIF(@max_running, 0) END,
		max_workspaces = CASE WHEN @max_workspaces::int IS NULL THEN max_workspaces ELSE NULLIF(@max_workspaces, 0) END
	WHERE id = @id AND (NOT @demotes OR role <> 'admin' OR disabled_at IS NOT NULL OR EXISTS (
		SELECT FROM users o WHERE o.id <> @id AND o.role = 'admin' AND o.disabled_at IS NULL))
	RETURNING id, username
), ended AS (
	DELETE FROM sessions s USING changed WHERE s.user_id = changed.id AND @ends RETURNING s.id
), audit AS (
	` + audit.OfUsers + `a.action, @details::jsonb FROM changed, unnest(@actions::text[]) AS a (action)
)
SELECT EXISTS (SELECT FROM users WHERE id = @id), EXISTS (SELECT FROM changed), ARRAY(SELECT id::text FROM ended)`

// EditUser changes a user in one implicit transaction. It returns the ids of the sessions and access tokens
// that it has ended, [ErrNotFound] if the user does not exist, and [ErrLastAdministrator]. With an error,
// nothing was written.
func (s *Store) EditUser(ctx context.Context, id string, c UserChange) (ended []string, err error) {
	if !c.onlyLimits() {
		if err := PeopleOnly(ctx); err != nil {
			return nil, err
		}
	}
	disables := c.Disabled != nil && *c.Disabled
	demotes := disables || c.Role != nil && *c.Role != "admin"
	var found, changed bool
	batch := &pgx.Batch{}
	batch.Queue(lockUserSQL, postgres.Args{"id": id, "demotes": demotes})
	batch.Queue(editUserSQL, postgres.Args{
		"id": id, "demotes": demotes, "password_hash": c.PasswordHash, "role": c.Role, "disabled": c.Disabled,
		"max_running": c.MaxRunning, "max_workspaces": c.MaxWorkspaces,
		"ends": disables || c.SignOut || c.PasswordHash != nil || c.Role != nil,
		"by":   audit.Of(ctx), "actions": c.actions(), "details": c.details(),
	}).QueryRow(func(row pgx.Row) error { return row.Scan(&found, &changed, &ended) })
	err = s.pool.SendBatch(ctx, batch).Close()
	switch {
	case err == nil && !found:
		err = postgres.ErrNotFound
	case err == nil && !changed:
		err = ErrLastAdministrator
	}
	if err != nil {
		return nil, fmt.Errorf("changing a user: %w", err)
	}
	return ended, nil
}

// ReplaceHash replaces the hash old with another one of the same password, unless the password has changed in
// the meantime. Sessions continue.
func (s *Store) ReplaceHash(ctx context.Context, id, old, hash string) error {
	_, err := s.Exec(ctx, "replacing a password hash", `UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2`,
		id, old, hash)
	return err
}
