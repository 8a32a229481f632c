package reconcile

import (
	"errors"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/pull"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/sweep"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

const (
	// MaxPulls bounds the images that are pulled at the same time. More pulls would share the same network connection,
	// and all images would become ready later.
	MaxPulls = 2
	// activeFor is longer than the start of most workspaces.
	activeFor = 30 * time.Second
)

// Settings can change while the controller runs.
type Settings struct {
	// IdleInterval is the time between two observations of all candidates. While an operation is in progress, and for
	// activeFor after a wake-up, those that are about to change are also observed at every ActiveInterval (SPEC 5).
	IdleInterval, ActiveInterval time.Duration
	// SweepInterval is the time in which all workspaces that ticks leave out are observed once. Ticks leave out the
	// workspaces in STANDBY, and deleted workspaces that still have an archive.
	SweepInterval time.Duration
	// MaxConcurrent bounds the actuators that run at the same time, in all shards of the
	// process. Storage jobs run in the backend and do not count.
	MaxConcurrent int
	// MaxJobs bounds the storage jobs that run at the same time, in the installation (SPEC 7).
	// If there is more than one place, one is reserved for jobs that people wait for.
	MaxJobs int
	// PrepullInterval is the time between two looks for images from which workspaces start and which the engine lacks.
	// 0 means never, and is for tests.
	PrepullInterval time.Duration
	// Timeouts limit how long each operation may go without progress; MaxRetry limits an
	// operation's failures (SPEC 3).
	Timeouts map[workspace.Operation]time.Duration
	MaxRetry int
	// WaitLimit is how long a workspace without an intact volume waits for an object store that refuses. After that it
	// goes to ERROR.
	WaitLimit time.Duration
	// KeepDeleted is how long the only copy of a deleted workspace's files is kept. It is as long as the garbage
	// collector keeps the workspace's archives.
	KeepDeleted time.Duration
	// MaxLossShare is the circuit breaker for DataLost. If a look covers at least four workspaces and shows more than
	// this share of them as lost, it is not believed.
	MaxLossShare float64
	// MeasureInterval is the time between two looks for homes to measure. MeasureAge is the age
	// from which the size of a home that is in use is out of date.
	MeasureInterval, MeasureAge time.Duration
	// HomeWarn is the size, in bytes, from which a home is logged; 0 means never.
	HomeWarn int64
}

// DefaultSettings are those of SPEC 3 and 5.
func DefaultSettings() Settings {
	return Settings{
		IdleInterval:    15 * time.Second,
		ActiveInterval:  time.Second,
		SweepInterval:   5 * time.Minute,
		MaxConcurrent:   10,
		MaxJobs:         4,                // each takes up to 512 MiB, and the disk is one
		PrepullInterval: 10 * time.Minute, // images rarely vanish, and each look asks for all of them
		Timeouts:        planner.DefaultTimeouts(),
		MaxRetry:        3,
		WaitLimit:       10 * time.Minute,
		KeepDeleted:     2 * time.Hour,
		MaxLossShare:    0.5,

		MeasureInterval: time.Minute,
		MeasureAge:      6 * time.Hour,
	}
}

// pulls are the limits of the pulls. A pull fails if it makes no progress for as long as a start may take.
func (s *Settings) pulls() pull.Limits {
	return pull.Limits{Max: MaxPulls, Stall: s.Timeouts[workspace.OpStarting]}
}

// sweep is the pace of the sweeps.
func (s *Settings) sweep() sweep.Settings {
	return sweep.Settings{Interval: s.SweepInterval, MeasureInterval: s.MeasureInterval, MeasureAge: s.MeasureAge,
		HomeWarn: s.HomeWarn}
}

// Validate reports everything that is wrong with the settings that people configure, under their names in the
// configuration. Only tests change the other fields.
func (s Settings) Validate() error {
	var errs []error
	duration := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, setting.Errorf(name, "must be a duration above zero, such as 15s, not %s", d))
		}
	}
	count := func(name string, n int) {
		if n < 1 {
			errs = append(errs, setting.Errorf(name, "must be at least 1, not %d", n))
		}
	}
	duration("coordinator idle_interval", s.IdleInterval)
	duration("coordinator active_interval", s.ActiveInterval)
	duration("timeouts starting", s.Timeouts[workspace.OpStarting])
	if s.HomeWarn < 0 {
		errs = append(errs, setting.Errorf("home_warn", "must be a size such as 20GiB, or 0 for no warning, not %d",
			s.HomeWarn))
	}
	if !(s.MaxLossShare > 0 && s.MaxLossShare <= 1) {
		errs = append(errs, setting.Errorf("coordinator max_loss_share", "must be above 0 and at most 1, such as 0.5, not %v",
			s.MaxLossShare))
	}
	count("coordinator max_concurrent", s.MaxConcurrent)
	count("coordinator max_jobs", s.MaxJobs)
	count("coordinator max_retry", s.MaxRetry)
	return errors.Join(errs...)
}
