package accounts

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TokenHash is the SHA-256 of a token. Tokens themselves are never stored.
type TokenHash [32]byte

// Session is a live session together with its user.
type Session struct {
	ID string
	// ParentID and WorkspaceID are set for a session at a workspace's own host.
	ParentID    string
	WorkspaceID workspace.ID
	// Scopes are those of a personal access token, and nil for a sign-in.
	Scopes []string

	// UserID, Username and Role are the user's at the time of the query.
	UserID, Username, Role string
	// ExpiresIn is the remaining time of the session when the query ran, by the database's clock.
	ExpiresIn time.Duration
}

// AddSession starts a session of the user that expires after ttl. It returns [ErrNotFound] if the user is
// disabled or passwordHash is no longer the user's: both may have changed while the password was being
// verified. It also removes some expired sessions.
func (s *Store) AddSession(ctx context.Context, userID, passwordHash string,
	token TokenHash, ttl time.Duration, from Origin,
) (Session, error) {
	if err := PeopleOnly(ctx); err != nil {
		return Session{}, err
	}
	return s.session(ctx, "starting a session", `
		WITH expired AS (
			DELETE FROM sessions WHERE id IN (
				SELECT id FROM sessions WHERE expires_at < now()
				ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
		), u AS (
			SELECT id, username, role FROM users
			WHERE id = @user AND disabled_at IS NULL AND password_hash = @password_hash
			FOR SHARE
		), s AS (
			INSERT INTO sessions (token_hash, user_id, expires_at, address, client)
			SELECT @token, u.id, now() + @ttl::interval, @address, @client FROM u
			RETURNING id, expires_at
		), audit AS (
			`+audit.OfUsers+`'user.sign_in', jsonb_build_object('client', @client::text) FROM u
		)
		SELECT s.id, NULL AS parent_id, NULL AS workspace_id, NULL AS scopes, u.id AS user_id, u.username, u.role,
			s.expires_at - now() AS expires_in
		FROM s, u`,
		postgres.Args{
			"user": userID, "password_hash": passwordHash, "token": token[:], "ttl": ttl,
			"by":      audit.Of(ctx).As(userID),
			"address": postgres.NullText(from.Address), "client": postgres.NullText(from.Client),
		})
}

// Session returns the live session with this token: a sign-in, a session of a workspace's own
// host, or a personal access token.
func (s *Store) Session(ctx context.Context, token TokenHash) (Session, error) {
	return s.session(ctx, "reading a session", `
		SELECT s.id, s.parent_id, s.workspace_id, s.scopes, u.id AS user_id, u.username, u.role,
			s.expires_at - now() AS expires_in
		FROM sessions s JOIN users u ON u.id = s.user_id
		WHERE s.token_hash = $1 AND s.expires_at > now() AND u.disabled_at IS NULL`, token[:])
}

// EndSession ends the session with this token and the sessions that depend on it. It does nothing if the
// session does not exist. It needs no user id: the token proves the user.
func (s *Store) EndSession(ctx context.Context, token TokenHash) error {
	if err := PeopleOnly(ctx); err != nil {
		return err
	}
	_, err := s.Exec(ctx, "ending a session", `
		WITH gone AS (
			DELETE FROM sessions WHERE token_hash = @token RETURNING user_id, parent_id
		)
		INSERT INTO audit_log (actor, user_id, user_name, action)
		SELECT audit_actor(@by::jsonb || jsonb_build_object('kind', 'user', 'id', u.id)), u.id, u.username, 'user.sign_out'
		FROM gone JOIN users u ON u.id = gone.user_id WHERE parent_id IS NULL`, postgres.Args{"token": token[:], "by": audit.Of(ctx)})
	return err
}

// signedOut records in the audit that users' main sessions have ended. The sessions are the rows of ended.
const signedOut = audit.OfUsers + `'user.sign_out', jsonb_build_object('sessions', sessions)
	FROM (SELECT u.id, u.username, count(*) AS sessions FROM ended JOIN users u ON u.id = ended.user_id GROUP BY u.id) AS of`

// AddTicket adds a ticket for the owner of the main session with that token. With the ticket, the owner can start a
// session at the workspace's own host. The ticket works once, within ttl, in the browser with that secret. AddTicket
// returns [ErrNotFound] if the session has ended, or if the workspace is deleted or not the user's own. It also removes
// some expired tickets.
func (s *Store) AddTicket(ctx context.Context, token TokenHash, id workspace.ID,
	ticket, browser TokenHash, ttl time.Duration,
) error {
	if err := PeopleOnly(ctx); err != nil {
		return err
	}
	added, err := s.Exec(ctx, "writing a ticket", `
		WITH expired AS (
			DELETE FROM tickets WHERE ticket_hash IN (
				SELECT ticket_hash FROM tickets WHERE expires_at < now()
				ORDER BY expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
		)
		INSERT INTO tickets (ticket_hash, session_id, workspace_id, expires_at, browser_hash)
		SELECT $3, s.id, w.id, now() + $4::interval, $5
		FROM sessions s JOIN users u ON u.id = s.user_id JOIN workspaces w ON w.owner_user_id = u.id
		WHERE s.token_hash = $1 AND s.parent_id IS NULL AND s.expires_at > now() AND u.disabled_at IS NULL
			AND w.id = $2 AND w.deleted_at IS NULL`, token[:], string(id), ticket[:], ttl, browser[:])
	if gone(err) || err == nil && added == 0 {
		return postgres.ErrNotFound
	}
	return err
}

// RedeemTicket uses up the ticket and starts a session, with the given token, for the ticket's workspace. It returns
// [ErrNotFound] if id is another workspace, if browser is the hash of another secret, or if the ticket has expired. In
// these cases the ticket is used up as well. The session ends with its parent session, at the latest when that expires.
func (s *Store) RedeemTicket(ctx context.Context, ticket, browser TokenHash, id workspace.ID, token TokenHash) (
	Session, error) {
	if err := PeopleOnly(ctx); err != nil {
		return Session{}, err
	}
	return s.session(ctx, "redeeming a ticket", `
		WITH used AS (
			DELETE FROM tickets WHERE ticket_hash = $1 RETURNING session_id, workspace_id, expires_at, browser_hash
		), p AS (
			SELECT s.id, s.expires_at, used.workspace_id, u.id AS user_id, u.username, u.role
			FROM used JOIN sessions s ON s.id = used.session_id JOIN users u ON u.id = s.user_id
			WHERE used.workspace_id = $2 AND used.browser_hash = $4 AND used.expires_at > now()
				AND s.expires_at > now() AND u.disabled_at IS NULL
		), c AS (
			INSERT INTO sessions (token_hash, user_id, parent_id, workspace_id, expires_at)
			SELECT $3, user_id, id, workspace_id, expires_at FROM p
			RETURNING id
		)
		SELECT c.id, p.id AS parent_id, p.workspace_id, NULL AS scopes, p.user_id, p.username, p.role,
			p.expires_at - now() AS expires_in
		FROM c, p`,
		ticket[:], string(id), token[:], browser[:])
}

// session runs a query that returns at most one session. Without a row the error is [ErrNotFound].
func (s *Store) session(ctx context.Context, doing, sql string, args ...any) (Session, error) {
	v, err := postgres.SelectOne(ctx, s.DB, doing, postgres.RowToStruct[Session], sql, args...)
	if gone(err) {
		err = postgres.ErrNotFound
	}
	return v, err
}

// gone reports whether err means that a session ended while a row that depends on it was being added.
func gone(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23503" // foreign_key_violation
}
