package service

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultMaxKeepAwake is the default of [Service.SetMaxKeepAwake].
const DefaultMaxKeepAwake = 8 * time.Hour

// CheckMaxKeepAwake reports what is wrong with that time, under the setting's name.
func CheckMaxKeepAwake(d time.Duration) error {
	if d < 0 {
		return setting.Errorf("ttl keep_awake_max", "must be a duration, such as 8h, or 0 to refuse it, not %s", d)
	}
	return nil
}

// SetMaxKeepAwake changes the longest time for which KeepAwake keeps a workspace awake.
func (s *Service) SetMaxKeepAwake(d time.Duration) { s.maxKeepAwake.Store(int64(d)) }

// KeepAwake keeps an unused workspace awake for d from now; 0 ends that. Putting it to sleep, archiving and deleting
// also end it. KeepAwake returns the workspace afterwards; [ErrNotFound]; [ErrStale]; [*InvalidError] if d is longer
// than the setting allows; [ErrNotAwake] if the workspace is not meant to run; and a [*LimitError] if the workspace
// dozes and no place is free for it to resume.
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

// Unused is why a workspace is put to sleep.
type Unused struct {
	// TTL is how long it may be unused. It was not used after Since.
	TTL   time.Duration
	Since time.Time
	// Why is the message in the history if the workspace sleeps although it is busy.
	Why string
}

// Sleep changes the desired state of a running, unused workspace to STANDBY. The statement that writes checks again
// that the workspace runs, is meant to run, has no operation in progress, and was not used after u.Since. It also
// checks that the announced time to sleep has come. Otherwise Sleep returns false and changes nothing.
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

// Doze freezes the container of a running workspace that was not used after since, until it is used again. The
// statement that writes checks again that the workspace runs, is meant to run, is neither busy nor kept awake, and has
// no operation in progress. Otherwise, or if the limit of dozing workspaces is reached, Doze returns false and changes
// nothing.
func (s *Service) Doze(ctx context.Context, id workspace.ID, since time.Time) (bool, error) {
	dozes, err := s.store.Doze(ctx, id, since, s.storeLimits().Dozing)
	if dozes {
		s.metrics.Dozed()
		s.log.Info("workspace dozes", zap.String(logkey.Workspace, string(id)), zap.String(logkey.Through, string(audit.TTL)))
	}
	return dozes, err
}

// SleepForMemory changes the desired state of a dozing workspace to STANDBY before its time to sleep, to free the
// memory of its container. The statement that writes checks again that it dozes and has no operation in progress.
// Otherwise SleepForMemory returns false and changes nothing. why is the message in the history.
func (s *Service) SleepForMemory(ctx context.Context, id workspace.ID, why string) (bool, error) {
	a := Actor{Through: audit.Memory}
	changed, err := s.store.SleepForMemory(ctx, id, a.through(), why)
	if changed {
		s.logChange(ctx, "workspace put to sleep to free memory", a, id, workspace.DesiredStandby)
	}
	return changed, err
}

// Archive sets the desired state ARCHIVED of a workspace that has been in STANDBY for longer than ttl. The statement
// that writes checks that again, and that the workspace is meant to be in STANDBY and has no operation in progress.
// Otherwise Archive returns false and changes nothing.
func (s *Service) Archive(ctx context.Context, id workspace.ID, ttl time.Duration) (bool, error) {
	return s.archive(ctx, "workspace expired", Actor{Through: audit.TTL, cause: audit.Idle}, id, ttl, "")
}

// ArchiveForSpace is [Service.Archive] before the workspace's time to be archived. It frees space on the disk of the
// homes. why is the message in the history.
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
