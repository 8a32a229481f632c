// Package ttl moves unused workspaces to STANDBY, and archives workspaces that have been in STANDBY for long
// (SPEC 5). It owns the two TTLs, the path of recorded activity from Redis to PostgreSQL, and the columns busy
// and sleep_at. Before it puts a workspace to sleep, it checks for work inside and announces the time (SPEC 6). It must
// not define what work is, which is the task of package work. It must not write desired states itself or act on
// workspaces, either: it calls the service layer, and the controller does the rest.
package ttl

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Settings] (SPEC 5).
const (
	DefaultInterval = 60 * time.Second
	DefaultStandby  = 600 * time.Second
	DefaultArchive  = 1800 * time.Second
	// DefaultDoze is the default of [Settings.Doze].
	DefaultDoze = 300 * time.Second
	// DefaultNotice is the default of [Settings.Notice].
	DefaultNotice = 60 * time.Second
)

// Store is what the runner needs of PostgreSQL. PostgreSQL's clock decides what has expired. *store.Store implements
// it.
type Store interface {
	// Writers returns the processes that record activity, and when each of them last wrote everything that it had.
	Writers(ctx context.Context) (postgres.Writers, error)
	// TouchLastAccess moves last_access_at to the times that were ages ago, and last_input_at to those that were inputs
	// ago. It never moves them back.
	TouchLastAccess(ctx context.Context, ages, inputs map[workspace.ID]time.Duration) error
	// Unused returns at most limit running workspaces that were not used within idle. They follow the workspace after
	// in the order of the list, which begins with the longest unused one. It also returns the database's time.
	Unused(ctx context.Context, ttl, idle time.Duration, after store.Unused, limit int) ([]store.Unused,
		time.Time, error)
	// Announce writes Busy and SleepAt of the workspaces in all that were not used since Unused returned them. It
	// writes nothing if f's epoch is no longer the newest.
	Announce(ctx context.Context, f postgres.Fence, ttl time.Duration, all []store.Unused) error
	// EndDozes ends all dozes.
	EndDozes(ctx context.Context) error
	// EndUnmadeDozes ends the dozes that began longer than limit ago but whose containers are still not frozen. It
	// returns the ids of these workspaces.
	EndUnmadeDozes(ctx context.Context, limit time.Duration) ([]workspace.ID, error)
	// ExpiredStandby returns at most limit workspaces that have been in STANDBY for longer than ttl and have no
	// operation, beginning with the longest.
	ExpiredStandby(ctx context.Context, ttl time.Duration, limit int) ([]workspace.ID, error)
}

// Expirer is the service layer as the runner uses it. *service.Service implements it.
type Expirer interface {
	// Sleep puts a running workspace to sleep, unless it was used since u was read or has not reached its announced
	// time to sleep. It reports whether it has put the workspace to sleep.
	Sleep(ctx context.Context, id workspace.ID, u service.Unused) (bool, error)
	// Doze lets an idle workspace doze, unless it was used after since or the limit is reached. It reports whether the
	// workspace dozes now.
	Doze(ctx context.Context, id workspace.ID, since time.Time) (bool, error)
	// Archive archives a workspace that has been in STANDBY for ttl, unless it has changed since it was found. It
	// reports whether the workspace is archived.
	Archive(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error)
}

// Looker looks for activity inside workspaces. backend.Backend implements it.
type Looker interface {
	Look(ctx context.Context, id workspace.ID) (work.Sample, error)
}

// Notebooks asks applications for busy notebook kernels. *work.Notebooks implements it.
type Notebooks interface {
	// Busy returns the name of a busy kernel, or "" if none is known. known is false if the application has not
	// answered in time.
	Busy(ctx context.Context, endpoint, basePath string) (kernel string, known bool)
}

// Activity is the gateways' record in Redis. *activity.Log implements it.
type Activity interface {
	// Read returns the newest time of activity per workspace.
	Read(ctx context.Context) (activity.Reading, error)
	// Remove removes the given times of some workspaces. It leaves a time if newer activity has been recorded for the
	// workspace since.
	Remove(ctx context.Context, at, input map[workspace.ID]time.Time) error
}

// Settings can change while the runner runs.
type Settings struct {
	// Interval is the time between ticks (COORDINATOR_TTL_INTERVAL).
	Interval time.Duration
	// Standby is how long a running workspace may be unused before it goes to STANDBY (TTL_STANDBY_SECONDS).
	// Archive is how long a workspace may be in STANDBY before it is archived (TTL_ARCHIVE_SECONDS).
	Standby, Archive time.Duration
	// Doze is how long a running workspace may be unused before it dozes (TTL_DOZE_SECONDS). It then dozes until it
	// goes to STANDBY. If it is 0, or not shorter than Standby, no workspace dozes.
	Doze time.Duration
	// Notice is how long in advance the sleep of a workspace is announced. If the TTL is shorter than twice that time,
	// the sleep is announced half a TTL in advance.
	Notice time.Duration
	// Work is what keeps an unused workspace awake.
	Work work.Settings
}

