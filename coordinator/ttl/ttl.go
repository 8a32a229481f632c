// Package ttl moves unused workspaces to STANDBY, and archives workspaces that have
// been in STANDBY for long (SPEC 5). It owns the two TTLs and the path of recorded
// activity from Redis to PostgreSQL. It must not write desired states itself or act
// on workspaces: it calls the service layer, and the controller does the rest.
package ttl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/activity"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/periodic"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Settings] (SPEC 5).
const (
	DefaultInterval = 60 * time.Second
	DefaultStandby  = 600 * time.Second
	DefaultArchive  = 1800 * time.Second
)

// Store is what the runner needs of PostgreSQL, whose clock decides what has
// expired. *store.Store implements it.
type Store interface {
	// Writers returns which processes record activity, and when each has last written
	// all that it had.
	Writers(ctx context.Context) (store.Writers, error)
	// TouchLastAccess moves last_access_at forward to the given ages, never back.
	TouchLastAccess(ctx context.Context, ages map[workspace.ID]time.Duration) error
	// ExpiredRunning returns at most limit running workspaces without an operation that
	// were last used more than ttl ago, the longest unused first.
	ExpiredRunning(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error)
	// ExpiredStandby returns at most limit workspaces without an operation that have
	// been in STANDBY for longer than ttl, the longest first.
	ExpiredStandby(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error)
}

// Expirer is the service layer as the runner uses it. *service.Service implements
// it.
type Expirer interface {
	// Expire changes the desired state, unless the workspace was used or changed
	// since it was found expired, and reports whether it did.
	Expire(ctx context.Context, id workspace.ID, from workspace.Phase, to workspace.DesiredState, ttl time.Duration) (bool, error)
}

// Activity is what the gateways have recorded in Redis. *activity.Log implements it.
type Activity interface {
	// Read returns the newest time of activity per workspace.
	Read(ctx context.Context) (activity.Reading, error)
	// Remove removes what Read returned, except where newer activity was recorded.
	Remove(ctx context.Context, read map[workspace.ID]time.Time) error
}

// Settings can change while the runner runs.
type Settings struct {
	// Interval is the time between ticks (COORDINATOR_TTL_INTERVAL).
	Interval time.Duration
	// Standby is how long a running workspace may be unused before it goes to STANDBY
	// (TTL_STANDBY_SECONDS). Archive is how long a workspace may be in STANDBY before
	// it is archived (TTL_ARCHIVE_SECONDS).
	Standby, Archive time.Duration
}

// DefaultSettings are those of SPEC 5.
func DefaultSettings() Settings {
	return Settings{Interval: DefaultInterval, Standby: DefaultStandby, Archive: DefaultArchive}
}

// Validate reports everything that is wrong with the settings, under their names in
// the configuration.
func (s Settings) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"ttl_interval", s.Interval}, {"standby_ttl", s.Standby}, {"archive_ttl", s.Archive}} {
		if d.value <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be a duration above zero, such as 10m, not %s", d.name, d.value))
		}
	}
	return errors.Join(errs...)
}

// Runner is the TTL runner. It runs in the leading process.
type Runner struct {
	store    Store
	expirer  Expirer
	activity Activity
	loop     *periodic.Loop
	late     *outage.Reporter
	settings atomic.Pointer[Settings]
	roll     roll // used by Tick only
	now      func() time.Time
}

// New returns a runner. It performs no I/O.
func New(store Store, expirer Expirer, activity Activity, settings Settings, log *zap.Logger) *Runner {
	// The wall clock, because the other one may stand still while a machine is suspended.
	r := &Runner{store: store, expirer: expirer, activity: activity, now: func() time.Time { return time.Now().Round(0) }}
	r.settings.Store(&settings)
	r.late = outage.New(log, zapcore.ErrorLevel,
		"no running workspace is put to sleep: a process has not written when its users last worked",
		"unused workspaces are put to sleep again")
	r.loop = periodic.New("expiring unused workspaces", settings.Interval, r.Tick, log)
	return r
}

// Set changes the settings: the TTLs from the next tick on, the interval at once.
func (r *Runner) Set(settings Settings) {
	r.settings.Store(&settings)
	r.loop.SetInterval(settings.Interval)
}

// Run ticks at every interval until ctx ends, and returns nil. It begins as after an
// outage: who led before, and what happened meanwhile, is not known.
func (r *Runner) Run(ctx context.Context) error {
	r.roll.reset()
	r.loop.Run(ctx)
	return nil
}

