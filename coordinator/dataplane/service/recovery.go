package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Inventory finds the data of a workspace. It returns an error unless both the backend and the object store have
// answered and are the recorded ones (SPEC 2): a recovery that knows only one half of the data could give files up.
type Inventory interface {
	Inventory(ctx context.Context, id workspace.ID) (workspace.Inventory, error)
	// Versions returns the complete archives only, newest first, under the same condition.
	Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error)
}

// Choice is a person's decision about the data of a workspace in ERROR.
type Choice struct {
	// Kind is empty without a choice.
	Kind workspace.RecoveryChoice
	// Key is the archive for [workspace.RecoverArchive].
	Key string
	// ReplaceVolume gives up the files on an existing volume.
	ReplaceVolume bool
}

// validate checks the choice itself; what exists is checked later.
func (c Choice) validate() error {
	switch c.Kind {
	case "", workspace.RecoverRetry, workspace.RecoverVolume, workspace.RecoverArchive, workspace.RecoverEmpty:
	default:
		return &InvalidError{"choice", words.Of("problem.rule.choice", nil)}
	}
	switch {
	case c.Kind == workspace.RecoverArchive && c.Key == "":
		return &InvalidError{"archive_key", words.Of("problem.rule.archive_key", nil)}
	case c.Kind != workspace.RecoverArchive && c.Key != "":
		return &InvalidError{"archive_key", words.Of("problem.rule.no_archive_key", nil)}
	case c.ReplaceVolume && c.Kind != workspace.RecoverArchive && c.Kind != workspace.RecoverEmpty:
		return &InvalidError{"replace_volume", words.Of("problem.rule.replace_volume", nil)}
	}
	return nil
}

// made reports whether the choice is about the data.
func (c Choice) made() bool { return c.Kind != "" && c.Kind != workspace.RecoverRetry }

// inDoubt are the reasons after which nothing happens to the data without a choice (SPEC 12.9). After any other reason,
// including ArchiveCorrupted, the next attempt uses the same data as the last one: it fails again, unless the cause was
// fixed.
var inDoubt = map[workspace.ErrorReason]bool{workspace.ReasonDataLost: true, workspace.ReasonConflict: true}

// needsInventory reports whether the recovery depends on the data that exists.
func needsInventory(w workspace.Workspace, c Choice) bool {
	return !w.Deleted() && (c.made() || inDoubt[w.NeedsRecovery()])
}

// decide is the rule of recoveries. It returns the recovery that the choice c means for a workspace in ERROR with the
// data inv, or the problem that forbids it. It never starts with an empty home or an older archive unless that was
// chosen, and never replaces a volume unless that was chosen as well.
func decide(w workspace.Workspace, c Choice, inv workspace.Inventory) (r workspace.Recovery, problem words.Text) {
	volume := inv.Volume != nil
	switch {
	case w.Deleted() || !c.made() && !inDoubt[w.NeedsRecovery()]:
		return workspace.Recovery{Choice: workspace.RecoverRetry}, nil

	case !c.made() && w.ErrorReason == workspace.ReasonDataLost && volume:
		return workspace.Recovery{Choice: workspace.RecoverVolume}, nil // it is back
	case !c.made() && w.ErrorReason == workspace.ReasonDataLost && currentIsBack(w, inv):
		return workspace.Recovery{Choice: workspace.RecoverArchive, Key: w.ArchiveKey}, nil
	case !c.made():
		return r, words.Of("problem.recovery.in_doubt", nil)
	case w.InUseInConflict() && c.Kind != workspace.RecoverVolume:
		return r, words.Of("problem.recovery.in_use", nil)

	case c.Kind == workspace.RecoverVolume && !volume:
		return r, words.Of("problem.recovery.no_volume", nil)
	case c.Kind == workspace.RecoverVolume:
		return workspace.Recovery{Choice: workspace.RecoverVolume}, nil

	case c.Kind == workspace.RecoverArchive && !has(w, inv, c.Key):
		return r, words.Of("problem.recovery.no_archive", words.Values{"Key": c.Key})
	case volume && !c.ReplaceVolume:
		return r, words.Of("problem.recovery.volume_lost", nil)
	}
	// If no volume existed when the choice was made, the choice gives no volume up. A volume that appears later must
	// stay.
	return workspace.Recovery{Choice: c.Kind, Key: c.Key, ReplaceVolume: c.ReplaceVolume && volume}, nil
}

// choices returns all choices that [decide] accepts for the workspace now.
func choices(w workspace.Workspace, inv workspace.Inventory) []Choice {
	replace := inv.Volume != nil
	all := []Choice{{Kind: workspace.RecoverVolume}}
	for _, a := range inv.Archives {
		all = append(all, Choice{workspace.RecoverArchive, a.Key, replace})
	}
	all = append(all, Choice{Kind: workspace.RecoverEmpty, ReplaceVolume: replace})
	return slices.DeleteFunc(all, func(c Choice) bool {
		_, problem := decide(w, c, inv)
		return problem != nil
	})
}