// DefaultSettings returns the defaults of SPEC 5.
func DefaultSettings() Settings {
	return Settings{Interval: DefaultInterval, Standby: DefaultStandby, Archive: DefaultArchive, Doze: DefaultDoze,
		Notice: DefaultNotice, Work: work.DefaultSettings()}
}

// Validate returns everything that is wrong with the settings, under their names in the configuration.
func (s Settings) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"coordinator ttl_interval", s.Interval}, {"ttl standby", s.Standby}, {"ttl archive", s.Archive}} {
		if d.value <= 0 {
			errs = append(errs, setting.Errorf(d.name, "must be a duration above zero, such as 10m, not %s", d.value))
		}
	}
	if s.Doze < 0 {
		errs = append(errs, setting.Errorf("ttl doze", "must be a duration, such as 5m, or 0 for none, not %s", s.Doze))
	}
	return errors.Join(append(errs, s.Work.Validate())...)
}

// Options are the dependencies of a [Runner].
type Options struct {
	Store    Store
	Expirer  Expirer
	Activity Activity
	// Looker and Notebooks report activity inside workspaces. Without a Looker no workspace is looked at, and
	// every unused one is put to sleep.
	Looker    Looker
	Notebooks Notebooks
	// Metrics and Cycles count wrong sleeps and ticks. Default: nothing is counted.
	Metrics *metrics.Service
	Cycles  *metrics.Cycles
	Log     *zap.Logger
}

// Runner is the TTL runner. It runs in the leading process.
type Runner struct {
	Options
	loop     *periodic.Loop
	late     *outage.Reporter
	settings atomic.Pointer[Settings]
	now      func() time.Time // for differences only
	slept    recentSleeps

	// The following is used by Tick only.
	barrier flushBarrier
	fence   postgres.Fence
	looks   map[workspace.ID]*look
	// midway means that a round over the unused workspaces is not complete. It continues with the workspaces that
	// follow after.
	midway bool
	after  store.Unused
	// ended means that all dozes were ended because dozing is not allowed.
	ended bool
	soon  time.Duration // until the next tick, if that comes before the interval has passed
}

// New returns a runner. It performs no I/O.
func New(o Options, settings Settings) *Runner {
	r := &Runner{Options: o, now: clock.Steady()}
	r.settings.Store(&settings)
	r.late = outage.New(o.Log, zapcore.WarnLevel,
		"no running workspace is put to sleep: a process has not written when its users last worked",
		"unused workspaces are put to sleep again")
	r.loop = periodic.New("expiring unused workspaces", settings.Interval, o.Cycles.Counting("ttl", r.Tick), o.Log)
	return r
}

// Set changes the settings. The interval applies immediately, and the other settings from the next tick on.
func (r *Runner) Set(settings Settings) {
	r.settings.Store(&settings)
	r.loop.SetInterval(settings.Interval)
}

// Run does a tick at every interval, and when a workspace is due, until ctx ends. It returns nil. It writes only while
// f's epoch is the newest. It begins as if there had been an outage, because it does not know what has happened under
// the previous leader and since then. Run MUST NOT be called again before it has returned.
func (r *Runner) Run(ctx context.Context, f postgres.Fence) error {
	r.barrier.reset()
	r.fence, r.looks, r.midway, r.ended = f, nil, false, false
	r.loop.Run(ctx)
	return nil
}

// Tick writes the activity to PostgreSQL, then expires running workspaces, then those in STANDBY. An error in one part
// does not stop the others. However, no running workspace expires unless the activity of every process is in PostgreSQL
// (SPEC 5). Run calls Tick, which must not be called concurrently.
func (r *Runner) Tick(ctx context.Context) error {
	settings := *r.settings.Load()
	var errs []error
	r.soon = settings.Interval
	began, moment := r.now(), clock.Now()
	fresh := func() bool { return max(r.now().Sub(began), moment.Elapsed()) < knownFor }
	upTo, knows, known, err := r.know(ctx)
	if err != nil {
		errs = append(errs, fmt.Errorf("running workspaces do not expire without their activity: %w", err))
	}
	settings = settings.among(knows)
	if settings.Doze > 0 {
		errs = append(errs, r.endUnmade(ctx))
	}
	if known {
		errs = append(errs, r.sleep(ctx, fresh, upTo, settings))
	}
	if known || err == nil && knows < knowsDoze {
		errs = append(errs, r.endDozes(ctx, settings.Doze > 0))
	}
	errs = append(errs, r.archive(ctx, settings.Archive))
	if r.soon < settings.Interval {
		time.AfterFunc(max(r.soon, shortestPause), r.loop.Wake)
	}
	return errors.Join(errs...)
}

