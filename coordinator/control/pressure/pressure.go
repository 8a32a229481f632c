// Package pressure watches how full the disk of the homes is (SPEC 7). When the disk is fuller than one mark, the
// leader archives the workspaces that have slept longest. When it is fuller than a second, higher mark, no home is
// brought to the disk until there is room. A waiting workspace shows why.
//
// It owns the two marks and their consequences. It must not write desired states itself or act on workspaces:
// it calls the service layer, tells the controller, and these do the rest.
package pressure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Defaults of [Settings].
const (
	DefaultArchiveAt = 0.85
	DefaultStopAt    = 0.95
	DefaultInterval  = 30 * time.Second
)

const (
	// archiveMargin and stopMargin are how far the use of the disk must fall below the mark before the shortage counts
	// as over, so that the mark is not passed again immediately.
	archiveMargin = 0.05
	stopMargin    = 0.02
	// atOnce is how many workspaces may be archived concurrently because of the disk.
	atOnce = 4
	// asleepFor is how long a workspace must have been asleep to be archived to make room. A workspace that has only
	// just fallen asleep may be opened again the next moment.
	asleepFor = time.Minute
	// remembered is how long a measurement is valid without a newer one. After that the state is unknown, and
	// nothing waits.
	remembered = 5 * time.Minute
)

// Settings can change at run time.
type Settings struct {
	// ArchiveAt is the share of the disk in use from which sleeping workspaces are archived early. StopAt is the share
	// from which no home is brought to the disk. 0 means never.
	ArchiveAt, StopAt float64
	// Interval is the time between two looks at the disk.
	Interval time.Duration
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{ArchiveAt: DefaultArchiveAt, StopAt: DefaultStopAt, Interval: DefaultInterval}
}

// Validate returns everything that is wrong with the settings, under their names in the configuration.
func (s Settings) Validate() error {
	var errs []error
	for name, at := range map[string]float64{
		"disk_pressure archive_at": s.ArchiveAt, "disk_pressure stop_at": s.StopAt,
	} {
		if !(at >= 0 && at <= 1) {
			errs = append(errs, setting.Errorf(name, "must be from 1%% to 100%%, such as 85%%, or off, not %s", percent(at)))
		}
	}
	if s.ArchiveAt > 0 && s.StopAt > 0 && s.ArchiveAt >= s.StopAt {
		errs = append(errs, setting.Errorf("disk_pressure stop_at", "must be more than archive_at (%s), or new workspaces "+
			"would wait although nothing makes room, not %s",
			percent(s.ArchiveAt), percent(s.StopAt)))
	}
	return errors.Join(errs...)
}

func (s Settings) off() bool { return s.ArchiveAt == 0 && s.StopAt == 0 }

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%g%%", math.Round(share*1000)/10) }

// Backend is the container backend as the watch uses it. backend.Backend implements it.
type Backend interface {
	Disk(ctx context.Context) (backend.Disk, error)
}

// Store is what the watch needs of PostgreSQL. *store.Store implements it.
type Store interface {
	// LongestAsleep returns at most limit workspaces that have been in STANDBY for longer than asleep and may be
	// archived. It begins with those that have slept longest.
	LongestAsleep(ctx context.Context, asleep time.Duration, limit int) ([]workspace.ID, error)
	// LeavingDisk returns the workspaces that are being archived.
	LeavingDisk(ctx context.Context) (store.Leaving, error)
}

// Archiver is the service layer. *service.Service implements it.
type Archiver interface {
	// ArchiveForSpace archives a workspace that has been in STANDBY for at least asleep, unless it has changed since it
	// was found. It reports whether the workspace is archived.
	ArchiveForSpace(ctx context.Context, id workspace.ID, asleep time.Duration, why string) (bool, error)
}

// Controller brings homes to the disk. *reconcile.Controller implements it.
type Controller interface {
	// SetFullDisk sets the reason why no home may be brought to the disk from now on; nil means that there is room.
	SetFullDisk(*workspace.FullDisk)
}

