// Package gc deletes archives that no workspace needs any more (SPEC 7). Nothing
// else deletes archives.
//
// It is written to err on the side of keeping: what it does not understand it
// leaves alone, what it does not know ends the cycle, and what it does delete has
// been an orphan for hours, in every cycle that looked.
package gc

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/periodic"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Options] and [Settings].
const (
	DefaultInterval = 4 * time.Hour
	DefaultDelay    = 2 * time.Hour
	DefaultMaxShare = 0.5
)

// brakeFloor is how many archives a cycle may delete whatever their share: an
// installation of a handful must be able to lose most of them.
const brakeFloor = 20

// Archives is what the collector needs of the object store.
type Archives interface {
	// List calls page with all objects, page by page.
	List(ctx context.Context, page func([]archive.Object) error) error
	// Delete removes objects; those in failed may still be there.
	Delete(ctx context.Context, keys []string) (failed map[string]error, err error)
}

// Store is what the collector needs of PostgreSQL.
type Store interface {
	// Protection returns what protects the archives of these workspaces; those
	// without a row are not in the map.
	Protection(ctx context.Context, ids []workspace.ID) (map[workspace.ID]store.Protection, error)
	// CountWorkspaces counts all rows, deleted ones too.
	CountWorkspaces(ctx context.Context) (int64, error)
}

// Settings can be changed while the collector runs.
type Settings struct {
	// Interval is the time between cycles (COORDINATOR_GC_INTERVAL). Default
	// [DefaultInterval].
	Interval time.Duration
	// Delay is how long an archive must have been an orphan before it is deleted. It
	// is also how long a deletion of a workspace can be undone. Default
	// [DefaultDelay].
	Delay time.Duration
	// MaxShare is the largest share of all archives that one cycle deletes, where
	// that is more than 20: a larger one looks like a wrong or restored database.
	// Raise it, to at most 1, when such a deletion is really meant. Default
	// [DefaultMaxShare].
	MaxShare float64
}

func (s Settings) orDefault() Settings {
	if s.Interval <= 0 {
		s.Interval = DefaultInterval
	}
	if s.Delay <= 0 {
		s.Delay = DefaultDelay
	}
	if s.MaxShare <= 0 || s.MaxShare > 1 {
		s.MaxShare = DefaultMaxShare
	}
	return s
}

// Options are what a [Runner] is made from.
type Options struct {
	Archives  Archives
	Store     Store
	Sightings *Sightings
	Settings  Settings
	// DryRun makes every cycle report what it would delete, and change nothing.
	DryRun bool
	// OnCollected, when set, is called with the workspaces whose archives were
	// deleted, so that the controller looks at them again.
	OnCollected func(ids []workspace.ID)
}

// Runner is the collector. The leader runs one.
type Runner struct {
	opts     Options
	log      *zap.Logger
	loop     *periodic.Loop
	settings atomic.Pointer[Settings]
	cycle    sync.Mutex
	first    time.Duration
}

// New returns a collector. It performs no I/O.
func New(opts Options, log *zap.Logger) *Runner {
	r := &Runner{opts: opts, log: log, first: firstCycle}
	settings := opts.Settings.orDefault()
	r.settings.Store(&settings)
	r.loop = periodic.New("collecting archives", settings.Interval, func(ctx context.Context) error {
		_, err := r.Collect(ctx)
		return err
	}, log)
	return r
}

// Set changes the settings from the next cycle on, and the interval at once.
func (r *Runner) Set(settings Settings) {
	settings = settings.orDefault()
	r.settings.Store(&settings)
	r.loop.SetInterval(settings.Interval)
}

// firstCycle is how long after its beginning a leadership first collects. A whole
// interval later would be never where none lasts that long.
const firstCycle = time.Minute

// Run collects after a minute, and then every interval, until ctx ends, and
// returns nil.
func (r *Runner) Run(ctx context.Context) error {
	defer time.AfterFunc(r.first, r.loop.Wake).Stop()
	r.loop.Run(ctx)
	return nil
}

// Collect does one cycle. With an error the report tells how far it came; nothing
// is deleted unless listing, queries and the brake all passed. An archive whose
// deletion failed is an error too, and is tried again by the next cycle.
func (r *Runner) Collect(ctx context.Context) (Report, error) {
	return r.collect(ctx, r.opts.DryRun)
}

// DryRun is Collect without its effects: it deletes nothing and starts no timer.
func (r *Runner) DryRun(ctx context.Context) (Report, error) {
	return r.collect(ctx, true)
}

func (r *Runner) collect(ctx context.Context, dry bool) (Report, error) {
	r.cycle.Lock()
	defer r.cycle.Unlock()
	s := &survey{runner: r, settings: *r.settings.Load(), report: Report{DryRun: dry}}
	err := s.run(ctx)
	if err == nil || s.report.Archives > 0 {
		s.report.log(r.log)
	}
	return s.report, err
}

// BrakeError says that a cycle was stopped because it would have deleted an
// implausible share of all archives. Nothing was deleted.
type BrakeError struct {
	// Due is how many archives the cycle would have deleted, of Archives.
	Due, Archives int
	// Workspaces is how many rows the database has.
	Workspaces int64
	// MaxShare is the share that was exceeded.
	MaxShare float64
}

// Error says what is implausible, and what to do about it.
func (e *BrakeError) Error() string {
	if e.Workspaces == 0 {
		return fmt.Sprintf("no archive is deleted: the database has no workspace at all, but there are %d archives; "+
			"is this the right database, and the right bucket and prefix?", e.Archives)
	}
	return fmt.Sprintf("no archive is deleted: %d of %d archives are orphans, more than a share of %g; "+
		"is this the right database? If they are really to go, raise the collector's largest share for one cycle",
		e.Due, e.Archives, e.MaxShare)
}

// brake stops a cycle that would delete too much to be true.
func (s *survey) brake(ctx context.Context) error {
	if s.report.Archives == 0 {
		return nil
	}
	rows, err := s.runner.opts.Store.CountWorkspaces(ctx)
	if err != nil {
		return fmt.Errorf("counting workspaces: %w", err)
	}
	share := float64(s.report.Due) / float64(s.report.Archives)
	if rows == 0 || s.report.Due > brakeFloor && share > s.settings.MaxShare {
		return &BrakeError{Due: s.report.Due, Archives: s.report.Archives, Workspaces: rows, MaxShare: s.settings.MaxShare}
	}
	return nil
}
