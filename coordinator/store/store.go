// Package store is the coordinator's PostgreSQL: the schema and its migrations,
// every query, and the notifications that tell of changes. It decides nothing:
// what may be wished for is asked of package service, what is done next of
// package reconcile. Its statements are written so that the rules that must hold
// under concurrency (compare-and-swap, fencing, limits) hold inside PostgreSQL.
package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Limits in time within which a peer that went away without a word is noticed. A
// partitioned leader must notice well before anybody would call it hung (SPEC 5).
const (
	connectTimeout    = 5 * time.Second
	keepAliveIdle     = 5 * time.Second
	keepAliveInterval = 2 * time.Second
	keepAliveCount    = 3
	// userTimeout bounds how long written data may stay unacknowledged.
	userTimeout = 10 * time.Second
)

// defaultMaxConns is the size of the pool when the DSN sets no pool_max_conns.
// Nothing here holds a connection for long, and each costs the server a process.
const defaultMaxConns = 10

// ErrNotFound says that there is no such row, or none that may be seen.
var ErrNotFound = errors.New("not found")

// Store is a pool of connections and the queries of the coordinator. It is safe
// for concurrent use.
type Store struct {
	pool *pgxpool.Pool
	conn *pgx.ConnConfig

	// running admits one wish for RUNNING at a time. They take turns at the lock
	// in PostgreSQL anyway; waiting here keeps them from filling the pool, which
	// the controller needs too.
	running chan struct{}

	// livenessInterval is how long LISTEN may be silent before the connection is
	// asked whether it lives; livenessTimeout how long it has to answer.
	livenessInterval, livenessTimeout time.Duration
}

// Open parses dsn (a URL or key=value form; pool_max_conns and the like are
// understood) and returns a Store that connects when first used. It does no I/O.
func Open(dsn string) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parsing the PostgreSQL address: %w", err)
	}
	// The parsed value does not tell a setting from pgx's default.
	if !strings.Contains(dsn, "pool_max_conns") {
		cfg.MaxConns = defaultMaxConns
	}
	c := cfg.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	c.DialFunc = dialer(c.ConnectTimeout).DialContext
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "codehub"
	}
	// Limits are checked by the statement after the one that waits for the lock.
	// That sees what others have committed only if it has a snapshot of its own.
	c.RuntimeParams["default_transaction_isolation"] = "read committed"

	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the PostgreSQL pool: %w", err)
	}
	return &Store{
		pool: pool, conn: c.Copy(),
		running:          make(chan struct{}, 1),
		livenessInterval: 10 * time.Second, livenessTimeout: 5 * time.Second,
	}, nil
}

// dialer returns a dialer whose connections fail soon after the peer is gone,
// instead of after the kernel's two hours.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: timeout,
		KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: keepAliveIdle, Interval: keepAliveInterval, Count: keepAliveCount,
		},
		Control: limitUnacknowledged,
	}
}

// Close ends all connections of the pool and waits for those in use.
func (s *Store) Close() { s.pool.Close() }

// Ping asks the server for an answer.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.pool.Ping(ctx); err != nil {
		return fmt.Errorf("asking PostgreSQL for an answer: %w", err)
	}
	return nil
}

// Pool is for packages of the coordinator that own queries of their own.
func (s *Store) Pool() *pgxpool.Pool { return s.pool }

// ConnConfig returns a copy of the connection settings, timeouts included, for a
// connection that must not come from the pool: the leader's lock, LISTEN.
func (s *Store) ConnConfig() *pgx.ConnConfig { return s.conn.Copy() }