// Options are the dependencies of a [Watch].
type Options struct {
	Backend  Backend
	Store    Store
	Archiver Archiver
	// Leads reports whether this process leads any shard. Only while it does, the watch looks at the disk.
	Leads func() bool
	// Controller learns after each look whether the disk is full.
	Controller Controller
	Log        *zap.Logger
}

// Watch knows how full the disk is. It is safe for concurrent use.
type Watch struct {
	Options
	settings atomic.Pointer[Settings]
	loop     *periodic.Loop
	asking   *outage.Reporter
	stopped  *outage.Reporter
	pressed  *outage.Reporter
	now      func() time.Time
	asked    time.Time     // when the disk was last measured; only Run uses it
	moved    chan struct{} // signals another measurement

	mu    sync.Mutex // guards the following
	state DiskState
}

// DiskState is the state of the disk.
type DiskState struct {
	// Known is false while the disk cannot be measured, or both marks are off.
	Known bool
	Disk  backend.Disk
	// Pressed means that sleeping workspaces are archived to make room. Full means that no home is brought to the disk.
	Pressed, Full bool
	// Leaving counts the workspaces that were being archived at the last count.
	Leaving store.Leaving
}

// New returns a watch. It performs no I/O.
func New(o Options, settings Settings) *Watch {
	w := &Watch{Options: o, moved: make(chan struct{}, 1), now: time.Now}
	w.settings.Store(&settings)
	w.loop = periodic.New("looking at the disk of the homes", settings.Interval, w.tick, o.Log)
	w.asking = outage.New(o.Log, zapcore.WarnLevel,
		"cannot ask how full the disk of the homes is; nothing is archived to make room, and nothing waits for it",
		"asking how full the disk of the homes is works again")
	w.pressed = outage.New(o.Log, zapcore.WarnLevel,
		"the disk of the homes fills up; the workspaces that have slept longest are archived to make room",
		"there is room on the disk of the homes again")
	w.stopped = outage.New(o.Log, zapcore.ErrorLevel,
		"the disk of the homes is full; new workspaces and restores wait for room",
		"new workspaces and restores go on: the disk of the homes has room for them")
	return w
}

// Set changes the settings.
func (w *Watch) Set(s Settings) {
	if old := w.settings.Swap(&s); *old != s {
		w.loop.SetInterval(s.Interval)
		w.loop.Wake()
	}
}

// State returns the state of the disk.
func (w *Watch) State() DiskState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

// whole formats a measured share.
func whole(share float64) string { return fmt.Sprintf("%.0f%%", share*100) }

// fullDisk returns why no home is brought to the disk. It returns nil while there is room or the state of the disk is
// unknown.
func (s DiskState) fullDisk() *workspace.FullDisk {
	if !s.Full {
		return nil
	}
	return &workspace.FullDisk{Percent: int(math.Round(s.Disk.Used() * 100)), Leaving: s.Leaving.Workspaces}
}

// set changes the state, and tells the controller. Only Run calls it.
func (w *Watch) set(s DiskState) {
	w.mu.Lock()
	w.state = s
	w.mu.Unlock()
	w.Controller.SetFullDisk(s.fullDisk())
}

// Run looks at the disk at every interval until ctx ends, in every process that leads.
func (w *Watch) Run(ctx context.Context) error {
	return w.loop.RunNow(ctx)
}

// tick looks if this process leads. Otherwise it forgets the disk, because the state would be outdated when
// this process leads again.
func (w *Watch) tick(ctx context.Context) error {
	if w.Leads() {
		w.look(ctx)
	} else {
		w.set(DiskState{})
	}
	return nil
}

