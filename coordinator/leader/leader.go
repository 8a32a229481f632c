// Package leader elects one process among many (SPEC 5). Leading means holding a
// session-level advisory lock of PostgreSQL on a connection of its own: losing the
// connection is losing the leadership.
//
// Three things keep a former leader from acting. The context of its work ends as
// soon as the connection breaks. It also ends when the server has not answered for
// [Options.LeaseDuration], which is sooner than the server gives the lock to
// another process. And every term has an epoch, larger than the one before, on
// which each write to the database is conditional: a process that slept through
// both changes nothing.
//
// It owns the lock, its connection and the epoch. It must not know what a leader
// does: that is the function given to [Elector.Run].
package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
)

// Defaults of [Options] and [Settings].
const (
	DefaultLock          = "coordinator"
	DefaultLockID        = 12345
	DefaultRetryInterval = 5 * time.Second
	DefaultLeaseDuration = 5 * time.Second
)

// minLease is the shortest lease: a busy server needs that long to answer.
const minLease = 100 * time.Millisecond

// Settings can be changed while the elector runs.
type Settings struct {
	// RetryInterval is the wait after a failed connection, and how long one wait for
	// the lock lasts before it is renewed; ±25 % (COORDINATOR_RETRY_INTERVAL). A
	// hand-over does not wait for it. Default [DefaultRetryInterval].
	RetryInterval time.Duration
}

// DefaultSettings are those of SPEC 5.
func DefaultSettings() Settings { return Settings{RetryInterval: DefaultRetryInterval} }

// Validate reports what is wrong with the settings, under the option's name.
func (s Settings) Validate() error {
	if s.RetryInterval <= 0 {
		return fmt.Errorf("retry_interval: %s; give a duration above zero, such as 5s", s.RetryInterval)
	}
	return nil
}

// Options are what an [Elector] is made from.
type Options struct {
	// Conn says how to reach PostgreSQL. It must come from [pgx.ParseConfig], and
	// lead to the server itself: a pooler that shares sessions shares locks too.
	Conn *pgx.ConnConfig
	// Lock names the row in system_locks. Default [DefaultLock].
	Lock string
	// LockID is the key of the advisory lock (COORDINATOR_LOCK_ID). Processes that
	// are to elect one leader share Lock and LockID. Default [DefaultLockID].
	LockID int64
	// Node names this process in system_locks. Default: the host name.
	Node string
	// LeaseDuration is how long the leader may act without an answer from the server.
	// The server ends a silent session after twice that, so a leader that is cut off
	// is replaced after at most about two lease durations. At least 100 ms. Default
	// [DefaultLeaseDuration].
	LeaseDuration time.Duration
	// Settings hold until [Elector.Set] changes them; zero fields take the defaults.
	Settings Settings
}

// withDefaults returns the options with the default of every field that is not set.
func (o Options) withDefaults() Options {
	if o.Lock == "" {
		o.Lock = DefaultLock
	}
	if o.LockID == 0 {
		o.LockID = DefaultLockID
	}
	if o.Node == "" {
		o.Node, _ = os.Hostname() // an empty name is refused by Validate
	}
	if o.LeaseDuration == 0 {
		o.LeaseDuration = DefaultLeaseDuration
	}
	if o.Settings.RetryInterval == 0 {
		o.Settings.RetryInterval = DefaultRetryInterval
	}
	return o
}

// Validate reports everything that is wrong with the options at once.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Conn == nil {
		errs = append(errs, errors.New("leader: no database connection is configured"))
	}
	if o.Node == "" {
		errs = append(errs, errors.New("node_id: the host has no name; set COORDINATOR_NODE_ID"))
	}
	if o.LeaseDuration < minLease {
		errs = append(errs, fmt.Errorf("leader: a lease duration of %s is shorter than %s", o.LeaseDuration, minLease))
	}
	return errors.Join(append(errs, o.Settings.Validate())...)
}

// Status is what /health/coordinator shows (SPEC 5).
type Status struct {
	// IsLeader says whether this process is in a term. Before a destructive action, ask
	// [Elector.HoldsLease] instead.
	IsLeader bool
	// NodeID is [Options.Node].
	NodeID string
}

// Elector takes part in one election. Its methods are safe for concurrent use.
type Elector struct {
	opts    Options
	log     *zap.Logger
	outage  *outage.Reporter
	retry   atomic.Int64
	heard   heartbeat
	leading atomic.Bool
}

// New returns an elector. It performs no I/O.
func New(opts Options, log *zap.Logger) (*Elector, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	log = log.With(zap.String("lock", opts.Lock), zap.String("node", opts.Node))
	e := &Elector{opts: opts, log: log, outage: outage.New(log, zap.ErrorLevel,
		"taking part in the leader election failed; it is tried again", "taking part in the leader election works again")}
	e.Set(opts.Settings)
	return e, nil
}

// Set changes the settings from the next wait on. Values that Validate refuses are
// replaced by the defaults.
func (e *Elector) Set(s Settings) {
	if s.RetryInterval <= 0 {
		s.RetryInterval = DefaultRetryInterval
	}
	e.retry.Store(int64(s.RetryInterval))
}

// Status tells whether this process leads. It performs no I/O.
func (e *Elector) Status() Status {
	return Status{IsLeader: e.leading.Load(), NodeID: e.opts.Node}
}

// HoldsLease reports whether this process leads and the server has confirmed that
// within [Options.LeaseDuration]. Ask before anything that cannot be undone: a
// process that was stopped and continues may not have noticed its loss yet. It
// performs no I/O.
func (e *Elector) HoldsLease() bool {
	return e.leading.Load() && e.heard.within(e.opts.LeaseDuration)
}

// longTerm is how long a term must last for its end not to count as a failure of
// the leader's work.
const longTerm = time.Minute

// Run takes part in the election until ctx ends, and calls lead for each term. The
// context of lead ends with the term; lead MUST return soon after, because the elector
// does not wait for the lock again before that. When lead returns earlier, with or
// without an error, the elector resigns and, after a pause that grows with repeated
// failures, waits for the lock again.
//
// Run returns nil after ctx has ended, lead has returned and the lock is released.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, f store.Fence) error) error {
	// The pause after a first lost term is short: often only the connection was lost,
	// and no other process wants the lock.
	again := backoff.ExponentialBackOff{
		InitialInterval: 200 * time.Millisecond, MaxInterval: 30 * time.Second, Multiplier: 2, RandomizationFactor: 0.25,
	}
	for {
		began, err := e.session(ctx, lead)
		if ctx.Err() != nil {
			return nil
		}
		var pause time.Duration
		if began.IsZero() {
			e.outage.Failed(err)
			pause = jitter(time.Duration(e.retry.Load()))
		} else {
			e.log.Error("this process is no longer the leader; it takes part in the election again", zap.Error(err))
			if time.Since(began) > longTerm {
				again.Reset()
			}
			pause = again.NextBackOff()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// jitter spreads d by ±25 %, so that processes that lost the server at the same time do
// not all reconnect at the same time.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
