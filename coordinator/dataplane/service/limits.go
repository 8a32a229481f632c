package service

import (
	"context"
	"errors"

	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store"
)

// Limits bound the workspaces that run or have the desired state RUNNING, per user and in total (SPEC 5). Workspaces
// bounds a user's workspaces that are not deleted, Dozing those that doze. Zero and negative values mean no limit.
type Limits store.Limits

// DozingLimits bound the dozing workspaces, per user and in total.
type DozingLimits = store.DozingLimits

// Defaults of [Limits] (SPEC 5).
const (
	DefaultMaxRunningPerUser    = 2
	DefaultMaxRunningGlobal     = 100
	DefaultMaxWorkspacesPerUser = 100
	DefaultMaxDozingPerUser     = 2
	DefaultMaxDozingGlobal      = 100
)

// DefaultLimits returns the limits of SPEC 5.
func DefaultLimits() Limits {
	return Limits{
		PerUser: DefaultMaxRunningPerUser, Global: DefaultMaxRunningGlobal, Workspaces: DefaultMaxWorkspacesPerUser,
		Dozing: DozingLimits{PerUser: DefaultMaxDozingPerUser, Global: DefaultMaxDozingGlobal},
	}
}

// Validate reports everything that is wrong with configured limits, under the names of the settings. A configuration
// must limit running workspaces: in [Limits], 0 means "no limit", but in a configuration it is more likely a mistake.
func (l Limits) Validate() error {
	var errs []error
	if l.PerUser < 1 {
		errs = append(errs, setting.Errorf("limits max_running_per_user", "must be at least 1, not %d", l.PerUser))
	}
	if l.Global < 1 {
		errs = append(errs, setting.Errorf("limits max_running_global", "must be at least 1, not %d", l.Global))
	}
	if l.Workspaces < 0 {
		errs = append(errs,
			setting.Errorf("limits max_workspaces_per_user", "must be at least 0, which means no limit, not %d", l.Workspaces))
	}
	if l.Dozing.PerUser < 1 {
		errs = append(errs, setting.Errorf("limits max_dozing_per_user", "must be at least 1, not %d; ttl doze 0 turns dozing off", l.Dozing.PerUser))
	}
	if l.Dozing.Global < 1 {
		errs = append(errs, setting.Errorf("limits max_dozing_global", "must be at least 1, not %d; ttl doze 0 turns dozing off", l.Dozing.Global))
	}
	return errors.Join(errs...)
}

// Limits returns the current limits of all users.
func (s *Service) Limits() Limits { return *s.limits.Load() }

// LimitsOf returns the limits of a user: the user's own if set, otherwise the common ones.
func (s *Service) LimitsOf(ctx context.Context, userID string) (Limits, error) {
	l, err := s.store.LimitsOf(ctx, s.storeLimits(), userID, "")
	return Limits(l), err
}

// SetLimits changes the limits. It stops no running workspace.
func (s *Service) SetLimits(l Limits) { s.limits.Store(&l) }

// Limited returns a store whose automatic writes take places under the current limits; see [store.Limited].
func (s *Service) Limited() store.Limited {
	return store.Limited{Store: s.store, Limits: s.storeLimits}
}

// storeLimits returns the current limits in the form of package store.
func (s *Service) storeLimits() store.Limits { return store.Limits(*s.limits.Load()) }