// currentIsBack reports whether the row's archive exists and is the newest one, and whether no container has written to
// the home since the archive was made.
func currentIsBack(w workspace.Workspace, inv workspace.Inventory) bool {
	if w.ArchiveKey == "" || w.HomeCtx.Dirty || !has(w, inv, w.ArchiveKey) {
		return false
	}
	return newest(inv.Archives).Key == w.ArchiveKey
}

// newest returns the newest archive.
func newest(archives []workspace.ArchiveVersion) workspace.ArchiveVersion {
	return slices.MaxFunc(archives, func(a, b workspace.ArchiveVersion) int { return a.Modified.Compare(b.Modified) })
}

// has reports whether key is an existing archive of this workspace.
func has(w workspace.Workspace, inv workspace.Inventory, key string) bool {
	return strings.HasPrefix(key, string(w.ID)+"/") &&
		slices.ContainsFunc(inv.Archives, func(a workspace.ArchiveVersion) bool { return a.Key == key })
}

// look returns the data that exists of the workspace.
func (s *Service) look(ctx context.Context, w workspace.Workspace) (workspace.Inventory, error) {
	err := errors.New("this process cannot look for it")
	var inv workspace.Inventory
	if s.inventory != nil {
		inv, err = s.inventory.Inventory(ctx, w.ID)
	}
	if err != nil {
		return inv, fmt.Errorf("%w: %w", ErrInventoryUnknown, err)
	}
	for i := range inv.Archives {
		inv.Archives[i].Current = inv.Archives[i].Key == w.ArchiveKey
	}
	return inv, nil
}

// Recover clears the error of a workspace in ERROR and has the controller carry out the choice. If a workspace with a
// Conflict is in use, only the choice to keep its volume is possible; the other choices require that it sleeps first.
// Without a choice, Recover does what gives nothing up: it retries after an error that does not concern the data, and
// uses data that has come back after DataLost. Otherwise it returns a [*ChoiceError] with what exists. If a limit is
// reached, the workspace is recovered but does not run: its desired state becomes STANDBY. A workspace without an error
// stays as it is. Only administrators may call Recover ([ErrForbidden]). It returns [ErrNotFound], [ErrStale],
// [ErrInventoryUnknown], and [*InvalidError] and [ErrDeleted] for an impossible choice.
func (s *Service) Recover(ctx context.Context, a Actor, id workspace.ID, c Choice) (workspace.Workspace, error) {
	if !a.Admin {
		return workspace.Workspace{}, ErrForbidden
	}
	if !valid(a, id) {
		return workspace.Workspace{}, ErrNotFound
	}
	if err := c.validate(); err != nil {
		return workspace.Workspace{}, err
	}
	// Another administrator or the controller may change the error meanwhile. Then the decision is about the new error.
	for range 3 {
		w, err := s.store.Get(ctx, a.viewer(), id)
		if err != nil {
			return workspace.Workspace{}, translate(err)
		}
		if err := a.CheckRevision(w); err != nil {
			return workspace.Workspace{}, err
		}
		if w.NeedsRecovery() == "" {
			if c.made() {
				return workspace.Workspace{}, &ChoiceError{Problem: words.Of("problem.recovery.no_error", nil)}
			}
			return w, nil
		}
		recovered, changed, err := s.recover(ctx, a, w, c)
		if changed || err != nil {
			return recovered, err
		}
	}
	return workspace.Workspace{}, fmt.Errorf("recovering workspace %s: its error changes all the time; try again", id)
}

// whileNotCollecting calls f, which looks for archives and writes the chosen one. Meanwhile no process collects
// archives. A collector that is already running may have judged the workspace before the choice was written, and may be
// about to delete the chosen archive. A collector that starts later reads the choice.
func (s *Service) whileNotCollecting(ctx context.Context, f func() error) error {
	idle, err := s.store.WhileIdle(ctx, postgres.LockGC, f)
	if err == nil && !idle {
		err = fmt.Errorf("%w: archives are being collected; try again in a few minutes", ErrInventoryUnknown)
	}
	return err
}

// recover recovers w from its present error. If the row's error has changed, it writes nothing and changed is false.
func (s *Service) recover(
	ctx context.Context, a Actor, w workspace.Workspace, c Choice,
) (_ workspace.Workspace, changed bool, err error) {
	if w.Deleted() && c.made() {
		return workspace.Workspace{}, false, ErrDeleted
	}
	if c.Kind != workspace.RecoverArchive {
		return s.recoverNow(ctx, a, w, c)
	}
	var recovered workspace.Workspace
	err = s.whileNotCollecting(ctx, func() (err error) {
		recovered, changed, err = s.recoverNow(ctx, a, w, c)
		return err
	})
	return recovered, changed, err
}

