// Package scrub reads archives back, slowly and one after the other, to find damaged or missing ones before they are
// needed (SPEC 7).
//
// It owns the order, the daily amount, and the definition of damage: a fault that two reads of the recorded bucket
// show, some minutes apart. It must write nothing but its results. They belong to the table of archives and, if the
// archive is a workspace's current data, to the workspace's row. Other packages own the consequences. Progress and
// suspicions are in the database, so that the next leader continues where this one stopped.
package scrub

import (
	"context"
	"errors"
	"io/fs"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// MaxSpeed is how many bytes are read per second at most, because others use the network, too.
const MaxSpeed = 32 << 20

// DefaultBytesPerDay is the default of [Settings].BytesPerDay.
const DefaultBytesPerDay = 20 << 30

// Settings can be changed while the scrub runs.
type Settings struct {
	// BytesPerDay is how much of the archives is read back per day, spread over the day. With 0, only archives that an
	// administrator requests are read (scrub). Default [DefaultBytesPerDay].
	BytesPerDay int64
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{BytesPerDay: DefaultBytesPerDay} }

// Validate returns what is wrong with the settings, under the option's name.
func (s Settings) Validate() error {
	if s.BytesPerDay < 0 {
		return setting.Errorf("coordinator scrub", "%d; give a number of bytes per day, such as 20GiB, or 0 to read nothing back",
			s.BytesPerDay)
	}
	return nil
}

const (
	// interval is the time between two rounds.
	interval = time.Minute
	// confirmAfter is the time after which an apparently damaged archive is read again. If the data was damaged in
	// transit, or the store is being repaired, the archive looks damaged only for a moment.
	confirmAfter = 5 * time.Minute
	// minAge is the least time between two reads of an archive.
	minAge = 7 * 24 * time.Hour
	// healthAge is how old the numbers of [Runner.Health] may become. They are not computed more often, because that
	// reads every workspace.
	healthAge = 5 * time.Minute
)

// Store is the database as the scrub uses it. *store.Store implements it.
type Store interface {
	// NextArchive returns the next archive to read. That is an archive that has been suspected for at least the time
	// suspected. If there is none, it is the archive that was read longest ago, provided that this was at least age
	// ago.
	NextArchive(ctx context.Context, suspected, age time.Duration) (a store.Archive, ok bool, err error)
	// RequestedArchive returns an archive that is to be read now because an administrator has requested it. It returns
	// a suspected archive for a second read once that has been suspected for the time suspected.
	RequestedArchive(ctx context.Context, suspected time.Duration) (a store.Archive, ok bool, err error)
	// LastCheck returns how long ago the last archive was read, and its size.
	LastCheck(ctx context.Context) (ago time.Duration, size int64, err error)
	// Checked records a result if f's epoch is still the newest and there is no newer result.
	Checked(ctx context.Context, f postgres.Fence, a store.Archive, c store.Check) (recorded bool, err error)
	// ArchiveHealth sums up the current archives of all workspaces.
	ArchiveHealth(ctx context.Context) (store.ArchiveHealth, error)
}

// Archives is the object store as the scrub uses it. *archive.Store implements it.
type Archives interface {
	// ReadBack reads a whole archive. If there is none, the error is fs.ErrNotExist.
	ReadBack(ctx context.Context, key string, pace func(n int) error) (archive.Content, error)
}

// Identity checks whether the bucket is the right one. *identity.Guard implements it.
type Identity interface {
	Bucket(ctx context.Context) error
}

// Options are what the scrub needs. All fields are required unless they have a default.
type Options struct {
	Store    Store
	Archives Archives
	Identity Identity
	// Metrics and Cycles count the reads. Default: nothing is counted.
	Metrics *metrics.Archives
	Cycles  *metrics.Cycles
	Log     *zap.Logger
}

// Runner is the scrub. The leader runs one.
type Runner struct {
	opts     Options
	settings atomic.Pointer[Settings]
	loop     *periodic.Loop
	fence    postgres.Fence // of the term
	health   atomic.Pointer[health]
}

// health is when the numbers were read.
type health struct {
	store.ArchiveHealth
	at time.Time
}

// New returns a scrub. It performs no I/O.
func New(o Options) *Runner {
	r := &Runner{opts: o}
	r.Set(DefaultSettings())
	r.loop = periodic.New("reading archives back", interval, o.Cycles.Counting("scrub", r.Look), o.Log)
	return r
}

// Set changes the settings from the next archive on.
func (r *Runner) Set(s Settings) { r.settings.Store(&s) }

// Run reads archives back until ctx ends, beginning a minute after its start, and returns nil. It records results only
// while f is the newest epoch. The terms do not overlap: Run MUST NOT be called again before it has returned.
func (r *Runner) Run(ctx context.Context, f postgres.Fence) error {
	r.fence = f
	defer r.health.Store(nil)
	r.loop.Run(ctx)
	return nil
}

// Wake makes the runner look for archives to read immediately. It does nothing if the runner is not running.
func (r *Runner) Wake() { r.loop.Wake() }

// Health returns the health of all workspaces' current archives. The numbers may be some minutes old. It is unknown
// unless this process leads.
func (r *Runner) Health() (h store.ArchiveHealth, known bool) {
	if p := r.health.Load(); p != nil {
		return p.ArchiveHealth, true
	}
	return h, false
}

// Look reads back the archives that are due now, one after the other.
func (r *Runner) Look(ctx context.Context) error {
	if err := r.lookAtHealth(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		a, ok, err := r.next(ctx)
		if err != nil || !ok {
			return err
		}
		// An archive without a recorded result would be read again immediately.
		if recorded, err := r.check(ctx, a); err != nil || !recorded {
			return err
		}
	}
	return nil
}

func (r *Runner) lookAtHealth(ctx context.Context) error {
	if p := r.health.Load(); p != nil && time.Since(p.at) < healthAge {
		return nil
	}
	h, err := r.opts.Store.ArchiveHealth(ctx)
	if err == nil {
		r.health.Store(&health{h, time.Now()})
	}
	return err
}

// next returns the archive to read now. Requested archives come first, regardless of the daily amount. Other archives
// are not due before the last archive's share of the day has passed.
func (r *Runner) next(ctx context.Context) (store.Archive, bool, error) {
	if a, ok, err := r.opts.Store.RequestedArchive(ctx, confirmAfter); err != nil || ok {
		return a, ok, err
	}
	perDay := r.settings.Load().BytesPerDay
	if perDay <= 0 {
		return store.Archive{}, false, nil
	}
	ago, size, err := r.opts.Store.LastCheck(ctx)
	if err != nil {
		return store.Archive{}, false, err
	}
	if pause := time.Duration(float64(size) / float64(perDay) * float64(24*time.Hour)); ago >= 0 && ago < pause {
		return store.Archive{}, false, nil
	}
	return r.opts.Store.NextArchive(ctx, confirmAfter, minAge)
}

// check reads one archive back, and records the result if there is one.
func (r *Runner) check(ctx context.Context, a store.Archive) (recorded bool, err error) {
	if err := r.opts.Identity.Bucket(ctx); err != nil {
		return false, err
	}
	began := time.Now()
	content, err := r.opts.Archives.ReadBack(ctx, a.Key, func(n int) error { return pause(ctx, n) })
	missing := errors.Is(err, fs.ErrNotExist) && !errors.Is(err, archive.ErrNoBucket)
	switch {
	case ctx.Err() != nil:
		return false, nil // the term is over
	case err != nil && !missing && workspace.ReasonOf(err) == workspace.ReasonUnreachable:
		return false, err // the store is away: retry later
	}
	found := store.Check{
		Size: content.Size, SHA256: content.SHA256, Took: time.Since(began), Unknown: err != nil && !missing,
	}
	if !found.Unknown {
		found.Damage, found.Missing = Damage(a, content, missing), missing
	}
	if found.Damage != "" {
		// Still the right one?
		if err := r.opts.Identity.Bucket(ctx); err != nil {
			return false, err
		}
	}
	r.opts.Metrics.ReadBack(result(found), found.Size)
	recorded, failed := r.opts.Store.Checked(ctx, r.fence, a, found)
	if failed != nil || found.Unknown {
		return recorded, errors.Join(err, failed)
	}
	if recorded {
		r.log(a, found)
	}
	return recorded, nil
}

// pause waits for as long as n bytes take at the speed MaxSpeed.
func pause(ctx context.Context, n int) error {
	if !periodic.Pause(ctx, time.Duration(n)*time.Second/MaxSpeed) {
		return ctx.Err()
	}
	return nil
}

// Damage describes how the content that was read differs from the record of the archive. It returns "" if they agree.
func Damage(a store.Archive, c archive.Content, missing bool) string {
	switch {
	case missing:
		return "the archive or its commit marker is not in the object store"
	case c.Recorded == "":
		return "its commit marker is malformed"
	case c.SHA256 != c.Recorded:
		return "its checksum differs from the one in its commit marker"
	case a.SHA256 != "" && c.SHA256 != a.SHA256:
		return "its checksum differs from the one that the database knows"
	}
	return ""
}

// result classifies a check.
func result(c store.Check) string {
	switch {
	case c.Unknown:
		return "unreadable"
	case c.Missing:
		return "missing"
	case c.Damage != "":
		return "damaged"
	}
	return "whole"
}

// log writes a line once when an archive turns out to be damaged, and once when it no longer is.
func (r *Runner) log(a store.Archive, c store.Check) {
	fields := []zap.Field{zap.String(logkey.Workspace, string(a.WorkspaceID)), zap.String(logkey.ArchiveKey, a.Key)}
	switch {
	case c.Damage == "" && a.Damage != "":
		r.opts.Log.Info("an archive that was damaged is whole again", fields...)
	case c.Damage != "" && a.Damage == "" && !a.SuspectedAt.IsZero():
		r.opts.Log.Error("an archive is damaged: restore it from a copy of the bucket, or take a copy of the "+
			"workspace's files while its volume exists; \"caddy codehub workspace archives\" lists the others",
			append(fields, zap.String(logkey.Damage, c.Damage))...)
	}
}
