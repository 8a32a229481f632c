// Package postgres gives access to the database that the processes share. It owns the connections and their limits, the
// schema and its migrations, and the notifications about changes. It also owns what processes agree on through their
// database sessions: locks, fences, and the list of processes. It must not read or write a workspace or a user:
// packages store and accounts do that.
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/dialer"
)

// connectTimeout limits how long connecting may take, unless the DSN sets connect_timeout.
const connectTimeout = 5 * time.Second

// peerLimits make the client notice a lost server after about ten seconds (SPEC 5).
var peerLimits = dialer.Limits{
	Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	Unacknowledged: 10 * time.Second,
}

// statementTimeout is how long a statement of the pool may run before the server ends it. The feed of package changes
// relies on this limit: within a minute, every revision either becomes visible or is void.
const statementTimeout = 30 * time.Second

// transactionSilence is how long a client may be silent inside a transaction before the server ends the transaction and
// its session. Otherwise, a process that is stopped inside a transaction would keep its locks: the next leader could
// not write its epoch, and no other session could change the same rows.
const transactionSilence = 5 * time.Second

// defaultMaxConns is the size of the pool when the DSN sets no pool_max_conns. No statement holds a connection for
// long, and each connection costs the server a process.
const defaultMaxConns = 10

// ErrNotFound means that the row does not exist, or that the viewer may not see it.
var ErrNotFound = errors.New("not found")

// DB is a pool of connections to the database. It is safe for concurrent use.
type DB struct {
	pool *pgxpool.Pool
	conn *pgx.ConnConfig

	// instance identifies this process among the processes that write activity.
	instance string

	// waiting is called when a migration waits for a lock; it may be nil.
	waiting func(LockWait)

	// livenessInterval is how long LISTEN waits for a notification before it pings the server; livenessTimeout
	// is how long the server may take to answer.
	livenessInterval, livenessTimeout time.Duration

	unreadable *zap.Logger // for rows that cannot be read
}

// Options configure a [DB].
type Options struct {
	// Tracer sees every statement, including those of LISTEN and of the leader's lock. It also sees batches if it is a
	// [pgx.BatchTracer]. It is for tracing, and for tests that fail or delay statements.
	Tracer pgx.QueryTracer
	// Waiting, if set, is called while [DB.Migrate] waits for locks of other sessions: after one second, and then every
	// ten seconds. It must not block.
	Waiting func(LockWait)
	// Log receives rows that cannot be read. Default: nothing is logged.
	Log *zap.Logger
}

// Open parses dsn (a URL or key=value form, with settings such as pool_max_conns) and returns a DB that
// connects when first used. It does no I/O.
func Open(dsn string, o Options) (*DB, error) {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, fmt.Errorf("parsing the PostgreSQL address: %w", err)
	}
	// The parsed value does not distinguish a setting from pgx's default.
	if !strings.Contains(dsn, "pool_max_conns") {
		cfg.MaxConns = defaultMaxConns
	}
	c := cfg.ConnConfig
	c.Tracer = o.Tracer
	c.ConnectTimeout = cmp.Or(c.ConnectTimeout, connectTimeout)
	limits := peerLimits
	limits.Connect = c.ConnectTimeout
	c.DialFunc = dialer.New(limits).DialContext
	c.RuntimeParams["application_name"] = cmp.Or(c.RuntimeParams["application_name"], "codehub")
	declare(c.RuntimeParams)
	setDefault(c.RuntimeParams, "idle_in_transaction_session_timeout", transactionSilence)
	// One statement waits for the lock, and the next one checks the limits. The second one sees the commits of other
	// transactions only if it has its own snapshot.
	c.RuntimeParams["default_transaction_isolation"] = "read committed"

	// The following limit applies only to the pool, because migrations and waits for locks take longer.
	alone := c.Copy()
	setDefault(c.RuntimeParams, "statement_timeout", statementTimeout)
	cfg.AfterConnect = readTimesInUTC
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg)
	if err != nil {
		return nil, fmt.Errorf("preparing the PostgreSQL pool: %w", err)
	}
	return &DB{
		pool: pool, conn: alone, instance: uuid.NewString(), waiting: o.Waiting,
		livenessInterval: 10 * time.Second, livenessTimeout: 5 * time.Second,
		unreadable: cmp.Or(o.Log, zap.NewNop()).WithOptions(zap.WrapCore(func(core zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(core, time.Minute, 1, 0)
		})),
	}, nil
}

// readTimesInUTC makes the connection read times in UTC. By default pgx reads them in the zone of the process.
func readTimesInUTC(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterType(&pgtype.Type{
		Name: "timestamptz", OID: pgtype.TimestamptzOID, Codec: &pgtype.TimestamptzCodec{ScanLocation: time.UTC},
	})
	return nil
}

// setDefault sets one of the server's time limits for the sessions of a client, unless the DSN sets it.
func setDefault(params map[string]string, name string, d time.Duration) {
	params[name] = cmp.Or(params[name], strconv.FormatInt(d.Milliseconds(), 10))
}

// Close closes all connections of the pool. It waits for those in use.
func (db *DB) Close() { db.pool.Close() }

// Ping checks that the server answers. It returns a [*PoolerError] if it reaches a connection pooler through which no
// process can work.
func (db *DB) Ping(ctx context.Context) error {
	if err := db.pool.Ping(ctx); err != nil {
		return fmt.Errorf("pinging PostgreSQL: %w", connecting(err))
	}
	return checkSession(ctx, db.pool)
}

// ConnConfig returns a copy of the connection settings, timeouts included, for connections outside the pool:
// the leader's lock and LISTEN.
func (db *DB) ConnConfig() *pgx.ConnConfig { return db.conn.Copy() }

// Pool returns the pool itself, for the packages that hold statements.
func (db *DB) Pool() *pgxpool.Pool { return db.pool }
