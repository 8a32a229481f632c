package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultMaxKeepAwake is the default of [Service.SetMaxKeepAwake].
const DefaultMaxKeepAwake = 8 * time.Hour

// CheckMaxKeepAwake reports what is wrong with the longest time, under the setting's name.
func CheckMaxKeepAwake(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("ttl keep_awake_max: must be a duration, such as 8h, or 0 to refuse it, not %s", d)
	}
	return nil
}

// SetMaxKeepAwake changes for how long a workspace can be kept awake at most.
func (s *Service) SetMaxKeepAwake(d time.Duration) { s.maxKeepAwake.Store(int64(d)) }

// KeepAwake keeps an unused workspace awake for d from now, and no longer if d is 0. Putting it
// to sleep, archiving and deleting it end that as well. It returns the workspace afterwards;
// [ErrNotFound]; [ErrStale]; [*InvalidError] if d is longer than the setting allows; [ErrNotAwake] if the
// workspace is not meant to run; and a [*LimitError] if it dozes and there is no place for it to run.
func (s *Service) KeepAwake(
	ctx context.Context, a Actor, id workspace.ID, d time.Duration,
) (workspace.Workspace, error) {
	if limit := time.Duration(s.maxKeepAwake.Load()); d < 0 || d > limit {
		return workspace.Workspace{}, &InvalidError{"hours",
			words.Of("problem.rule.from_0", words.Values{"Max": limit.Hours()})}
	}
	if !valid(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	w, err := s.store.KeepAwake(ctx, a.viewer(), id, d)
	if err == nil && !w.DozeAt.IsZero() && d > 0 { // it needs a place again
		var outcome store.Outcome
		w, outcome, err = s.store.KeepAwakeWithin(ctx, a.viewer(), id, d, a.Input, s.storeLimits())
		if err == nil {
			err = s.refusal(ctx, outcome, a.UserID, id)
		}
	}
	if err = translate(err); err == ErrNotFound {
		if present, known := s.Get(ctx, a, id); known == nil {
			err = cmp.Or(a.CheckRevision(present), ErrNotAwake)
		}
	}
	if err != nil {
		return workspace.Workspace{}, err
	}
	s.log.Info("workspace kept awake", zap.String(logkey.Workspace, string(id)), zap.Duration(logkey.Duration, d),
		zap.String(logkey.By, a.UserID), zap.String(logkey.Through, string(a.through())))
	return w, nil
}

// Unused says of a workspace why it is to be put to sleep.
type Unused struct {
	// TTL is how long it may be unused, Since up to when it was not used.
	TTL   time.Duration
	Since time.Time
	// Why goes to the history: why it is put to sleep although something goes on in it.
	Why string
}

// Sleep changes the desired state of a running, unused workspace to STANDBY. The statement that
// writes checks again that it runs and is meant to, and has no operation in progress. It must not
// have been used after u.Since, and its sleep must have been announced for a time that has come.
// Otherwise Sleep returns false and changes nothing.
func (s *Service) Sleep(ctx context.Context, id workspace.ID, u Unused) (bool, error) {
	changed, err := s.store.Sleep(ctx, id, u.TTL, u.Since, u.Why)
	if changed {
		cause := audit.Idle
		if u.Why != "" {
			cause = audit.Busy
		}
		s.logChange(ctx, "workspace expired", Actor{Through: audit.TTL, cause: cause}, id, workspace.DesiredStandby)
	}
	return changed, err
}

// Doze lets a running workspace doze that was not used after since: its container is frozen until
// somebody wants it again. The statement that writes checks again that it runs and is meant to, is
// neither busy nor kept awake, and has no operation in progress. Otherwise, and when as many doze as
// may, Doze returns false and changes nothing.
func (s *Service) Doze(ctx context.Context, id workspace.ID, since time.Time) (bool, error) {
	dozes, err := s.store.Doze(ctx, id, since, s.storeLimits().Dozing)
	if dozes {
		s.metrics.Dozed()
		s.log.Info("workspace dozes", zap.String(logkey.Workspace, string(id)), zap.String(logkey.Through, string(audit.TTL)))
	}
	return dozes, err
}

// SleepForMemory changes the desired state of a workspace that dozes to STANDBY, before its time is up, to
// free the memory that its container keeps. The statement that writes checks again that it dozes and
// has no operation in progress. Otherwise SleepForMemory returns false and changes nothing. why goes to
// the history.
func (s *Service) SleepForMemory(ctx context.Context, id workspace.ID, why string) (bool, error) {
	a := Actor{Through: audit.Memory}
	changed, err := s.store.SleepForMemory(ctx, id, a.through(), why)
	if changed {
		s.logChange(ctx, "workspace put to sleep to free memory", a, id, workspace.DesiredStandby)
	}
	return changed, err
}

// Archive changes the desired state of a workspace to ARCHIVED that has been in STANDBY
// for ttl. The statement that writes checks that again, and that it has no operation in
// progress and is meant to be in STANDBY. Otherwise Archive returns false and changes
// nothing.
func (s *Service) Archive(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	return s.archive(ctx, "workspace expired", Actor{Through: audit.TTL, cause: audit.Idle}, id, ttl, "")
}

// ArchiveForSpace is Archive for a workspace that has to make room on the disk of the homes
// before its time is up. why goes to the history.
func (s *Service) ArchiveForSpace(
	ctx context.Context, id workspace.ID, asleep time.Duration, why string,
) (bool, error) {
	return s.archive(ctx, "workspace archived to make room", Actor{Through: audit.Disk}, id, asleep, why)
}

func (s *Service) archive(
	ctx context.Context, message string, a Actor, id workspace.ID, asleep time.Duration, why string,
) (bool, error) {
	changed, err := s.store.ExpireStandby(ctx, id, asleep, a.through(), why)
	if changed {
		s.logChange(ctx, message, a, id, workspace.DesiredArchived)
	}
	return changed, err
}