// recoverNow is recover while no archives are collected.
func (s *Service) recoverNow(
	ctx context.Context, a Actor, w workspace.Workspace, c Choice,
) (_ workspace.Workspace, changed bool, err error) {
	var inv workspace.Inventory
	if needsInventory(w, c) {
		if inv, err = s.look(ctx, w); err != nil {
			return workspace.Workspace{}, false, err
		}
	}
	r, problem := decide(w, c, inv)
	if problem != nil {
		return workspace.Workspace{}, false, &ChoiceError{
			Reason: w.NeedsRecovery(), Choices: choices(w, inv), Inventory: inv, Problem: problem,
		}
	}
	if inv.Volume != nil && r.Choice != workspace.RecoverRetry {
		r.VolumeOpID = inv.Volume.OpID // the choice was made about this one, not about one to come
	}
	if len(inv.Archives) > 0 {
		r.Newest = newest(inv.Archives).Key // neither was it about an archive to come
	}
	r.ID = uuid.NewString()
	recovered, outcome, err := s.store.Recover(ctx, a.viewer(), w.ID, w.NeedsRecovery(), r, s.storeLimits())
	if err != nil {
		return workspace.Workspace{}, false, translate(err)
	}
	if outcome != store.Changed {
		return workspace.Workspace{}, false, outcomeError(outcome, store.Limits{})
	}
	s.logChange(ctx, "workspace recovered", a, w.ID, recovered.DesiredState,
		zap.String(logkey.ErrorReason, string(w.NeedsRecovery())), zap.String(logkey.Choice, string(r.Choice)),
		zap.String(logkey.ArchiveKey, r.Key))
	return recovered, true, nil
}

// recoverPage is the number of workspaces per query of RecoverAll.
const recoverPage = 500

// RecoverAll recovers all workspaces in ERROR for that reason, except deleted ones, one after another. The choice
// cannot be an archive. failed has the errors of the workspaces that were not recovered. If it is unknown which data
// exists, RecoverAll stops with [ErrInventoryUnknown], because this concerns all of them.
func (s *Service) RecoverAll(
	ctx context.Context, a Actor, reason workspace.ErrorReason, c Choice,
) (recovered []workspace.ID, failed map[workspace.ID]error, err error) {
	if !a.Admin {
		return nil, nil, ErrForbidden
	}
	if !explain.KnownError(reason) {
		return nil, nil, &InvalidError{"reason", words.Of("problem.rule.reason", nil)}
	}
	if c.Kind == workspace.RecoverArchive {
		return nil, nil, &InvalidError{"choice", words.Of("problem.rule.each_its_archive", nil)}
	}
	if err := c.validate(); err != nil {
		return nil, nil, err
	}
	failed = make(map[workspace.ID]error)
	var after workspace.ID
	for {
		ids, err := s.store.Failed(ctx, reason, after, recoverPage)
		if err != nil {
			return recovered, failed, err
		}
		for _, id := range ids {
			after = id
			switch _, err := s.Recover(ctx, a, id, c); {
			case err == nil:
				recovered = append(recovered, id)
			case ctx.Err() != nil || errors.Is(err, ErrInventoryUnknown):
				return recovered, failed, err
			default:
				failed[id] = err
			}
		}
		if len(ids) < recoverPage {
			return recovered, failed, nil
		}
	}
}

// ChoiceError means that a recovery needs a choice, or that the given choice is impossible. Nothing was changed.
type ChoiceError struct {
	// Reason is the reason for ERROR, empty for a workspace without an error.
	Reason workspace.ErrorReason
	// Choices are the possible choices.
	Choices []Choice
	// Inventory is the data that exists.
	Inventory workspace.Inventory
	// Problem is why nothing was changed, a sentence for people.
	Problem words.Text
}

// Error implements error. It lists the data that exists and the choices.
func (e *ChoiceError) Error() string {
	if e.Reason == "" {
		return e.Problem.String()
	}
	var exists, choices []string
	if v := e.Inventory.Volume; v != nil {
		exists = append(exists, "a volume"+made(v.CreatedAt))
	} else {
		exists = append(exists, "no volume")
	}
	for _, archive := range e.Inventory.Archives {
		text := fmt.Sprintf("archive %s (%d bytes%s", archive.Key, archive.Size, made(archive.Modified))
		if archive.Current {
			text += ", the current one"
		}
		exists = append(exists, text+")")
	}
	if len(e.Inventory.Archives) == 0 {
		exists = append(exists, "no archive")
	}
	for _, c := range e.Choices {
		choice := string(c.Kind)
		if c.ReplaceVolume {
			choice += " and replace the volume"
		}
		choices = append(choices, choice)
	}
	return fmt.Sprintf("%s: %s. There is %s. Choose %s",
		e.Reason, e.Problem, strings.Join(exists, ", "), strings.Join(slices.Compact(choices), " or "))
}

// made returns the date of something, if known.
func made(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " of " + at.UTC().Format(time.RFC3339)
}
