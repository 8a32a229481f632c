package service

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Errors of [Service.Adopt].
var (
	// ErrKnown means that the database already has the workspace.
	ErrKnown = errors.New("the database has this workspace")
	// ErrNothingLeft means that the workspace has neither a volume nor the given archive.
	ErrNothingLeft = errors.New("nothing of this workspace exists")
	// ErrNoOwner means that the user does not exist.
	ErrNoOwner = errors.New("there is no such user")
)

// Adopt adds a workspace that has files but no row, because it was created after the backup from which the database was
// restored (SPEC 12.9). The workspace then belongs to the user of that name. Its data is the archive with that key, or
// the newest one if key is empty. A workspace with a volume is in Conflict until an administrator chooses the data in a
// recovery. Only administrators may call Adopt ([ErrForbidden]). It returns [ErrInventoryUnknown], [ErrKnown],
// [ErrNothingLeft], [ErrNoOwner], [ErrNotFound] and [*InvalidError].
func (s *Service) Adopt(ctx context.Context, a Actor, id workspace.ID, owner, name, key string) (
	w workspace.Workspace, err error) {
	if !a.Admin {
		return w, ErrForbidden
	}
	if !valid(a, id) {
		return w, ErrNotFound
	}
	in, err := CreateInput{Name: name}.clean(s.Images(), a)
	if err != nil {
		return w, err
	}
	err = s.whileNotCollecting(ctx, func() error {
		w, err = s.adoption(ctx, id, key)
		if err != nil {
			return err
		}
		w.Name, w.InstanceBackend, w.StorageBackend = in.Name, s.instanceBackend, s.storageBackend
		added, err := s.store.Adopt(ctx, w, owner, a.through())
		switch {
		case errors.Is(err, postgres.ErrNotFound):
			return fmt.Errorf("%w: %q", ErrNoOwner, owner)
		case err == nil && !added:
			return ErrKnown
		}
		return err
	})
	if err != nil {
		return workspace.Workspace{}, err
	}
	s.logChange(ctx, "workspace adopted", a, id, workspace.DesiredArchived, zap.String(logkey.ArchiveKey, w.ArchiveKey))
	return s.Get(ctx, a, id)
}

// adoption returns the row for a workspace, according to the data that exists.
func (s *Service) adoption(ctx context.Context, id workspace.ID, key string) (workspace.Workspace, error) {
	w := workspace.Workspace{ID: id, Phase: workspace.PhasePending}
	inv, err := s.look(ctx, w)
	switch {
	case err != nil:
		return w, err
	case key != "" && !has(w, inv, key), len(inv.Archives) == 0 && inv.Volume == nil:
		return w, ErrNothingLeft
	case len(inv.Archives) == 0:
		return w, nil
	}
	last := newest(inv.Archives).Key
	w.Phase, w.ArchiveKey = workspace.PhaseArchived, last
	if key != "" && key != last {
		w.ArchiveKey, w.HomeCtx.Newest = key, last // which is no surprise
	}
	for _, v := range inv.Archives {
		if w.CreatedAt.IsZero() || v.Modified.Before(w.CreatedAt) {
			w.CreatedAt = v.Modified
		}
	}
	return w, nil
}
