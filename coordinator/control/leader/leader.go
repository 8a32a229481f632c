// Package leader elects, for each shard of the workspaces, one process among many (SPEC 5). The leader of a shard holds
// a session-level advisory lock of PostgreSQL on a connection of its own. If it loses the connection, it loses the
// leadership.
//
// With one shard, all processes wait for the shard's lock, so the next leader gets it as soon as the last leader's
// session ends. With several shards, the processes find one another by the locks of their sessions, and divide the
// shards between them (see balance.go).
//
// Three mechanisms keep a former leader from acting. First, the context of its work ends as soon as the connection
// breaks. Second, the context ends when PostgreSQL has not answered for [Options.LeaseDuration]. That is before
// PostgreSQL gives the lock to another process. Third, every term has an epoch that is larger than that of the term
// before, and each write to the database is conditional on that epoch. So a process that was suspended when its context
// should have ended changes nothing.
//
// It owns the locks, their connection and the epochs. It must not know what a leader does: that is the function
// given to [Elector.Run].
package leader

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Defaults of [Options] and [Settings].
const (
	DefaultLock          = "coordinator"
	DefaultLockID        = 12345
	DefaultShards        = 1
	DefaultRetryInterval = 5 * time.Second
	// DefaultLeaseDuration is long enough for five renewals, so that a term does not end only because PostgreSQL is
	// busy. It is short enough that a stopped leader is replaced within five seconds (see [Options.silence]).
	DefaultLeaseDuration = 3 * time.Second
)

// MaxShards is the largest number of shards. A shard costs a loop, and a few queries every 15 s.
const MaxShards = 64

// minLease is the shortest lease: a busy server needs that long to answer.
const minLease = 100 * time.Millisecond

// Settings can be changed while the elector runs.
type Settings struct {
	// RetryInterval is the pause after a failed connection. It is also how long one statement waits for the lock before
	// it is repeated. Both vary by ±25 % (COORDINATOR_RETRY_INTERVAL). A change of the leader does not wait for it.
	// Default [DefaultRetryInterval].
	RetryInterval time.Duration
}

// DefaultSettings returns the defaults of SPEC 5.
func DefaultSettings() Settings { return Settings{RetryInterval: DefaultRetryInterval} }

// Validate returns what is wrong with the settings, under the option's name.
func (s Settings) Validate() error {
	if s.RetryInterval <= 0 {
		return setting.Errorf("coordinator retry_interval", "%s; give a duration above zero, such as 5s", s.RetryInterval)
	}
	return nil
}

// Options configure an [Elector].
type Options struct {
	// Conn is the configuration of the connection to PostgreSQL. It must come from [pgx.ParseConfig]. It must lead
	// directly to PostgreSQL, because with a pooler that shares sessions, processes would share locks, too.
	Conn *pgx.ConnConfig
	// Lock names the rows in system_locks: "coordinator" with one shard, "coordinator/0" and so on with
	// several. Default [DefaultLock].
	Lock string
	// LockID is the key of the advisory lock (COORDINATOR_LOCK_ID). The keys of the shards' locks are derived from it.
	// Processes of one installation have the same Lock and LockID. Default [DefaultLockID].
	LockID int64
	// Shards is how many parts the workspaces are split into, at most [MaxShards] (COORDINATOR_SHARDS).
	// Processes with different numbers of shards never lead at the same time: those with the smallest number lead.
	// Default [DefaultShards].
	Shards int
	// Node names this process in system_locks. Default: the host name.
	Node string
	// LeaseDuration is how long the leader may act without an answer from PostgreSQL. PostgreSQL ends a silent session
	// after one and a half times LeaseDuration. Within that time, a leader that is stopped or cut off is replaced. At
	// least 100 ms. Default [DefaultLeaseDuration].
	LeaseDuration time.Duration
	// Settings apply until [Elector.Set] changes them; zero fields take the defaults.
	Settings Settings
}

// withDefaults returns the options with the default of every field that is not set.
func (o Options) withDefaults() Options {
	o.Lock = cmp.Or(o.Lock, DefaultLock)
	o.LockID = cmp.Or(o.LockID, DefaultLockID)
	o.Shards = cmp.Or(o.Shards, DefaultShards)
	if o.Node == "" {
		o.Node, _ = os.Hostname() // an empty name is refused by Validate
	}
	o.LeaseDuration = cmp.Or(o.LeaseDuration, DefaultLeaseDuration)
	o.Settings.RetryInterval = cmp.Or(o.Settings.RetryInterval, DefaultRetryInterval)
	return o
}

// Validate returns everything that is wrong with the options.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Conn == nil {
		errs = append(errs, setting.Errorf("leader", "no database connection is configured"))
	}
	if o.Node == "" {
		errs = append(errs, setting.Errorf("coordinator node_id", "the host has no name; set COORDINATOR_NODE_ID"))
	}
	if o.LeaseDuration < minLease {
		errs = append(errs, setting.Errorf("leader", "a lease duration of %s is shorter than %s", o.LeaseDuration, minLease))
	}
	return errors.Join(append(errs, CheckShards(o.Shards), o.Settings.Validate())...)
}

// CheckShards returns an error if the number of shards is invalid; it names the option.
func CheckShards(n int) error {
	if n < 1 || n > MaxShards {
		return setting.Errorf("coordinator shards", "%d; give a number from 1 to %d", n, MaxShards)
	}
	return nil
}

