package preview

import (
	"context"
	"slices"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// liveLimit is how many workspaces may run on a board that accepts changes.
const liveLimit = 2

// liveRows are the workspaces with which such a board begins.
func liveRows() []workspace.Workspace {
	return numbered(rowOf("thesis", workspace.PhaseRunning), rowOf("notes", workspace.PhaseStandby),
		rowOf("course", workspace.PhaseArchived))
}

// liveDozingRows fill the limit, with a dozing workspace beside them.
func liveDozingRows() []workspace.Workspace {
	return numbered(rowOf("thesis", workspace.PhaseRunning), rowOf("notes", workspace.PhaseRunning),
		rowOf("idle", workspace.PhaseRunning, dozes))
}

// find returns the workspace with an id; nil if there is none. b.mu must be held.
func (b *board) find(id workspace.ID) *workspace.Workspace {
	for i := range b.rows {
		if b.rows[i].ID == id {
			return &b.rows[i]
		}
	}
	return nil
}

// running returns the workspaces that count against the limit. b.mu must be held.
func (b *board) running() []workspace.Workspace {
	return slices.DeleteFunc(slices.Clone(b.rows), func(w workspace.Workspace) bool { return w.Phase != workspace.PhaseRunning || w.Dozes() })
}

// refused returns why the board accepts no changes.
func (b *board) refused() error {
	switch {
	case b.refuse != nil:
		return b.refuse
	case !b.live:
		return service.ErrOperationInProgress
	}
	return nil
}

// full refuses a workspace for which there is no place.
func (b *board) full() error {
	if len(b.running()) < liveLimit {
		return nil
	}
	return &service.LimitError{Scope: "user", Limit: liveLimit}
}

// tell passes a change on to the event streams.
func (b *board) tell(w *workspace.Workspace) {
	b.revision++
	w.UpdatedAt, w.Revision = time.Now(), b.revision
	b.hub.Changed([]store.Route{{ID: w.ID, OwnerID: ownerID, Revision: w.Revision, Deleted: w.Deleted()}}, w.Revision)
}

// change carries out a change of one of the board's workspaces.
func (b *board) change(a service.Actor, id workspace.ID, f func(*workspace.Workspace) error) (workspace.Workspace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	row := b.find(id)
	switch err := b.refused(); {
	case err != nil:
		return workspace.Workspace{}, err
	case row == nil:
		return workspace.Workspace{}, service.ErrNotFound
	}
	if err := a.CheckRevision(*row); err != nil {
		return workspace.Workspace{}, err
	}
	if err := f(row); err != nil {
		return workspace.Workspace{}, err
	}
	b.tell(row)
	return *row, nil
}

// Create returns the same workspace for a key that it has seen.
func (b workspaces) Create(_ context.Context, _ service.Actor, in service.CreateInput) (workspace.Workspace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refused(); err != nil {
		return workspace.Workspace{}, err
	}
	if at := slices.IndexFunc(b.rows, func(w workspace.Workspace) bool { return in.Key != "" && w.Memo == in.Key }); at >= 0 {
		return b.rows[at], nil
	}
	if err := b.full(); err != nil {
		return workspace.Workspace{}, err
	}
	made := rowOf(in.Name, workspace.PhaseRunning, func(w *workspace.Workspace) {
		w.ID, w.CreatedAt, w.Description, w.Memo = id(2000+len(b.rows)+len(b.deleted)), time.Now(), in.Description, in.Key
		w.ImageRef, w.GitURL = in.ImageRef, in.GitURL
		w.LastAccessAt, w.Home = time.Time{}, workspace.HomeSize{MeasuredAt: time.Now()}
	})
	b.rows = append(b.rows, made)
	b.tell(&b.rows[len(b.rows)-1])
	return b.rows[len(b.rows)-1], nil
}

func (b workspaces) Update(_ context.Context, a service.Actor, id workspace.ID, p service.Patch) (workspace.Workspace, error) {
	return b.change(a, id, func(w *workspace.Workspace) error {
		if p.DesiredState != nil {
			if *p.DesiredState == workspace.DesiredRunning {
				if err := b.full(); err != nil {
					return err
				}
			}
			w.Phase, w.DesiredState, w.DozeAt = workspace.Phase(*p.DesiredState), *p.DesiredState, time.Time{}
		}
		set(&w.Name, p.Name)
		set(&w.Description, p.Description)
		set(&w.Favourite, p.Favourite)
		return nil
	})
}

// set changes a field to a value that is given.
func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (b workspaces) SetDesired(ctx context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error {
	_, err := b.Update(ctx, a, id, service.Patch{DesiredState: &d})
	return err
}

func (b workspaces) KeepAwake(_ context.Context, a service.Actor, id workspace.ID, d time.Duration) (workspace.Workspace, error) {
	return b.change(a, id, func(w *workspace.Workspace) error {
		w.KeepAwakeUntil, w.DozeAt = time.Now().Add(d), time.Time{}
		return nil
	})
}

func (b workspaces) Delete(_ context.Context, a service.Actor, id workspace.ID, now bool) error {
	if now {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.deleted = slices.DeleteFunc(b.deleted, func(w workspace.Workspace) bool { return w.ID == id })
		return b.refused()
	}
	_, err := b.change(a, id, func(w *workspace.Workspace) error {
		w.DeletedAt = time.Now()
		return nil
	})
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.deleted = append(b.deleted, *b.find(id))
	b.rows = slices.DeleteFunc(b.rows, func(w workspace.Workspace) bool { return w.ID == id })
	return nil
}

func (b workspaces) Undelete(_ context.Context, _ service.Actor, id workspace.ID) (workspace.Workspace, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.refused(); err != nil {
		return workspace.Workspace{}, err
	}
	at := slices.IndexFunc(b.deleted, func(w workspace.Workspace) bool { return w.ID == id })
	if at < 0 {
		return workspace.Workspace{}, service.ErrNotFound
	}
	row := b.deleted[at]
	row.DeletedAt = time.Time{}
	b.deleted, b.rows = slices.Delete(b.deleted, at, at+1), append(b.rows, row)
	b.tell(&b.rows[len(b.rows)-1])
	return b.rows[len(b.rows)-1], nil
}

func (b workspaces) Revert(_ context.Context, a service.Actor, id workspace.ID, key string) (workspace.Workspace, error) {
	return b.change(a, id, func(w *workspace.Workspace) error {
		w.Revert = &workspace.Revert{ID: "1", Key: key, At: time.Now()}
		return nil
	})
}

func (b workspaces) Recover(_ context.Context, a service.Actor, id workspace.ID, _ service.Choice) (workspace.Workspace, error) {
	return b.change(a, id, func(w *workspace.Workspace) error {
		w.Phase, w.ErrorReason, w.ErrorMessage, w.ErrorCount = workspace.PhaseStandby, "", "", 0
		return nil
	})
}

func (b workspaces) RecoverAll(context.Context, service.Actor, workspace.ErrorReason, service.Choice) (
	[]workspace.ID, map[workspace.ID]error, error,
) {
	return nil, nil, b.refused()
}
