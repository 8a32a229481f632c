// Package ttl puts workspaces to sleep that nobody uses, and archives those that
// have slept for long (SPEC 5). It only wishes, through the service layer like
// everybody else; the controller does the rest.
package ttl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/periodic"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options].
const (
	DefaultInterval = 60 * time.Second
	DefaultStandby  = 600 * time.Second
	DefaultArchive  = 1800 * time.Second
)

// Store is what the runner needs of PostgreSQL, whose clock decides what has
// expired.
type Store interface {
	// TouchLastAccess moves last_access_at forward, never back.
	TouchLastAccess(ctx context.Context, at map[workspace.ID]time.Time) error
	// ExpiredRunning returns at most limit running workspaces without an operation
	// that were last used more than ttl ago; ExpiredStandby those that have been in
	// standby for longer than ttl. Both return first what has waited longest.
	ExpiredRunning(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error)
	ExpiredStandby(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error)
}

// Wisher is the service layer. Expire wishes for the state unless the workspace
// has been used, or has moved on, since it was found expired; it returns whether
// it did.
type Wisher interface {
	Expire(ctx context.Context, id workspace.ID, from workspace.Phase, to workspace.DesiredState, ttl time.Duration) (bool, error)
}

// Activity is what the gateways have noted in Redis.
type Activity interface {
	// Read returns the newest time of activity per workspace.
	Read(ctx context.Context) (map[workspace.ID]time.Time, error)
	// Remove takes out what Read returned, except where newer activity has come.
	Remove(ctx context.Context, read map[workspace.ID]time.Time) error
}

// Settings can be changed while the runner runs.
type Settings struct {
	// Interval is the time between ticks (COORDINATOR_TTL_INTERVAL). Zero means
	// [DefaultInterval].
	Interval time.Duration
	// Standby is how long a running workspace may be unused before it goes to
	// standby (TTL_STANDBY_SECONDS); Archive how long it may be in standby before it
	// is archived (TTL_ARCHIVE_SECONDS). Zero means the default, a negative value
	// never.
	Standby, Archive time.Duration
}

func (s Settings) orDefault() Settings {
	if s.Interval <= 0 {
		s.Interval = DefaultInterval
	}
	if s.Standby == 0 {
		s.Standby = DefaultStandby
	}
	if s.Archive == 0 {
		s.Archive = DefaultArchive
	}
	return s
}

// Runner is the TTL runner. The leader runs one.
type Runner struct {
	store    Store
	wisher   Wisher
	activity Activity
	loop     *periodic.Loop
	settings atomic.Pointer[Settings]
}

// New returns a runner. It performs no I/O.
func New(store Store, wisher Wisher, activity Activity, settings Settings, log *zap.Logger) *Runner {
	r := &Runner{store: store, wisher: wisher, activity: activity}
	settings = settings.orDefault()
	r.settings.Store(&settings)
	r.loop = periodic.New("putting unused workspaces to sleep", settings.Interval, r.Tick, log)
	return r
}

// Set changes the settings from the next tick on, and the interval at once.
func (r *Runner) Set(settings Settings) {
	settings = settings.orDefault()
	r.settings.Store(&settings)
	r.loop.SetInterval(settings.Interval)
}

// Run ticks every interval until ctx ends, and returns nil.
func (r *Runner) Run(ctx context.Context) error {
	r.loop.Run(ctx)
	return nil
}

// Tick does one round: activity to PostgreSQL, then standby, then archive. The
// parts fail separately, except that nobody is put to sleep on activity that could
// not be read.
func (r *Runner) Tick(ctx context.Context) error {
	settings := *r.settings.Load()
	var errs []error
	if err := r.sync(ctx); err != nil {
		errs = append(errs, fmt.Errorf("nobody is put to sleep: %w", err))
	} else if settings.Standby > 0 {
		errs = append(errs, r.expire(ctx, r.store.ExpiredRunning,
			workspace.PhaseRunning, workspace.DesiredStandby, settings.Standby))
	}
	if settings.Archive > 0 {
		errs = append(errs, r.expire(ctx, r.store.ExpiredStandby,
			workspace.PhaseStandby, workspace.DesiredArchived, settings.Archive))
	}
	return errors.Join(errs...)
}

// batch is how many workspaces one statement touches or returns.
const batch = 1000

// sync moves the activity from Redis to PostgreSQL. It is removed from Redis only
// after PostgreSQL has it, so a crash in between repeats the write, which moves
// nothing back.
func (r *Runner) sync(ctx context.Context) error {
	read, err := r.activity.Read(ctx)
	if err != nil {
		return err
	}
	part := make(map[workspace.ID]time.Time, min(batch, len(read)))
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		if err := r.store.TouchLastAccess(ctx, part); err != nil {
			return fmt.Errorf("saving activity: %w", err)
		}
		if err := r.activity.Remove(ctx, part); err != nil {
			return err
		}
		clear(part)
		return nil
	}
	for id, at := range read {
		part[id] = at
		if len(part) == batch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// expire wishes for every expired workspace. One that fails does not hold up the
// others; it is found again by the next tick.
func (r *Runner) expire(
	ctx context.Context,
	find func(context.Context, time.Duration, int) ([]workspace.ID, error),
	from workspace.Phase, to workspace.DesiredState, ttl time.Duration,
) error {
	var errs []error
	for {
		ids, err := find(ctx, ttl, batch)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("looking for expired %s workspaces: %w", from, err))...)
		}
		wished := 0
		for _, id := range ids {
			ok, err := r.wisher.Expire(ctx, id, from, to, ttl)
			if err != nil && len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("wishing %s for workspace %s: %w", to, id, err))
			}
			if ok {
				wished++
			}
		}
		// Those that were not wished for would be found again and again.
		if len(ids) < batch || wished == 0 || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}

// maxErrors is how many errors of single workspaces one tick reports.
const maxErrors = 5
