package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// User is one row of users.
type User struct {
	ID, Username string
	// Role is "user" or "admin".
	Role string
	// PasswordHash is in PHC string form; empty for users who cannot sign in with a
	// password. It MUST NOT be logged.
	PasswordHash string
	// DisabledAt is zero for a user who may sign in.
	DisabledAt time.Time
	CreatedAt  time.Time
}

// Disabled reports whether the user may no longer sign in.
func (u User) Disabled() bool { return !u.DisabledAt.IsZero() }

// userColumns are the columns of a [User].
const userColumns = `id, username, role, password_hash, disabled_at, created_at`

// user runs a query that returns at most one user. doing begins its errors.
func (s *Store) user(ctx context.Context, doing, sql string, args ...any) (User, error) {
	return postgres.SelectOne(ctx, s.DB, doing, postgres.RowToStruct[User], sql, args...)
}

// UserByName returns a user. Upper and lower case are not distinguished.
func (s *Store) UserByName(ctx context.Context, username string) (User, error) {
	return s.user(ctx, "reading a user",
		`SELECT `+userColumns+` FROM users WHERE lower(username) = lower($1)`, username)
}

// Users returns all users in the order of their names.
func (s *Store) Users(ctx context.Context) ([]User, error) {
	return postgres.Select(ctx, s.DB, "listing users", postgres.RowToStruct[User],
		`SELECT `+userColumns+` FROM users ORDER BY lower(username)`)
}

// AddUser adds a user. created is false if the name is taken.
func (s *Store) AddUser(ctx context.Context, username, passwordHash, role string) (u User, created bool, err error) {
	u, err = s.user(ctx, "adding a user", `
		INSERT INTO users (username, password_hash, role) VALUES ($1, $2, $3)
		ON CONFLICT (lower(username)) DO NOTHING
		RETURNING `+userColumns, username, postgres.NullText(passwordHash), role)
	if errors.Is(err, postgres.ErrNotFound) {
		return User{}, false, nil
	}
	return u, err == nil, err
}

// ChangeUser changes the password and the role of a user and ends all the user's
// sessions, which were started with the old ones.
func (s *Store) ChangeUser(ctx context.Context, id, passwordHash, role string) error {
	return s.changeUser(ctx, id, true,
		`UPDATE users SET password_hash = $2, role = $3 WHERE id = $1`, id, postgres.NullText(passwordHash), role)
}

// ReplaceHash replaces the hash old with another one of the same password, unless
// the password has changed in the meantime. Sessions continue.
func (s *Store) ReplaceHash(ctx context.Context, id, old, hash string) error {
	_, err := s.pool.Exec(ctx, `UPDATE users SET password_hash = $3 WHERE id = $1 AND password_hash = $2`,
		id, old, hash)
	if err != nil {
		return fmt.Errorf("replacing a password hash: %w", err)
	}
	return nil
}

// DisableUser disables or enables a user. Disabling also ends the user's sessions.
func (s *Store) DisableUser(ctx context.Context, id string, disabled bool) error {
	return s.changeUser(ctx, id, disabled,
		`UPDATE users SET disabled_at = CASE WHEN $2 THEN COALESCE(disabled_at, now()) END WHERE id = $1`, id, disabled)
}

// changeUser runs update, and ends the user's sessions if end is set, in one implicit
// transaction. A statement of its own locks the row first: the following ones then
// see a session that AddSession was starting at the time.
func (s *Store) changeUser(ctx context.Context, id string, end bool, update string, args ...any) error {
	var changed bool
	batch := &pgx.Batch{}
	batch.Queue(`SELECT FROM users WHERE id = $1 FOR UPDATE`, id)
	batch.Queue(update, args...).Exec(func(tag pgconn.CommandTag) error {
		changed = tag.RowsAffected() == 1
		return nil
	})
	if end {
		batch.Queue(`DELETE FROM sessions WHERE user_id = $1`, id)
	}
	err := s.pool.SendBatch(ctx, batch).Close()
	if err == nil && !changed {
		err = postgres.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("changing a user: %w", err)
	}
	return nil
}
