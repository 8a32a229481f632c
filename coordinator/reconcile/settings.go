package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Settings can change while the controller runs.
type Settings struct {
	// IdleInterval and ActiveInterval are the times between two observations of all
	// candidates. ActiveInterval applies while an operation is in progress and for
	// ActiveFor after a wake-up (SPEC 5).
	IdleInterval, ActiveInterval, ActiveFor time.Duration
	// SweepInterval is the time between two observations that include workspaces in
	// STANDBY.
	SweepInterval time.Duration
	// MaxConcurrent bounds the actuators that run at the same time. Storage jobs run in
	// the backend and do not count.
	MaxConcurrent int
	// Timeouts limit each operation, all its retries included; MaxRetry limits an
	// operation's failures (SPEC 3).
	Timeouts map[workspace.Operation]time.Duration
	MaxRetry int
	// StableAfter is how long a container must have run for its exit not to count as a
	// crash.
	StableAfter time.Duration
	// OperationLimit is the longest that an operation may take in all, however well it
	// gets on.
	OperationLimit time.Duration
	// WaitLimit is how long a workspace without an intact volume waits while the object
	// store refuses to answer for it, before it is in ERROR.
	WaitLimit time.Duration
	// MaxLossShare is the largest share of the workspaces looked at, of at least 4, that
	// may be found to have lost their data at one time.
	MaxLossShare float64
	// MaxPulls bounds the images that are pulled at the same time.
	MaxPulls int
}

// DefaultSettings are those of SPEC 3 and 5.
func DefaultSettings() Settings {
	return Settings{
		IdleInterval:   15 * time.Second,
		ActiveInterval: time.Second,
		ActiveFor:      30 * time.Second,
		SweepInterval:  5 * time.Minute,
		MaxConcurrent:  10,
		Timeouts:       workspace.DefaultTimeouts(),
		MaxRetry:       3,
		StableAfter:    time.Minute,
		OperationLimit: 24 * time.Hour,
		WaitLimit:      10 * time.Minute,
		MaxLossShare:   0.5,
		MaxPulls:       2,
	}
}

// Validate reports everything that is wrong with the settings, under their names in
// the configuration.
func (s Settings) Validate() error {
	var errs []error
	duration := func(name string, d time.Duration) {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("%s: must be a duration above zero, such as 15s, not %s", name, d))
		}
	}
	count := func(name string, n int) {
		if n < 1 {
			errs = append(errs, fmt.Errorf("%s: must be at least 1, not %d", name, n))
		}
	}
	duration("idle_interval", s.IdleInterval)
	duration("active_interval", s.ActiveInterval)
	duration("active_for", s.ActiveFor)
	duration("sweep_interval", s.SweepInterval)
	duration("stable_after", s.StableAfter)
	duration("operation_limit", s.OperationLimit)
	duration("wait_limit", s.WaitLimit)
	count("max_concurrent", s.MaxConcurrent)
	count("max_retry", s.MaxRetry)
	count("max_pulls", s.MaxPulls)
	if !(s.MaxLossShare > 0 && s.MaxLossShare <= 1) { // also for NaN
		errs = append(errs, fmt.Errorf("max_loss_share: %g; give a fraction above 0 and at most 1, such as 0.5", s.MaxLossShare))
	}
	known := workspace.DefaultTimeouts()
	for op := range known {
		duration("timeout of "+string(op), s.Timeouts[op])
	}
	for op := range s.Timeouts {
		if _, ok := known[op]; !ok {
			errs = append(errs, fmt.Errorf("timeout of %s: unknown operation", op))
		}
	}
	return errors.Join(errs...)
}
