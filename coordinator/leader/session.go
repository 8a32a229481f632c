package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dialer"
	"github.com/codehub/gateway/coordinator/store"
)

// errResigned says that the lead function returned although the term had not ended.
var errResigned = errors.New("the leader's work ended before its term")

// lockNotAvailable is the SQLSTATE of a wait that lock_timeout ended.
const lockNotAvailable = "55P03"

// session opens one connection, waits for the lock on it and leads for as long as
// it holds the lock. It returns when its term began, zero when there was none, and why
// the session ended.
func (e *Elector) session(ctx context.Context, lead func(context.Context, store.Fence) error) (began time.Time, err error) {
	conn, err := e.connect(ctx)
	if err != nil {
		return time.Time{}, err
	}
	// Closing the connection releases the lock in any case; it must not wait for a
	// server that does not answer.
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if err := e.acquire(ctx, conn); err != nil {
		return time.Time{}, err
	}
	epoch, err := e.nextEpoch(ctx, conn)
	if err != nil {
		return time.Time{}, err
	}
	e.outage.Recovered()
	return time.Now(), e.term(ctx, conn, epoch, lead)
}

// connect opens the connection and makes both ends notice when the other is gone:
// the operating systems' own defaults are hours.
func (e *Elector) connect(ctx context.Context) (*pgx.Conn, error) {
	lease := e.opts.LeaseDuration
	cfg := e.opts.Conn.Copy()
	cfg.DialFunc = dialer.New(dialer.Limits{
		Connect: lease,
		Idle:    max(lease/5, time.Second), Interval: time.Second, Count: max(int(lease/time.Second)-1, 1),
		Unacknowledged: lease,
	}).DialContext
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 2 * lease
	}
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting for the leader's lock: %w", err)
	}
	for _, s := range e.serverSettings() {
		// One by one, and errors are not fatal: a server too old to know one of them
		// still has the others.
		if _, err := conn.Exec(ctx, "SELECT set_config($1, $2, false)", s.name, s.value); err != nil {
			if conn.IsClosed() {
				return nil, fmt.Errorf("setting %s for the leader's lock: %w", s.name, err)
			}
			e.log.Warn("the database refused a setting of the leader's connection; "+
				"replacing a leader that is cut off may take longer",
				zap.String("setting", s.name), zap.Error(err))
		}
	}
	return conn, nil
}

// setting is a parameter of a PostgreSQL session.
type setting struct{ name, value string }

// serverSettings make the server end this session when its client is gone, has
// been cut off, or is stopped, and only after the client's own lease has ended.
func (e *Elector) serverSettings() []setting {
	silence := strconv.FormatInt((2 * e.opts.LeaseDuration).Milliseconds(), 10)
	seconds := strconv.Itoa(max(int(2*e.opts.LeaseDuration/time.Second), 2))
	return []setting{
		{"application_name", "codehub leader " + e.opts.Node},
		{"idle_session_timeout", silence},
		{"tcp_user_timeout", silence},
		{"tcp_keepalives_idle", "1"},
		{"tcp_keepalives_interval", "1"},
		{"tcp_keepalives_count", seconds},
		// A process that is killed while it waits for the lock must not be given it.
		{"client_connection_check_interval", "500"},
	}
}

// acquire waits for the lock. It asks PostgreSQL to wait instead of polling, so that
// the next leader has the lock the moment the last one's session ends. Each wait is
// bounded: it holds a snapshot, and nothing tells a waiting client that its server
// is gone.
func (e *Elector) acquire(ctx context.Context, conn *pgx.Conn) error {
	for {
		wait := jitter(time.Duration(e.retry.Load()))
		if _, err := conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)",
			strconv.FormatInt(max(wait.Milliseconds(), 1), 10)); err != nil {
			return fmt.Errorf("bounding the wait for the leader's lock: %w", err)
		}
		bounded, cancel := context.WithTimeout(ctx, wait+e.opts.LeaseDuration)
		_, err := conn.Exec(bounded, "SELECT pg_advisory_lock($1)", e.opts.LockID)
		cancel()
		if err == nil {
			return nil
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != lockNotAvailable {
			return fmt.Errorf("waiting for the leader's lock: %w", err)
		}
		e.outage.Recovered() // another process leads, and the server says so
	}
}

