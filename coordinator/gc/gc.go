// Package gc deletes archives that no workspace needs any more (SPEC 7). Nothing
// else deletes archives.
//
// In doubt it keeps an archive: it leaves objects that it does not recognise, a query
// that fails ends the cycle, and an archive that it deletes has been an orphan for
// hours, in every cycle of that time.
//
// It owns the decision to delete an archive and the times since when archives are
// orphans. It must not write to the database, and must not delete anything but
// archives and their commit markers.
package gc

import (
	"context"
	"errors"
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

// Defaults of [Settings].
const (
	DefaultInterval = 4 * time.Hour
	DefaultDelay    = 2 * time.Hour
	DefaultMaxShare = 0.5

	DefaultUploadExpiry = 24 * time.Hour
)

// Archives is the object store as the collector uses it. *archive.Store implements
// it.
type Archives interface {
	// List calls page with all objects, page by page, in ascending order of their keys.
	List(ctx context.Context, page func([]archive.Object) error) error
	// Delete removes objects; those in failed may still exist.
	Delete(ctx context.Context, keys []string) (failed map[string]error, err error)
}

// Store is the database as the collector uses it. *store.Store implements it.
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
	// Delay is how long an archive must have been an orphan before it is deleted
	// (COORDINATOR_GC_DELAY). It is also how long the deletion of a workspace can be
	// undone. Default [DefaultDelay].
	Delay time.Duration
	// MaxShare is the largest share of all archives that one cycle deletes, where
	// that is more than 20 archives, above 0 and at most 1 (COORDINATOR_GC_MAX_SHARE).
	// A larger share looks like a wrong or restored database, and ends the cycle with
	// a [CircuitBreakerError]. Default [DefaultMaxShare].
	MaxShare float64
	// UploadExpiry is the age from which the parts of an unfinished upload are aborted
	// (COORDINATOR_GC_UPLOAD_EXPIRY). Default [DefaultUploadExpiry].
	UploadExpiry time.Duration
}

// DefaultSettings are those of SPEC 5 and 7.
func DefaultSettings() Settings {
	return Settings{Interval: DefaultInterval, Delay: DefaultDelay, MaxShare: DefaultMaxShare, UploadExpiry: DefaultUploadExpiry}
}

// Validate reports everything that is wrong with the settings at once, under the
// names of the options.
func (s Settings) Validate() error {
	var errs []error
	if s.Interval <= 0 {
		errs = append(errs, fmt.Errorf("gc_interval: %s; give a duration above zero, such as 4h", s.Interval))
	}
	if s.Delay <= 0 {
		errs = append(errs, fmt.Errorf("gc_delay: %s; give a duration above zero, such as 2h", s.Delay))
	}
	if !validShare(s.MaxShare) {
		errs = append(errs, fmt.Errorf("gc_max_share: %g; give a fraction above 0 and at most 1, such as 0.5", s.MaxShare))
	}
	if s.UploadExpiry <= 0 {
		errs = append(errs, fmt.Errorf("gc_upload_expiry: %s; give a duration above zero, such as 24h", s.UploadExpiry))
	}
	return errors.Join(errs...)
}

// validShare is also false for NaN.
func validShare(share float64) bool { return share > 0 && share <= 1 }

// orDefault replaces each value that Validate refuses.
func (s Settings) orDefault() Settings {
	if s.Interval <= 0 {
		s.Interval = DefaultInterval
	}
	if s.Delay <= 0 {
		s.Delay = DefaultDelay
	}
	if !validShare(s.MaxShare) {
		s.MaxShare = DefaultMaxShare
	}
	if s.UploadExpiry <= 0 {
		s.UploadExpiry = DefaultUploadExpiry
	}
	return s
}

// Options configure a [Runner] or a [DryRun].
type Options struct {
	// Archives is the object store, Store the database. Both are required.
	Archives Archives
	Store    Store
	// Orphans remembers since when archives are orphans. A [Runner] requires it.
	Orphans *OrphanTracker
	// Settings hold until [Runner.Set] changes them; zero fields take the defaults.
	Settings Settings
	// HoldsLease, when set, is asked before each deletion whether this process still
	// leads; false ends the cycle.
	HoldsLease func() bool
	// OnCollected, when set, is called with the workspaces whose archives were
	// deleted, so that the controller observes them again.
	OnCollected func(ids []workspace.ID)
}

// Runner is the collector. The leader runs one.
type Runner struct {
	opts     Options
	log      *zap.Logger
	loop     *periodic.Loop
	settings atomic.Pointer[Settings]
	mu       sync.Mutex // admits one cycle at a time
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

// Set changes the settings from the next cycle on, and the interval at once. Values
// that Validate refuses are replaced by the defaults.
func (r *Runner) Set(settings Settings) {
	settings = settings.orDefault()
	r.settings.Store(&settings)
	r.loop.SetInterval(settings.Interval)
}

// firstCycle is the time from the beginning of a term to its first cycle. If that were
// a whole interval, a leader with shorter terms would never collect.
const firstCycle = time.Minute

// Run collects after a minute, and then every interval, until ctx ends, and
// returns nil.
func (r *Runner) Run(ctx context.Context) error {
	defer time.AfterFunc(r.first, r.loop.Wake).Stop()
	r.loop.Run(ctx)
	return nil
}

// Collect does one cycle. With an error, the report shows how far the cycle got; nothing
// is deleted unless listing, queries and the circuit breaker all passed. An archive
// whose deletion failed is an error too, and is tried again by the next cycle.
func (r *Runner) Collect(ctx context.Context) (Report, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &cycle{opts: r.opts, settings: *r.settings.Load()}
	err := c.collect(ctx)
	if err == nil || c.report.Archives > 0 {
		c.report.log(r.log)
	}
	return c.report, err
}

// Report is what a cycle found and did.
type Report struct {
	// Objects were listed; Foreign of them do not have the name of an archive or a
	// commit marker and were left alone.
	Objects, Foreign int
	// Archives is how many archives the other objects belong to. No workspace needs
	// Orphans of them, and Due of these have been orphans for the delay.
	Archives, Orphans, Due int
	// Deleted archives were deleted. Spared ones were due, but a workspace needed them
	// again just before the deletion. Failed ones could not be deleted.
	Deleted, Spared, Failed int
}

// log writes one line for the cycle, with stable keys.
func (r Report) log(log *zap.Logger) {
	log.Info("collected archives",
		zap.Int("archives", r.Archives), zap.Int("foreign_objects", r.Foreign),
		zap.Int("orphans", r.Orphans), zap.Int("due", r.Due),
		zap.Int("deleted", r.Deleted), zap.Int("spared", r.Spared), zap.Int("failed", r.Failed))
}
