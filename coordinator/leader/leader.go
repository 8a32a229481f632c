// Package leader elects one process among many (SPEC 5). Leading is holding a
// session-level advisory lock of PostgreSQL on a connection of its own: losing
// the connection is losing the leadership.
//
// Three things keep a deposed leader from acting. The lead function's context
// ends as soon as the connection breaks. It also ends when the server has not
// answered for [Options.Trust], which is sooner than the server gives the lock to
// somebody else. And every leadership has an epoch, larger than the one before,
// that each write to the database is conditional on: whoever slept through both
// changes nothing.
package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
)

// Defaults of [Options].
const (
	DefaultLock          = "coordinator"
	DefaultLockID        = 12345
	DefaultRetryInterval = 5 * time.Second
	DefaultTrust         = 5 * time.Second
)

// Options are the settings of an [Elector].
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
	// RetryInterval is the wait after a failed connection, and how long one wait for
	// the lock lasts before it is renewed; ±25 % (COORDINATOR_RETRY_INTERVAL). The
	// hand-over does not wait for it. Default [DefaultRetryInterval].
	RetryInterval time.Duration
	// Trust is how long the leader believes in its lock without an answer from the
	// server. The server ends a silent session after twice that, so a leader that is
	// cut off is replaced after at most about 2·Trust. Default [DefaultTrust].
	Trust time.Duration
}

// Validate reports everything that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	if o.Conn == nil {
		errs = append(errs, errors.New("leader: no database connection is configured"))
	}
	if o.RetryInterval < 0 {
		errs = append(errs, fmt.Errorf("coordinator retry interval: %s is negative", o.RetryInterval))
	}
	if o.Trust < 0 || o.Trust > 0 && o.Trust < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("leader trust: %s is shorter than 100ms", o.Trust))
	}
	return errors.Join(errs...)
}

// Status is what `/health/coordinator` shows.
type Status struct {
	IsLeader bool
	NodeID   string
	// Since is when this leadership began; zero when IsLeader is false.
	Since time.Time
	// Epoch is this leadership's fencing value; 0 when IsLeader is false.
	Epoch int64
}

// Elector takes part in one election.
type Elector struct {
	opts  Options
	log   *zap.Logger
	retry atomic.Int64
	heard heartbeat

	mu     sync.Mutex
	status Status
}

// New returns an elector. It performs no I/O.
func New(opts Options, log *zap.Logger) (*Elector, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	if opts.Lock == "" {
		opts.Lock = DefaultLock
	}
	if opts.LockID == 0 {
		opts.LockID = DefaultLockID
	}
	if opts.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("coordinator node id is not set and the host has no name: %w", err)
		}
		opts.Node = host
	}
	if opts.Trust == 0 {
		opts.Trust = DefaultTrust
	}
	e := &Elector{opts: opts, log: log.With(zap.String("lock", opts.Lock), zap.String("node", opts.Node))}
	e.status.NodeID = opts.Node
	e.SetRetryInterval(opts.RetryInterval)
	return e, nil
}

// SetRetryInterval changes the retry interval from the next wait on. Zero or less
// means the default.
func (e *Elector) SetRetryInterval(d time.Duration) {
	if d <= 0 {
		d = DefaultRetryInterval
	}
	e.retry.Store(int64(d))
}

// Status tells whether this process leads. It performs no I/O.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// Trusted reports whether this process leads and has heard so from the server
// within [Options.Trust]. What cannot be undone asks this first: a process that
// was stopped and goes on may call it before it has noticed anything else.
func (e *Elector) Trusted() bool {
	return e.Status().IsLeader && e.heard.within(e.opts.Trust)
}

// Run takes part in the election until ctx ends, and calls lead for each
// leadership. The context of lead ends with the leadership; lead MUST return
// soon after, for nobody else leads through this elector until it has. When lead
// returns by itself, with or without an error, the leadership is given up and,
// after a pause that grows with repeated errors, sought again.
//
// Run returns nil after ctx has ended, lead has returned and the lock is
// released.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, f store.Fence) error) error {
	failures, down := 0, false
	for ctx.Err() == nil {
		began := time.Now()
		led, err := e.session(ctx, lead)
		if ctx.Err() != nil {
			break
		}
		switch {
		case led:
			// A leadership that lasted was not a failure of what is being led.
			if time.Since(began) > time.Minute {
				failures = 0
			}
			failures, down = failures+1, false
			e.log.Error("leadership ended; seeking it again", zap.Error(err))
		case !down:
			down = true
			e.log.Error("seeking the leadership failed; trying again", zap.Error(err))
		}
		e.pause(ctx, led, failures)
	}
	return nil
}

// maxBackoff bounds the pause after leaderships that keep failing.
const maxBackoff = 30 * time.Second

// pause waits before the next attempt. The first loss is answered at once: often
// it was the connection only, and nobody else may want the lock.
func (e *Elector) pause(ctx context.Context, led bool, failures int) {
	d := time.Duration(e.retry.Load())
	if led {
		d = min(100*time.Millisecond<<min(failures, 10), maxBackoff)
	}
	t := time.NewTimer(jitter(d))
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// jitter spreads d by ±25 %, so that processes that lost one server together do
// not come back together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2+1)
}

func (e *Elector) begin(epoch int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = Status{IsLeader: true, NodeID: e.opts.Node, Since: time.Now(), Epoch: epoch}
}

func (e *Elector) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.status = Status{NodeID: e.opts.Node}
}