// Tick writes the activity to PostgreSQL, then expires running workspaces, then
// those in STANDBY. An error in one part does not stop the others, except that no
// running workspace expires unless the activity of every process is in PostgreSQL
// (SPEC 5). Run calls it; it must not be called at the same time as another Tick.
func (r *Runner) Tick(ctx context.Context) error {
	settings := *r.settings.Load()
	var errs []error
	began := r.now()
	fresh := func() bool { return r.now().Sub(began) < knownFor }
	known, err := r.know(ctx)
	if err != nil {
		errs = append(errs, fmt.Errorf("running workspaces do not expire without their activity: %w", err))
	}
	if known {
		errs = append(errs, r.expire(ctx, fresh, r.store.ExpiredRunning,
			workspace.PhaseRunning, workspace.DesiredStandby, settings.Standby))
	}
	always := func() bool { return true } // what happened to it is in its row
	errs = append(errs, r.expire(ctx, always, r.store.ExpiredStandby,
		workspace.PhaseStandby, workspace.DesiredArchived, settings.Archive))
	return errors.Join(errs...)
}

// knownFor is how long a tick may judge by the activity that it has read. A process that
// was stopped in between has missed what people have done since.
const knownFor = 30 * time.Second

// know reports whether last_access_at holds all the activity there is. An error is an
// outage, after which every process must write once more. It asks who has written before
// it reads Redis: what a process wrote before that, the reading contains.
func (r *Runner) know(ctx context.Context) (bool, error) {
	writers, err := r.store.Writers(ctx)
	if err != nil {
		r.roll.reset()
		return false, err
	}
	emptied, err := r.sync(ctx)
	if err != nil {
		r.roll.reset()
		return false, err
	}
	missing := r.roll.call(writers)
	if late := lateError(missing); late != nil {
		r.late.Failed(late)
	} else {
		r.late.Recovered()
	}
	if emptied {
		r.roll.reset()
	}
	return len(missing) == 0 && !emptied, nil
}

// batch is how many workspaces one statement writes or returns.
const batch = 1000

// sync moves the activity from Redis to PostgreSQL, and reports whether Redis has lost
// what it had. It removes activity from Redis only after PostgreSQL has it; after a crash
// in between the write is repeated, which changes nothing. A Redis that only refuses the
// removal, such as a read-only one, does no harm: the next tick reads the same again.
func (r *Runner) sync(ctx context.Context) (emptied bool, err error) {
	began := time.Now()
	read, err := r.activity.Read(ctx)
	if err != nil {
		return false, err
	}
	part := make(map[workspace.ID]time.Time, min(batch, len(read.At)))
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		now, ages := read.Now.Add(time.Since(began)), make(map[workspace.ID]time.Duration, len(part))
		for id, at := range part {
			ages[id] = now.Sub(at)
		}
		if err := r.store.TouchLastAccess(ctx, ages); err != nil {
			return fmt.Errorf("saving activity: %w", err)
		}
		_ = r.activity.Remove(ctx, part)
		clear(part)
		return nil
	}
	for id, at := range read.At {
		part[id] = at
		if len(part) == batch {
			if err := flush(); err != nil {
				return false, err
			}
		}
	}
	return read.Emptied, flush()
}

// maxErrors is how many errors of single workspaces one tick reports.
const maxErrors = 5

// expire changes the desired state of every expired workspace, while what is known is
// fresh. One that fails does not stop the others; the next tick finds it again.
func (r *Runner) expire(
	ctx context.Context, fresh func() bool,
	find func(context.Context, time.Duration, int) ([]workspace.ID, error),
	from workspace.Phase, to workspace.DesiredState, ttl time.Duration,
) error {
	var errs []error
	for {
		ids, err := find(ctx, ttl, batch)
		if err != nil {
			r.roll.reset() // the database is away, also for processes that write to it what Redis refuses
			return errors.Join(append(errs, fmt.Errorf("finding expired %s workspaces: %w", from, err))...)
		}
		changed := 0
		for _, id := range ids {
			if !fresh() {
				return errors.Join(errs...)
			}
			ok, err := r.expirer.Expire(ctx, id, from, to, ttl)
			if err != nil && len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("changing the desired state of workspace %s to %s: %w", id, to, err))
			}
			if ok {
				changed++
			}
		}
		// If none could be changed, the next query would only find the same ones again.
		if len(ids) < batch || changed == 0 || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}