// shortestPause is the least time between a tick and the next one if the tick requests that early.
const shortestPause = 100 * time.Millisecond

// knownFor is how long a tick may use the activity that it has read. A process that was stopped in between has
// missed later uses.
const knownFor = 30 * time.Second

// know updates last_access_at, and returns the time up to which it includes all use, by the database's clock. It also
// returns the newest migration that all processes know. known is false if no workspace may be judged. An error counts
// as an outage, after which every process must write once more. know reads the list of writers before it reads Redis,
// so that the reading contains everything that they have reported as written.
func (r *Runner) know(ctx context.Context) (upTo time.Time, knows int, known bool, err error) {
	writers, err := r.Store.Writers(ctx)
	if err != nil {
		r.barrier.reset()
		return upTo, 0, false, err
	}
	emptied, err := r.sync(ctx)
	if err != nil {
		r.barrier.reset()
		return upTo, 0, false, err
	}
	upTo, missing, knows := r.barrier.check(writers)
	if late := lateError(missing); late != nil {
		r.late.Failed(late)
	} else {
		r.late.Recovered()
	}
	if emptied {
		r.barrier.reset()
	}
	return upTo, knows, len(missing) == 0 && !emptied, nil
}

// batch is how many workspaces one statement writes or returns.
const batch = 1000

// sync moves the activity from Redis to PostgreSQL, and reports whether Redis has lost its data. It removes activity
// from Redis only after PostgreSQL has it. After a crash in between, the write is repeated, which changes nothing. If
// Redis only refuses the removal, because it is read-only for example, that does no harm: the next tick reads the same
// activity again.
func (r *Runner) sync(ctx context.Context) (emptied bool, err error) {
	began := time.Now()
	read, err := r.Activity.Read(ctx)
	if err != nil {
		return false, err
	}
	part, input := make(map[workspace.ID]time.Time, min(batch, len(read.At))), make(map[workspace.ID]time.Time)
	flush := func() error {
		if len(part) == 0 {
			return nil
		}
		now := read.Now.Add(time.Since(began))
		ages, inputs := make(map[workspace.ID]time.Duration, len(part)), make(map[workspace.ID]time.Duration, len(input))
		for id, at := range part {
			ages[id] = now.Sub(at)
		}
		for id, at := range input {
			inputs[id] = now.Sub(at)
		}
		if err := r.Store.TouchLastAccess(ctx, ages, inputs); err != nil {
			return fmt.Errorf("saving activity: %w", err)
		}
		_ = r.Activity.Remove(ctx, part, input)
		clear(part)
		clear(input)
		return nil
	}
	for id, at := range read.At {
		part[id] = at
		if by, known := read.Input[id]; known {
			input[id] = by
		}
		if len(part) == batch {
			if err := flush(); err != nil {
				return false, err
			}
		}
	}
	if err := flush(); err != nil {
		return false, err
	}
	// A leader of an older release left these times behind, because it removed only the others.
	for id, at := range read.Input {
		if _, known := read.At[id]; !known {
			input[id] = at
		}
	}
	if len(input) > 0 {
		_ = r.Activity.Remove(ctx, nil, input)
	}
	return read.Emptied, nil
}

// maxErrors is how many errors of single workspaces one tick reports.
const maxErrors = 5

// archive archives every workspace that has been in STANDBY for the TTL. Only the workspace's row decides that. If it
// fails for one workspace, it continues with the others, and the next tick finds the failed one again.
func (r *Runner) archive(ctx context.Context, ttl time.Duration) error {
	var errs []error
	for {
		ids, err := r.Store.ExpiredStandby(ctx, ttl, batch)
		if err != nil {
			r.barrier.reset() // the database is away, also for processes that write there because Redis refuses
			return errors.Join(append(errs, fmt.Errorf("finding expired STANDBY workspaces: %w", err))...)
		}
		changed := 0
		for _, id := range ids {
			ok, err := alone(func() (bool, error) { return r.Expirer.Archive(ctx, id, ttl) })
			if err != nil && len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("changing the desired state of workspace %s to ARCHIVED: %w", id, err))
			}
			if ok {
				changed++
			}
		}
		// If no workspace could be changed, the next query would only find the same workspaces again.
		if len(ids) < batch || changed == 0 || ctx.Err() != nil {
			return errors.Join(errs...)
		}
	}
}
