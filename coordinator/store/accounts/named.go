package accounts

import (
	"context"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// OpenNamedSession opens, or prolongs, the session of a user whom another authentication
// than ours has named. It returns [ErrNotFound] if the user is disabled.
func (s *Store) OpenNamedSession(ctx context.Context, userID string, token TokenHash, ttl time.Duration) error {
	tag, err := s.pool.Exec(ctx, `
		INSERT INTO sessions (token_hash, user_id, expires_at, issuer)
		SELECT $2, id, now() + $3::interval, 'caddy' FROM users WHERE id = $1 AND disabled_at IS NULL FOR SHARE
		ON CONFLICT (token_hash) DO UPDATE SET user_id = EXCLUDED.user_id, expires_at = EXCLUDED.expires_at`,
		userID, token[:], ttl)
	if err == nil && tag.RowsAffected() == 0 {
		err = postgres.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("opening the session of a named user: %w", err)
	}
	return nil
}
