package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/dialer"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

var (
	// errResigned means that the lead function returned although the term had not ended.
	errResigned = errors.New("the leader's work ended before its term")
	// errShared ends the term of a shard that another process should lead.
	errShared = errors.New("another process is to lead this shard")
)

// lockNotAvailable is the SQLSTATE of a wait that lock_timeout ended.
const lockNotAvailable = "55P03"

// pollInterval is the time after which a process looks for shards without a leader. It is needed because a killed
// process does not announce its end.
const pollInterval = 250 * time.Millisecond

// session is one connection and the terms that depend on it.
type session struct {
	*Elector
	conn  *pgx.Conn
	space int32           // see balance.go
	work  context.Context // ends when all work is to end
	lead  func(context.Context, Term) error
	heard heartbeat
	bell  bell
	terms map[int]*term // by shard, until their work has ended and the lock is given back
	ended chan *term    // terms whose work has ended
	// several means that this session holds the lock that keeps processes with one shard from leading. surplus means
	// that the last look found shards to give up.
	several, surplus bool
	began            time.Time    // when the first term began
	confirmed        clock.Moment // when the epochs were last compared
}

// session opens one connection and leads shards on it. It ends when the connection is lost, when ctx ends, or when the
// work of a term returns early. It returns the time at which its first term began, or zero if there was none, and the
// reason why the session ended.
func (e *Elector) session(ctx context.Context, lead func(context.Context, Term) error) (began time.Time, err error) {
	conn, err := e.connect(ctx)
	if err != nil {
		return time.Time{}, err
	}
	// Closing the connection releases the locks in any case. It is bounded, because it must not wait for a PostgreSQL
	// that does not answer.
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	s := &session{
		Elector: e, conn: conn, work: ctx, lead: lead, space: space(e.opts.LockID),
		terms: make(map[int]*term), ended: make(chan *term, e.opts.Shards),
	}
	if err := s.mayLead(ctx); err != nil {
		return time.Time{}, err
	}
	s.heard.beat(clock.Now())
	err = guard.Call(guard.Component, func() error {
		if err := s.enter(ctx); err != nil {
			return err
		}
		return s.hold(ctx)
	})
	if guard.Panicked(err) {
		s.abandon(err)
	}
	return s.began, err
}

// abandon ends all terms after a panic in the session itself. Closing the session's connection releases the locks, so
// abandon first waits until the work of the terms has ended. The wait is bounded, because the session's own state may
// be wrong. The epochs stop any work that ends later.
func (s *session) abandon(err error) {
	s.revokeAll(err)
	limit := time.After(s.opts.LeaseDuration)
	for range s.terms {
		select {
		case <-s.ended:
		case <-limit:
			return
		}
	}
}

// mayLead returns an error if this process is too old for the schema to lead (SPEC 12.14). When a process becomes too
// old, PostgreSQL ends its epochs. If it gets a lock that it was waiting for, PostgreSQL refuses it a new epoch.
func (s *session) mayLead(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, s.opts.LeaseDuration)
	defer cancel()
	r, err := postgres.ReadRelease(bounded, s.conn)
	if err != nil {
		return err
	}
	err = r.MayLead()
	s.refused(err)
	return err
}

// enter waits for the lock of the only shard and begins its term, or joins the processes that share several.
func (s *session) enter(ctx context.Context) error {
	if s.opts.Shards > 1 {
		bounded, cancel := context.WithTimeout(ctx, s.opts.LeaseDuration)
		defer cancel()
		return s.join(bounded)
	}
	if err := s.acquire(ctx); err != nil {
		return err
	}
	s.heard.beat(clock.Now())
	bounded, cancel := context.WithTimeout(ctx, s.opts.LeaseDuration)
	defer cancel()
	if err := s.begin(bounded, 0); err != nil {
		return err
	}
	s.outage.Recovered()
	return nil
}

// connect opens the connection, and makes each end notice the loss of the other. With the operating systems' defaults
// that would take hours.
func (e *Elector) connect(ctx context.Context) (*pgx.Conn, error) {
	lease := e.opts.LeaseDuration
	cfg := e.opts.Conn.Copy()
	cfg.DialFunc = dialer.New(dialer.Limits{
		Connect: lease,
		Idle:    max(lease/5, time.Second), Interval: time.Second, Count: max(int(lease/time.Second)-1, 1),
		Unacknowledged: lease,
	}).DialContext
	cfg.ConnectTimeout = cmp.Or(cfg.ConnectTimeout, 2*lease)
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connecting for the leader's lock: %w", err)
	}
	for _, s := range e.serverSettings() {
		// The settings are made one by one, and errors are not fatal, so that a PostgreSQL that is too old to know one
		// of them still gets the others.
		if _, err := conn.Exec(ctx, "SELECT set_config($1, $2, false)", s.name, s.value); err != nil {
			if conn.IsClosed() {
				return nil, fmt.Errorf("setting %s for the leader's lock: %w", s.name, err)
			}
			e.log.Warn("the database refused a setting of the leader's connection; "+
				"replacing a leader that is cut off may take longer",
				zap.String(logkey.Setting, s.name), zap.Error(err))
		}
	}
	return conn, nil
}

