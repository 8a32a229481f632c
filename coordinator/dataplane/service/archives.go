package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Archive is one archive of a workspace. Its existence, size and date come from the bucket. The other fields are set if
// the database has a row for it.
type Archive struct {
	store.Archive
	// Current says that the archive is the workspace's data, or becomes its data if the volume has nothing newer. Kept
	// says that the archive is not current but stays until the next archive is made, because the user chose an older
	// one over it.
	Current, Kept bool
}

// missing is the text that describes the damage if the current archive is not in the bucket.
const missing = "it is not in the object store"

// Archives returns the complete archives of a workspace that the actor may see, newest first. It includes the current
// archive even if that is missing in the object store. It returns [ErrNotFound] and [ErrArchivesUnknown].
func (s *Service) Archives(ctx context.Context, a Actor, id workspace.ID) ([]Archive, error) {
	w, err := s.visible(ctx, a, id)
	if err != nil {
		return nil, err
	}
	return s.archives(ctx, w)
}

func (s *Service) archives(ctx context.Context, w workspace.Workspace) ([]Archive, error) {
	if s.inventory == nil {
		return nil, ErrArchivesUnknown
	}
	versions, err := s.inventory.Versions(ctx, w.ID)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrArchivesUnknown, err)
	}
	rows, err := s.store.Archives(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	return merge(w, versions, rows), nil
}

// merge joins the archives of the bucket with their rows in the database.
func merge(w workspace.Workspace, versions []workspace.ArchiveVersion, rows []store.Archive) []Archive {
	out := make([]Archive, 0, len(versions)+1)
	add := func(key string, size int64, at time.Time, damage string) {
		found := Archive{Archive: store.Archive{WorkspaceID: w.ID, Key: key}, Current: key == w.ArchiveKey}
		if i := slices.IndexFunc(rows, func(r store.Archive) bool { return r.Key == key }); i >= 0 {
			found.Archive = rows[i]
		}
		if at.IsZero() {
			at = found.CreatedAt
		}
		found.Size, found.CreatedAt = max(size, found.Size), at
		if damage != "" {
			found.Damage = damage
		}
		found.Kept = !found.Current && w.HomeCtx.Replaced != "" &&
			(key == w.HomeCtx.Replaced || key == w.HomeCtx.Newest)
		out = append(out, found)
	}
	for _, v := range versions {
		add(v.Key, v.Size, v.Modified, "")
	}
	isCurrent := func(v workspace.ArchiveVersion) bool { return v.Key == w.ArchiveKey }
	if w.ArchiveKey != "" && !slices.ContainsFunc(versions, isCurrent) {
		add(w.ArchiveKey, 0, time.Time{}, missing)
	}
	return out
}

// Revert makes an older archive the data of a workspace. The present state is archived first, unless nothing has
// changed; that archive stays at least until the next one is made, so that the user can return to it. The workspace
// then starts from the older archive, if it is meant to run. Until then the revert can still fail in the background;
// the workspace then stays as it was.
//
// It returns [ErrNotFound]; [ErrStale]; [ErrDeleted]; [ErrOperationInProgress], also during another Revert;
// [ErrArchivesUnknown]; and [*RevertError].
func (s *Service) Revert(ctx context.Context, a Actor, id workspace.ID, key string) (workspace.Workspace, error) {
	w, err := s.Get(ctx, a, id)
	if err != nil {
		return workspace.Workspace{}, err
	}
	if err := a.CheckRevision(w); err != nil {
		return workspace.Workspace{}, err
	}
	switch {
	case w.Deleted():
		return workspace.Workspace{}, ErrDeleted
	case w.Phase == workspace.PhaseError:
		return workspace.Workspace{}, &RevertError{
			words.Of("problem.revert.in_error", nil)}
	case w.Operation != workspace.OpNone || w.Reverting():
		return workspace.Workspace{}, ErrOperationInProgress
	}
	var reverting workspace.Workspace
	err = s.whileNotCollecting(ctx, func() (err error) {
		reverting, err = s.revert(ctx, a, w, key)
		return err
	})
	if errors.Is(err, ErrInventoryUnknown) {
		err = fmt.Errorf("%w: %w", ErrArchivesUnknown, err)
	}
	return reverting, err
}

// revert is Revert for a workspace that may be reverted, while no archives are collected.
func (s *Service) revert(ctx context.Context, a Actor, w workspace.Workspace, key string) (workspace.Workspace, error) {
	archives, err := s.archives(ctx, w)
	if err != nil {
		return workspace.Workspace{}, err
	}
	if problem := unfit(w, archives, key); problem != nil {
		return workspace.Workspace{}, &RevertError{problem}
	}
	now, err := s.store.Now(ctx)
	if err != nil {
		return workspace.Workspace{}, err
	}
	r := workspace.Revert{ID: uuid.NewString(), Key: key, At: now.UTC().Truncate(time.Microsecond)}
	reverting, outcome, err := s.store.Revert(ctx, a.viewer(), w.ID, r, s.storeLimits())
	if err == nil {
		err = s.refusal(ctx, outcome, a.UserID, w.ID)
	}
	switch {
	case err != nil:
		return workspace.Workspace{}, translate(err)
	case outcome == store.Unchanged:
		return workspace.Workspace{}, &RevertError{words.Of("problem.revert.current", nil)}
	}
	s.logChange(ctx, "workspace goes back to an older archive", a, w.ID, reverting.DesiredState,
		zap.String(logkey.ArchiveKey, key))
	return reverting, nil
}

// unfit says why w cannot go back to the archive, or returns nil.
func unfit(w workspace.Workspace, archives []Archive, key string) words.Text {
	i := slices.IndexFunc(archives, func(a Archive) bool { return a.Key == key })
	switch {
	case i < 0:
		return words.Of("problem.revert.missing", nil)
	case archives[i].Damage != "":
		return words.Of("problem.revert.damaged", words.Values{"Damage": archives[i].Damage})
	case w.Phase == workspace.PhaseArchived && archives[i].Current:
		return words.Of("problem.revert.current", nil)
	}
	return nil
}