// silence is the time without a request after which PostgreSQL ends the session. PostgreSQL measures it from its last
// answer, but the lease is measured from the request before that answer. So at least half a lease remains between the
// end of the lease and the end of the session. It is needed for the last request that was sent under the lease, and
// because clocks may differ in speed.
func (o Options) silence() time.Duration { return o.LeaseDuration * 3 / 2 }

// lockName is the name of a shard's row in system_locks.
func (o Options) lockName(shard int) string {
	if o.Shards == 1 {
		return o.Lock
	}
	return fmt.Sprintf("%s/%d", o.Lock, shard)
}

// Term is one leadership of one shard.
type Term struct {
	// Fence is the condition of every write of the term.
	Fence postgres.Fence
	// Shard is the leader's part of the workspaces, from 0 to Shards-1.
	Shard, Shards int
	// Lease reports whether the term continues, and whether PostgreSQL has confirmed that within
	// [Options.LeaseDuration]. Call it before anything that cannot be undone: a process that was stopped and continues
	// may not have noticed yet that it no longer leads. It performs no I/O.
	Lease func() bool
}

// Status is what /health/coordinator shows to administrators (SPEC 5).
type Status struct {
	// IsLeader is whether this process leads a shard. Before a destructive action, call [Term.Lease] instead.
	IsLeader bool
	// NodeID is [Options.Node].
	NodeID string
	// Led are the shards that this process leads, in ascending order; Shards is the number of all shards.
	Led    []int
	Shards int
	// Refused is why this process must not lead although it runs: a [*postgres.OlderError], or nil.
	Refused error
}

// Elector takes part in the election of each shard. Its methods are safe for concurrent use.
type Elector struct {
	opts   Options
	log    *zap.Logger
	outage *outage.Reporter
	retry  atomic.Int64

	mu  sync.Mutex
	led []int // the shards whose terms go on, sorted
	// yielding is the number of shards of the processes for which this one waits, or 0. A change of it is logged.
	yielding int
	// older is the finding of the last session: see [Status.Refused].
	older error
}

// New returns an elector. It performs no I/O.
func New(opts Options, log *zap.Logger) (*Elector, error) {
	opts = opts.withDefaults()
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	log = log.With(zap.String(logkey.Lock, opts.Lock), zap.String(logkey.Node, opts.Node))
	e := &Elector{opts: opts, log: log, outage: outage.New(log, zap.ErrorLevel,
		"taking part in the leader election failed; it is tried again",
		"taking part in the leader election works again")}
	e.Set(opts.Settings)
	return e, nil
}

// Set changes the settings from the next wait on. Values that Validate refuses are replaced by the defaults.
func (e *Elector) Set(s Settings) {
	if s.RetryInterval <= 0 {
		s.RetryInterval = DefaultRetryInterval
	}
	e.retry.Store(int64(s.RetryInterval))
}

// Status returns the shards that this process leads. It performs no I/O.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return Status{IsLeader: len(e.led) > 0, NodeID: e.opts.Node, Led: slices.Clone(e.led), Shards: e.opts.Shards,
		Refused: e.older}
}

// refused records why this process must not lead, or nil.
func (e *Elector) refused(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.older = err
}

// leads records whether this process leads a shard.
func (e *Elector) leads(shard int, yes bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, found := slices.BinarySearch(e.led, shard)
	switch {
	case yes && !found:
		e.led = slices.Insert(e.led, i, shard)
	case !yes && found:
		e.led = slices.Delete(e.led, i, i+1)
	}
}

// longTerm is how long a session must have led for its end not to count as a failure of the leader's work.
const longTerm = time.Minute

// Run takes part in the election until ctx ends, and calls lead for each term. With several shards, several
// terms may run at the same time. The context of lead ends with the term. lead MUST then return soon, because the
// elector does not release the lock before lead has returned. If lead returns earlier, with or without an error, the
// elector resigns from all shards. After a pause, which grows with repeated failures, it takes part in the election
// again.
//
// Run returns nil after ctx has ended, every lead has returned and the locks are released.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, t Term) error) error {
	// The first pause after a lost term is short, because often only the connection was lost and no other process wants
	// the lock.
	again := backoff.ExponentialBackOff{
		InitialInterval: 200 * time.Millisecond, MaxInterval: 30 * time.Second, Multiplier: 2,
		RandomizationFactor: 0.25,
	}
	for {
		began, err := e.session(ctx, lead)
		if ctx.Err() != nil {
			if !began.IsZero() && e.opts.Shards == 1 { // with several, each shard has its own line
				e.log.Info("this process has resigned as the leader")
			}
			return nil
		}
		var pause time.Duration
		if began.IsZero() {
			e.outage.Failed(err)
			pause = jitter(time.Duration(e.retry.Load()))
		} else {
			e.log.Warn("this process is no longer the leader; it takes part in the election again",
				zap.Error(err), guard.Stack(err))
			if time.Since(began) > longTerm {
				again.Reset()
			}
			pause = again.NextBackOff()
		}
		if !periodic.Pause(ctx, pause) {
			return nil
		}
	}
}

// jitter spreads d by ±25 %, so that processes that lost the server together do not all reconnect together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}