// serverSetting is a parameter of a PostgreSQL session.
type serverSetting struct{ name, value string }

// serverSettings make PostgreSQL end this session when its client is gone, cut off, or stopped. That happens only after
// the client's own lease has ended.
func (e *Elector) serverSettings() []serverSetting {
	silence := strconv.FormatInt(e.opts.silence().Milliseconds(), 10)
	seconds := strconv.Itoa(max(int(e.opts.silence()/time.Second), 2))
	return []serverSetting{
		{"application_name", "codehub leader " + e.opts.Node},
		{"idle_session_timeout", silence},
		{"idle_in_transaction_session_timeout", silence},
		{"tcp_user_timeout", silence},
		{"tcp_keepalives_idle", "1"},
		{"tcp_keepalives_interval", "1"},
		{"tcp_keepalives_count", seconds},
		// PostgreSQL must not give the lock to a process that was killed while it waited.
		{"client_connection_check_interval", "500"},
	}
}

// acquire waits for the lock of the only shard. It does not poll, but lets PostgreSQL wait, so that the next leader has
// the lock as soon as the last leader's session ends. Each wait is bounded, because a waiting statement holds a
// snapshot, and because a waiting client does not notice that it has lost the server.
func (s *session) acquire(ctx context.Context) error {
	for {
		wait := jitter(time.Duration(s.retry.Load()))
		if _, err := s.conn.Exec(ctx, "SELECT set_config('lock_timeout', $1, false)",
			strconv.FormatInt(max(wait.Milliseconds(), 1), 10)); err != nil {
			return fmt.Errorf("bounding the wait for the leader's lock: %w", err)
		}
		bounded, cancel := context.WithTimeout(ctx, wait+s.opts.LeaseDuration)
		_, err := s.conn.Exec(bounded, "SELECT pg_advisory_lock($1)", s.opts.LockID)
		cancel()
		if err == nil {
			return nil
		}
		var pg *pgconn.PgError
		if !errors.As(err, &pg) || pg.Code != lockNotAvailable {
			return fmt.Errorf("waiting for the leader's lock: %w", err)
		}
		s.outage.Recovered() // another process leads, as the server has answered
	}
}

// hold maintains the terms of the session, and takes and gives up shards, until the session ends. It keeps the locks
// and renews the lease until the work of every term has ended.
func (s *session) hold(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.bell.ring)
	defer stop()
	var over error // why the session ends, once it does
	for {
		if err := s.wait(); err != nil {
			return s.lose(err)
		}
		if ctx.Err() != nil && over == nil {
			over = ctx.Err()
		}
		if err := s.settle(&over); err != nil {
			return s.lose(err)
		}
		if over != nil {
			s.revokeAll(over)
			if len(s.terms) == 0 {
				s.part()
				return over
			}
		}
		if err := s.renew(over == nil); err != nil {
			return s.lose(err)
		}
	}
}

// wait returns nil when the next look is due, a process has sent a hint, or a bell rang. It returns an error
// when the connection is lost.
func (s *session) wait() error {
	interval := s.opts.LeaseDuration / 5
	if s.opts.Shards > 1 {
		interval = min(interval, pollInterval)
	}
	quiet, cancel := s.bell.listen(interval)
	defer cancel()
	_, err := s.conn.WaitForNotification(quiet)
	if err != nil && (quiet.Err() == nil || s.conn.IsClosed()) {
		return fmt.Errorf("the connection that holds the leader's lock is lost: %w", err)
	}
	return nil
}

// settle releases the locks of terms whose work has ended. Work that returned early ends the session; over
// holds the reason.
func (s *session) settle(over *error) error {
	for {
		select {
		case t := <-s.ended:
			if t.ctx.Err() == nil && *over == nil {
				if *over = t.err; *over == nil {
					*over = errResigned
				}
			}
			s.revoke(t, nil)
			if err := s.giveBack(t); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// renew extends the lease: it asks the server whether the epochs are still this process's own. With several
// shards it also balances the shares.
func (s *session) renew(share bool) error {
	// The end of the work must not cancel these statements. A cancelled statement closes the connection, which is still
	// needed to release the locks.
	bounded, cancel := context.WithDeadline(context.Background(), s.heard.deadline(s.opts.LeaseDuration))
	defer cancel()
	if share && s.opts.Shards > 1 {
		if err := s.share(bounded); err != nil {
			return err
		}
	}
	asked := clock.Now()
	if len(s.terms) == 0 || s.confirmed.Elapsed() < s.opts.LeaseDuration/6 {
		return nil
	}
	if err := s.confirm(bounded); err != nil {
		return err
	}
	s.heard.beat(asked)
	s.confirmed = asked
	return nil
}

// lose ends all terms because the connection is lost, waits for their work, and returns the reason.
func (s *session) lose(err error) error {
	s.revokeAll(err) // before anything else: other processes may lead from now on
	for range s.terms {
		<-s.ended
	}
	return err
}

// revokeAll ends all terms.
func (s *session) revokeAll(cause error) {
	for _, t := range s.terms {
		s.revoke(t, cause)
	}
}
