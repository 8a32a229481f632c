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

// UserByIdentity returns the user of another provider's identity.
func (s *Store) UserByIdentity(ctx context.Context, issuer, subject string) (User, error) {
	return s.user(ctx, "reading the user of an identity", `
		SELECT `+userColumns+` FROM users
		WHERE id = (SELECT user_id FROM user_identities WHERE issuer = $1 AND subject = $2)`, issuer, subject)
}

// AddIdentity adds a user without a password for an identity. If the identity has got a user meanwhile, it returns that
// user. It returns [ErrNotFound] when the name is taken.
func (s *Store) AddIdentity(ctx context.Context, issuer, subject, username, role string) (User, error) {
	if err := PeopleOnly(ctx); err != nil {
		return User{}, err
	}
	var u User
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		// Two concurrent sign-ins of the same identity must not make two users.
		_, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtextextended($1 || chr(10) || $2, 0))`,
			issuer, subject)
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			WITH known AS (
				SELECT user_id FROM user_identities WHERE issuer = @issuer AND subject = @subject
			), added AS (
				INSERT INTO users (username, role) SELECT @username, @role WHERE NOT EXISTS (SELECT FROM known)
				ON CONFLICT (lower(username)) DO NOTHING
				RETURNING `+userColumns+`
			), linked AS (
				INSERT INTO user_identities (issuer, subject, user_id) SELECT @issuer, @subject, id FROM added
			), audit AS (
				`+audit.OfUsers+`'user.create', jsonb_build_object('role', role) FROM added
			)
			SELECT `+userColumns+` FROM added
			UNION ALL SELECT `+userColumns+` FROM users WHERE id IN (SELECT user_id FROM known)`,
			postgres.Args{
				"issuer": issuer, "subject": subject, "username": username, "role": role, "by": audit.Of(ctx),
			})
		if err != nil {
			return err
		}
		u, err = pgx.CollectExactlyOneRow(rows, postgres.RowToStruct[User])
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		err = postgres.ErrNotFound
	}
	if err != nil {
		return User{}, fmt.Errorf("adding the user of an identity: %w", err)
	}
	return u, nil
}

// SetRole changes a user's role. Sessions continue, with the new role within seconds.
func (s *Store) SetRole(ctx context.Context, id, role string) error {
	if err := PeopleOnly(ctx); err != nil {
		return err
	}
	_, err := s.Exec(ctx, "changing a user's role", `
		WITH changed AS (
			UPDATE users SET role = @role WHERE id = @id AND role <> @role RETURNING id, username, role
		)
		`+audit.OfUsers+`'user.role', jsonb_build_object('role', role) FROM changed`,
		postgres.Args{"id": id, "role": role, "by": audit.Of(ctx)})
	return err
}

// AddExternalSession is [Store.AddSession] for a user authenticated by another provider. providerSession is the
// provider's own id of the sign-in, or empty. It returns [ErrNotFound] if the user is disabled.
func (s *Store) AddExternalSession(ctx context.Context, userID, issuer, providerSession string,
	token TokenHash, ttl time.Duration, from Origin,
) (Session, error) {
	if err := PeopleOnly(ctx); err != nil {
		return Session{}, err
	}
	return s.session(ctx, "starting a session", `
		WITH u AS (
			SELECT id, username, role FROM users WHERE id = @user AND disabled_at IS NULL FOR SHARE
		), s AS (
			INSERT INTO sessions (token_hash, user_id, expires_at, address, client, issuer, provider_session)
			SELECT @token, u.id, now() + @ttl::interval, @address, @client, @issuer, @provider_session FROM u
			RETURNING id, expires_at
		), audit AS (
			`+audit.OfUsers+`'user.sign_in', jsonb_build_object('issuer', @issuer::text, 'client', @client::text) FROM u
		)
		SELECT s.id, NULL AS parent_id, NULL AS workspace_id, NULL AS scopes, u.id AS user_id, u.username, u.role,
			s.expires_at - now() AS expires_in
		FROM s, u`,
		postgres.Args{
			"user": userID, "token": token[:], "ttl": ttl, "issuer": issuer, "by": audit.Of(ctx).As(userID),
			"provider_session": postgres.NullText(providerSession),
			"address":          postgres.NullText(from.Address), "client": postgres.NullText(from.Client),
		})
}

// SessionIssuer returns the provider through which a session was started; empty for a password or if the
// session does not exist.
func (s *Store) SessionIssuer(ctx context.Context, token TokenHash) (string, error) {
	issuer, err := postgres.SelectOne(ctx, s.DB, "reading the provider of a session", pgx.RowTo[string],
		`SELECT COALESCE(issuer, '') FROM sessions WHERE token_hash = $1`, token[:])
	if errors.Is(err, postgres.ErrNotFound) {
		return "", nil
	}
	return issuer, err
}

// EndExternalSessions ends the sessions of one sign-in at a provider, or of all sign-ins of the identity if
// providerSession is empty. It returns their ids.
func (s *Store) EndExternalSessions(ctx context.Context, issuer, subject, providerSession string) ([]string, error) {
	if err := PeopleOnly(ctx); err != nil {
		return nil, err
	}
	return postgres.Select(ctx, s.DB, "ending a provider's sessions", pgx.RowTo[string], `
		WITH ended AS (
			DELETE FROM sessions WHERE issuer = @issuer AND CASE WHEN @session <> '' THEN provider_session = @session
				ELSE user_id = (SELECT user_id FROM user_identities WHERE issuer = @issuer AND subject = @subject) END
			RETURNING id, user_id
		), audit AS (
			`+signedOut+`
		)
		SELECT id FROM ended`,
		postgres.Args{"issuer": issuer, "subject": subject, "session": providerSession, "by": audit.Of(ctx)})
}
