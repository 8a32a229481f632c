package accounts

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Token is a personal access token: a session with a name chosen by its user. Its secret is not stored.
type Token struct {
	ID, Name             string
	Scopes               []string
	CreatedAt, ExpiresAt time.Time
	// LastUsedAt is the time of the last use, and Address is the client's address at that time. Both are zero before
	// the first use.
	LastUsedAt time.Time
	Address    string
}

// tokenColumns are the columns of a [Token].
const tokenColumns = `id, name, scopes, created_at, expires_at,
	NULLIF(last_used_at, created_at) AS last_used_at, address`

// AddToken adds a token of the user with the main session sessionID, which must not be a token itself. It
// returns [ErrNotFound] if that session has ended.
func (s *Store) AddToken(ctx context.Context, userID, sessionID string, secret TokenHash,
	name string, scopes []string, ttl time.Duration,
) (Token, error) {
	if err := PeopleOnly(ctx); err != nil {
		return Token{}, err
	}
	// The statement locks the user's row first, as changeUser does. So after a concurrent changeUser has waited for the
	// lock, its next statement finds the token.
	return postgres.SelectOne(ctx, s.DB, "adding an access token", postgres.RowToStruct[Token], `
		WITH u AS (
			SELECT id, username FROM users WHERE id = @user AND disabled_at IS NULL FOR SHARE
		), s AS (
			SELECT s.user_id FROM u JOIN sessions s ON s.user_id = u.id
			WHERE s.id = @session AND s.parent_id IS NULL AND s.name IS NULL AND s.expires_at > now()
			FOR SHARE OF s
		), added AS (
			INSERT INTO sessions (token_hash, user_id, expires_at, name, scopes)
			SELECT @secret, user_id, now() + @ttl::interval, @name, @scopes FROM s
			RETURNING *
		), audit AS (
			`+audit.OfUsers+`'token.create', details FROM (
				SELECT u.id, u.username, jsonb_build_object('token_id', a.id, 'name', a.name, 'scopes', a.scopes,
					'expires_at', a.expires_at) AS details
				FROM added a JOIN u ON u.id = a.user_id) AS of
		)
		SELECT `+tokenColumns+` FROM added`,
		postgres.Args{
			"user": userID, "session": sessionID, "secret": secret[:], "ttl": ttl, "name": name, "scopes": scopes,
			"by": audit.Of(ctx),
		})
}

// TokensOf returns a user's tokens, the newest first.
func (s *Store) TokensOf(ctx context.Context, userID string) ([]Token, error) {
	return postgres.Select(ctx, s.DB, "listing access tokens", postgres.RowToStruct[Token], `
		SELECT `+tokenColumns+` FROM sessions
		WHERE user_id = $1 AND name IS NOT NULL AND expires_at > now()
		ORDER BY created_at DESC, id`, userID)
}

// EndToken ends one of the user's tokens, and returns the ids of the tokens that it has ended: one id, or none. A token
// may do that, too, as it grants no rights.
func (s *Store) EndToken(ctx context.Context, userID, id string) ([]string, error) {
	return postgres.Select(ctx, s.DB, "ending an access token", pgx.RowTo[string], `
		WITH ended AS (
			DELETE FROM sessions WHERE user_id = @user AND id::text = @id AND name IS NOT NULL RETURNING id, user_id, name
		), audit AS (
			`+audit.OfUsers+`'token.revoke', details FROM (
				SELECT u.id, u.username, jsonb_build_object('token_id', e.id, 'name', e.name) AS details
				FROM ended e JOIN users u ON u.id = e.user_id) AS of
		)
		SELECT id FROM ended`, postgres.Args{"user": userID, "id": id, "by": audit.Of(ctx)})
}
