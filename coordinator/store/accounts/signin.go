package accounts

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// EndedSessions returns those of the given sessions that have ended.
func (s *Store) EndedSessions(ctx context.Context, ids []string) ([]string, error) {
	return postgres.Select(ctx, s.DB, "looking for ended sessions", pgx.RowTo[string], `
		SELECT asked.id FROM unnest($1::uuid[]) AS asked (id)
		WHERE NOT EXISTS (
			SELECT FROM sessions s JOIN users u ON u.id = s.user_id
			WHERE s.id = asked.id AND s.expires_at > now() AND u.disabled_at IS NULL)`, ids)
}

// Origin describes the client that opened a session.
type Origin struct {
	// Address is an IP address, Client the name that the browser or program gives itself; both may be empty.
	Address, Client string
}

// OpenSession is one of a user's main sessions.
type OpenSession struct {
	ID string
	Origin
	CreatedAt, LastUsedAt, ExpiresAt time.Time
}

// SessionsOf returns a user's main sessions without the access tokens, the most recently used first.
func (s *Store) SessionsOf(ctx context.Context, userID string) ([]OpenSession, error) {
	return postgres.Select(ctx, s.DB, "listing sessions", postgres.RowToStruct[OpenSession], `
		SELECT id, address, client, created_at, last_used_at, expires_at FROM sessions
		WHERE user_id = $1 AND parent_id IS NULL AND name IS NULL AND expires_at > now()
		ORDER BY last_used_at DESC, id`, userID)
}

// EndSessionsOf ends the user's main session with that id, or, if id is empty, all the user's main sessions except
// keep. It returns the ids of the sessions that it has ended. Access tokens stay.
func (s *Store) EndSessionsOf(ctx context.Context, userID, id, keep string) ([]string, error) {
	if err := PeopleOnly(ctx); err != nil {
		return nil, err
	}
	return postgres.Select(ctx, s.DB, "ending sessions", pgx.RowTo[string], `
		WITH ended AS (
			DELETE FROM sessions WHERE user_id = @user AND parent_id IS NULL AND name IS NULL
				AND CASE WHEN @id = '' THEN id::text <> @keep ELSE id::text = @id END
			RETURNING id, user_id
		), audit AS (
			`+signedOut+`
		)
		SELECT id FROM ended`, postgres.Args{"user": userID, "id": id, "keep": keep, "by": audit.Of(ctx)})
}

// TouchSession records that a session is being used; a session at a workspace's own host counts for its main
// session. address is the client's, if not empty.
func (s *Store) TouchSession(ctx context.Context, v Session, address string) error {
	id := v.ID
	if v.ParentID != "" {
		id = v.ParentID
	}
	_, err := s.Exec(ctx, "recording the use of a session", `UPDATE sessions SET last_used_at = now(), address = COALESCE($2, address)
		WHERE id = $1`, id, postgres.NullText(address))
	return err
}

// SignInCounter counts the failed sign-ins of one kind.
type SignInCounter struct {
	// Key is a hash of the counted account, address or both.
	Key [32]byte
	// Account is a hash of the account that the counter belongs to, by which [Store.Unlock] finds it; zero for
	// none.
	Account [32]byte
	// Free is how many failures have no effect. Each further failure blocks sign-ins for a time. If Free is 0, failures
	// are counted but never block.
	Free int
	// Cleared means that taking back a sign-in resets the count to 0. Otherwise the count loses only what that
	// sign-in has added.
	Cleared bool
}

// SignInBlocks are how long sign-ins are blocked: First, doubling up to Longest. After Forget without a failure
// the count starts again.
type SignInBlocks struct{ First, Longest, Forget time.Duration }

// errBlocked ends the transaction of a sign-in that must not be counted.
var errBlocked = errors.New("blocked")

// CountSignIn adds a failure to every counter. If one of the counters blocks sign-ins now, it adds nothing and returns
// how long the block will last. Failures are those of the counters that never block. It also removes some old rows.
func (s *Store) CountSignIn(ctx context.Context, counters []SignInCounter, b SignInBlocks) (
	wait time.Duration, failures int, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `
			DELETE FROM sign_in_failures WHERE key IN (
				SELECT key FROM sign_in_failures WHERE failed_at < now() - $1::interval
				ORDER BY failed_at LIMIT 100 FOR UPDATE SKIP LOCKED)`, b.Forget); err != nil {
			return err
		}
		for _, c := range counters {
			var account []byte
			if c.Account != [32]byte{} {
				account = c.Account[:]
			}
			var n int
			err := tx.QueryRow(ctx, `
				INSERT INTO sign_in_failures AS f (key, account, failures) VALUES ($1, $5, 1)
				ON CONFLICT (key) DO UPDATE SET failures = f.failures + 1, failed_at = now(), account = $5,
					blocked_until = CASE WHEN $2 > 0 AND f.failures + 1 >= $2
						THEN now() + LEAST($4::interval, $3::interval * 2 ^ LEAST(20, f.failures + 1 - $2)) END
				WHERE f.blocked_until IS NULL OR f.blocked_until <= now()
				RETURNING failures`, c.Key[:], c.Free, b.First, b.Longest, account).Scan(&n)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				err := tx.QueryRow(ctx, `SELECT EXTRACT(epoch FROM blocked_until - now())::float8
					FROM sign_in_failures WHERE key = $1`, c.Key[:]).Scan((*seconds)(&wait))
				return errors.Join(errBlocked, err)
			case err != nil:
				return err
			case c.Free == 0:
				failures += n
			}
		}
		return nil
	})
	if err != nil && wait == 0 {
		return 0, 0, fmt.Errorf("counting a sign-in: %w", err)
	}
	return wait, failures, nil
}

// Unlock forgets the failed sign-ins of an account at all addresses, and returns the number of these addresses. account
// is the hash in the account's counters. userID is the account's user.
func (s *Store) Unlock(ctx context.Context, userID string, account [32]byte) (addresses int, err error) {
	if err := PeopleOnly(ctx); err != nil {
		return 0, err
	}
	return postgres.SelectOne(ctx, s.DB, "unlocking a user", pgx.RowTo[int], `
		WITH forgotten AS (
			DELETE FROM sign_in_failures WHERE account = @account RETURNING key
		), counted AS (
			SELECT count(*) AS n FROM forgotten
		), audit AS (
			`+audit.OfUsers+`'user.unlock', jsonb_build_object('addresses', n) FROM users, counted WHERE id = @user AND n > 0
		)
		SELECT n FROM counted`, postgres.Args{"account": account[:], "user": userID, "by": audit.Of(ctx)})
}

// seconds scans a number of seconds.
type seconds time.Duration

// ScanFloat64 implements [pgtype.Float64Scanner].
func (d *seconds) ScanFloat64(n pgtype.Float8) error {
	*d = seconds(max(n.Float64, 0.001) * float64(time.Second))
	return nil
}

// ClearSignIn takes back the failure that CountSignIn has counted for a sign-in that succeeded, or that failed for a
// reason other than the password.
func (s *Store) ClearSignIn(ctx context.Context, counters []SignInCounter) error {
	batch := &pgx.Batch{}
	for _, c := range counters {
		if c.Cleared {
			batch.Queue(`DELETE FROM sign_in_failures WHERE key = $1`, c.Key[:])
		} else {
			batch.Queue(`UPDATE sign_in_failures SET failures = failures - 1, blocked_until = NULL
				WHERE key = $1 AND failures > 0`, c.Key[:])
		}
	}
	if err := s.pool.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("taking back a counted sign-in: %w", err)
	}
	return nil
}
