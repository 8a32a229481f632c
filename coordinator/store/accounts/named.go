package accounts

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// OpenNamedSession opens or extends the session of a user who was named by an external authentication. It
// returns [ErrNotFound] if the user is disabled.
func (s *Store) OpenNamedSession(ctx context.Context, userID string, token TokenHash, ttl time.Duration) error {
	if err := PeopleOnly(ctx); err != nil {
		return err
	}
	opened, err := s.Exec(ctx, "opening the session of a named user", `
		WITH u AS (
			SELECT id, username FROM users WHERE id = @user AND disabled_at IS NULL FOR SHARE
		), s AS (
			INSERT INTO sessions (token_hash, user_id, expires_at, issuer)
			SELECT @token, id, now() + @ttl::interval, 'caddy' FROM u
			ON CONFLICT (token_hash) DO UPDATE SET user_id = EXCLUDED.user_id, expires_at = EXCLUDED.expires_at
		)
		`+audit.OfUsers+`'user.sign_in', jsonb_build_object('issuer', 'caddy') FROM u`,
		postgres.Args{"user": userID, "token": token[:], "ttl": ttl, "by": audit.Of(ctx).As(userID)})
	if err == nil && opened == 0 {
		return postgres.ErrNotFound
	}
	return err
}
