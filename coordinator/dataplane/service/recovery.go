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

// Inventory looks for what exists of a workspace's data. It returns an error unless both the
// backend and the object store have answered and are the recorded ones (SPEC 2). A recovery that
// knows only half could give files up.
type Inventory interface {
	Inventory(ctx context.Context, id workspace.ID) (workspace.Inventory, error)
	// Versions returns the complete archives only, newest first, by the same rule.
	Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error)
}

// Choice is what a person has decided about the data of a workspace in ERROR.
type Choice struct {
	// Kind is empty when no choice was made.
	Kind workspace.RecoveryChoice
	// Key is the archive of [workspace.RecoverArchive].
	Key string
	// ReplaceVolume gives up the content of a volume that exists.
	ReplaceVolume bool
}

// validate checks what can be checked without looking.
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

// inDoubt are the reasons after which nothing is done about the data without a choice (SPEC
// 12.9). After any other one, also after ArchiveCorrupted, the next attempt uses the same data as
// the last one. It fails again, or the cause was fixed.
var inDoubt = map[workspace.ErrorReason]bool{workspace.ReasonDataLost: true, workspace.ReasonConflict: true}

// needsInventory reports whether what exists matters for the recovery.
func needsInventory(w workspace.Workspace, c Choice) bool {
	return !w.Deleted() && (c.made() || inDoubt[w.NeedsRecovery()])
}

// decide is the rule of recoveries. It says which one the choice c means for a workspace in ERROR
// of which inv exists, or the problem that forbids it. It never starts with an empty home or an
// older archive unless that was chosen. It never replaces a volume unless that was chosen as
// well.
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
	// A volume that did not exist when the choice was made was not given up.
	return workspace.Recovery{Choice: c.Kind, Key: c.Key, ReplaceVolume: c.ReplaceVolume && volume}, nil
}

// choices are those that [decide] takes for the workspace now, each with all that it must say.
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

// currentIsBack reports whether the archive of the row exists, no container has
// written since it was made, and no other archive is newer.
func currentIsBack(w workspace.Workspace, inv workspace.Inventory) bool {
	if w.ArchiveKey == "" || w.HomeCtx.Dirty || !has(w, inv, w.ArchiveKey) {
		return false
	}
	return newest(inv.Archives).Key == w.ArchiveKey
}

// newest returns the newest of some archives.
func newest(archives []workspace.ArchiveVersion) workspace.ArchiveVersion {
	return slices.MaxFunc(archives, func(a, b workspace.ArchiveVersion) int { return a.Modified.Compare(b.Modified) })
}

// has reports whether key is an archive of this workspace that exists.
func has(w workspace.Workspace, inv workspace.Inventory, key string) bool {
	return strings.HasPrefix(key, string(w.ID)+"/") &&
		slices.ContainsFunc(inv.Archives, func(a workspace.ArchiveVersion) bool { return a.Key == key })
}

// look returns what exists of the workspace's data.
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

// Recover clears the error of a workspace in ERROR and has the controller carry the choice out.
// One that is in use in a conflict can keep its volume; the other choices have to wait until it
// sleeps. Without a choice it does what gives nothing up. It tries again after an error that does
// not concern the data, and takes data that is back after DataLost. Otherwise it returns a
// [*ChoiceError], which says what exists. Over a limit the workspace is recovered but does not
// run: its desired state becomes STANDBY. A workspace that is in no error stays as it is. Only
// administrators may call Recover ([ErrForbidden]). It returns [ErrNotFound], [ErrStale],
// [ErrInventoryUnknown], and [*InvalidError] and [ErrDeleted] for a choice that cannot be.
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
	// Another administrator or the controller may change the error meanwhile. Then the
	// decision is made again about the new one.
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

// whileNotCollecting calls f, which looks for archives and writes which of them is chosen.
// Meanwhile no process collects archives or begins to. A collector that runs may have judged the
// workspace as it was before, and be about to delete the archive that is chosen. One that begins
// later reads the choice.
func (s *Service) whileNotCollecting(ctx context.Context, f func() error) error {
	idle, err := s.store.WhileIdle(ctx, postgres.LockGC, f)
	if err == nil && !idle {
		err = fmt.Errorf("%w: archives are being collected; try again in a few minutes", ErrInventoryUnknown)
	}
	return err
}

// recover recovers w from its present error. changed is false, and nothing was
// written, when the row has another error or none by now.
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

// recoverNow is recover, while no archives are collected.
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

// recoverPage is how many workspaces one query of RecoverAll returns.
const recoverPage = 500

// RecoverAll recovers every workspace, deleted ones left out, that is in ERROR for
// that reason, one after another. An archive cannot be chosen for all. failed has the
// errors of those that were not recovered. RecoverAll stops with an error when what
// exists is not known ([ErrInventoryUnknown]): that concerns all of them.
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

// ChoiceError means that a recovery needs a choice, or that the choice that was made
// is not possible. Nothing was changed.
type ChoiceError struct {
	// Reason is why the workspace is in ERROR; empty when it is not.
	Reason workspace.ErrorReason
	// Choices are those that can be made now, each with all that it must say.
	Choices []Choice
	// Inventory is what exists.
	Inventory workspace.Inventory
	// Problem is why nothing was done, a sentence for people.
	Problem words.Text
}

// Error implements error. It says what exists and which choices there are.
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

// made says when something was made, if that is known.
func made(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return " of " + at.UTC().Format(time.RFC3339)
}