// nextEpoch makes this term's fencing value, on the connection that holds the lock.
func (e *Elector) nextEpoch(ctx context.Context, conn *pgx.Conn) (epoch int64, err error) {
	asked := time.Now()
	bounded, cancel := context.WithTimeout(ctx, e.opts.LeaseDuration)
	defer cancel()
	err = conn.QueryRow(bounded, `
		INSERT INTO system_locks AS l (lock_name, holder_id, epoch, acquired_at)
		VALUES ($1, $2, 1, now())
		ON CONFLICT (lock_name) DO UPDATE
		SET holder_id = excluded.holder_id, epoch = l.epoch + 1, acquired_at = now()
		RETURNING epoch`, e.opts.Lock, e.opts.Node).Scan(&epoch)
	if err != nil {
		return 0, fmt.Errorf("beginning the leader's epoch: %w", err)
	}
	e.heard.beat(asked)
	return epoch, nil
}

// term runs lead while a second goroutine watches the connection. The lock is kept,
// and the connection watched, until lead has returned.
func (e *Elector) term(ctx context.Context, conn *pgx.Conn, epoch int64, lead func(context.Context, store.Fence) error) error {
	leading, revoke := context.WithCancelCause(ctx)
	defer revoke(nil)
	watching, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	lost := make(chan error, 1)
	e.leading.Store(true)
	e.log.Info("this process is the leader now", zap.Int64("epoch", epoch))
	go func() {
		err := e.watch(watching, conn, epoch)
		// Revoke before anything else: another process may lead from now on.
		revoke(err)
		e.leading.Store(false)
		lost <- err
	}()
	err := lead(leading, store.Fence{Lock: e.opts.Lock, Epoch: epoch})
	e.leading.Store(false)
	unwatch()
	if loss := <-lost; loss != nil {
		return loss
	}
	e.release(ctx, conn)
	if err == nil {
		err = errResigned
	}
	return err
}

// watch returns nil when ctx ends, and an error as soon as the leadership is lost:
// when the connection breaks, when the server has not answered for the lease
// duration, or when another process has begun an epoch.
func (e *Elector) watch(ctx context.Context, conn *pgx.Conn, epoch int64) error {
	for {
		wait, cancel := context.WithTimeout(ctx, e.opts.LeaseDuration/5)
		_, err := conn.WaitForNotification(wait)
		quiet := wait.Err() != nil
		cancel()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && (!quiet || conn.IsClosed()) {
			return fmt.Errorf("the connection that holds the leader's lock is lost: %w", err)
		}
		// Not cut short by ctx: that would close the connection, on which the lock is
		// still to be released.
		if err := e.renew(context.WithoutCancel(ctx), conn, epoch); err != nil {
			return err
		}
	}
}

// renew extends the lease: it asks the server whether the epoch is still this
// process's own.
func (e *Elector) renew(ctx context.Context, conn *pgx.Conn, epoch int64) error {
	asked := time.Now()
	bounded, cancel := context.WithDeadline(ctx, e.heard.deadline(e.opts.LeaseDuration))
	defer cancel()
	var now int64
	err := conn.QueryRow(bounded, "SELECT epoch FROM system_locks WHERE lock_name = $1", e.opts.Lock).Scan(&now)
	if err != nil {
		return fmt.Errorf("the server does not confirm the leader's lock: %w", err)
	}
	if now != epoch {
		return fmt.Errorf("epoch %d has begun while epoch %d held the lock: two lock ids are in use for %q", now, epoch, e.opts.Lock)
	}
	e.heard.beat(asked)
	return nil
}

// release unlocks, so that the next leader need not wait for the server to see the
// connection close.
func (e *Elector) release(ctx context.Context, conn *pgx.Conn) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if _, err := conn.Exec(bounded, "SELECT pg_advisory_unlock($1)", e.opts.LockID); err != nil {
		e.log.Debug("the lock was not released explicitly; closing the connection releases it", zap.Error(err))
	}
}