// look measures the disk, and acts on the result.
func (w *Watch) look(ctx context.Context) {
	s := *w.settings.Load()
	if s.off() {
		w.forget()
		return
	}
	disk, err := w.Backend.Disk(ctx)
	if errors.Is(err, backend.ErrUnknownDisk) {
		w.forget()
		return
	}
	w.asking.Report(ctx, err)
	if err != nil {
		if old := w.now().Sub(w.asked) > remembered; old && ctx.Err() == nil {
			w.forget()
		}
		return
	}
	leaving, err := w.Store.LeavingDisk(ctx)
	if err != nil {
		leaving = store.Leaving{} // the database is away: the parts that need it log that
	}
	w.conclude(DiskState{Known: true, Disk: disk, Leaving: leaving}, s)
}

// conclude compares a measurement with the marks and records the result.
func (w *Watch) conclude(seen DiskState, s Settings) {
	was := w.State()
	used := seen.Disk.Used()
	seen.Pressed = past(used, s.ArchiveAt, archiveMargin, was.Pressed)
	seen.Full = past(used, s.StopAt, stopMargin, was.Full)
	w.asked = w.now()
	w.set(seen)
	fields := []zap.Field{zap.String(logkey.Used, whole(used)), zap.Int64(logkey.FreeBytes, seen.Disk.Free)}
	tell(w.pressed, seen.Pressed, fmt.Errorf("%s of the disk is in use, which is past disk_pressure archive_at %s",
		whole(used), percent(s.ArchiveAt)), fields)
	tell(w.stopped, seen.Full, fmt.Errorf("%s of the disk is in use, which is past disk_pressure stop_at %s",
		whole(used), percent(s.StopAt)), fields)
	select {
	case w.moved <- struct{}{}:
	default:
	}
}

// forget records that the state is unknown. No workspace waits for a disk that cannot be measured.
func (w *Watch) forget() {
	w.set(DiskState{})
	w.pressed.Recovered()
	w.stopped.Recovered()
}

func tell(r *outage.Reporter, bad bool, why error, fields []zap.Field) {
	if bad {
		r.Failed(why, fields...)
	} else {
		r.Recovered(fields...)
	}
}

// past reports whether a mark counts as passed. It does if used has reached it, or if it counted as passed before and
// used has not fallen far enough below it. A mark of 0 never counts as passed.
func past(used, mark, margin float64, was bool) bool {
	if mark == 0 {
		return false
	}
	if was {
		mark = max(mark-margin, mark/2)
	}
	return used >= mark
}

// Sweep archives workspaces while the disk fills up, until ctx ends. It runs in the process that leads, once for all
// shards.
func (w *Watch) Sweep(ctx context.Context) error {
	w.loop.Wake() // this process has just begun to lead
	archiving := outage.New(w.Log, zapcore.WarnLevel, "cannot have workspaces archived to make room",
		"having workspaces archived to make room works again")
	for {
		if w.State().Pressed {
			archiving.Report(ctx, w.makeRoom(ctx))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-w.moved:
		}
	}
}

// makeRoom archives some workspaces, beginning with those that have slept longest. It archives none if those that are
// already being archived will free enough space.
func (w *Watch) makeRoom(ctx context.Context) error {
	leaving, err := w.Store.LeavingDisk(ctx)
	if err != nil {
		return err
	}
	state, s := w.State(), w.settings.Load()
	if !state.Pressed || leaving.Workspaces >= atOnce {
		return nil
	}
	after := state.Disk
	after.Free += leaving.Bytes
	if !past(after.Used(), s.ArchiveAt, archiveMargin, true) {
		return nil
	}
	ids, err := w.Store.LongestAsleep(ctx, asleepFor, atOnce-leaving.Workspaces)
	if err != nil {
		return err
	}
	why := fmt.Sprintf("to make room: the disk of the homes was %s full", whole(state.Disk.Used()))
	var errs []error
	for _, id := range ids {
		if _, err := w.Archiver.ArchiveForSpace(ctx, id, asleepFor, why); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
