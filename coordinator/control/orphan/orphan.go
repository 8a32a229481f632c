// Package orphan finds the containers, volumes and jobs that have this installation's labels but no longer belong to a
// workspace. A crash, a restored database or a person may leave them behind.
//
// It owns the definition of an orphan. It reports orphans, and removes none by itself: only [Finder.Remove] does, on a
// person's command. The reason is that a volume may hold the only copy of files, and that a restored, older database
// does not know newer workspaces (SPEC 12.9).
package orphan

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// MinAge is the minimum age of an orphan. A younger object may belong to a workspace whose row is not readable yet.
// Ages are measured by one clock ([backend.ByOwnClock]).
const MinAge = 15 * time.Minute

// Backend is the container backend as the finder uses it. backend.Backend implements it.
type Backend interface {
	Objects(ctx context.Context) ([]backend.Object, error)
	Remove(ctx context.Context, o backend.Object) error
}

// Store is the database as the finder uses it. *store.Store implements it.
type Store interface {
	// Workspaces returns the rows with these ids, deleted ones included.
	Workspaces(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error)
}

// Identity checks whether the backend is the recorded one. *identity.Guard implements it.
type Identity interface {
	Backend(ctx context.Context) error
}

// Reason is why an object belongs to no workspace.
type Reason string

// The reasons.
const (
	NoWorkspace Reason = "no workspace has its id"
	Deleted     Reason = "its workspace is deleted"
	Unused      Reason = "nothing uses it"
)

// Orphan is an object that belongs to no workspace.
type Orphan struct {
	backend.Object
	Reason Reason
}

// Finder finds orphans. It is safe for concurrent use.
type Finder struct {
	backend  Backend
	store    Store
	identity Identity
	minAge   time.Duration
}

// New returns a finder. It performs no I/O.
func New(b Backend, s Store, i Identity) *Finder { return &Finder{b, s, i, MinAge} }

// OlderThan returns a finder that uses age as the minimum age of an orphan. It is for a person who knows that nothing
// is being created at the moment.
func (f *Finder) OlderThan(age time.Duration) *Finder {
	other := *f
	other.minAge = age
	return &other
}

// Find returns the orphans, sorted by kind and name. It changes nothing.
func (f *Finder) Find(ctx context.Context) ([]Orphan, error) {
	objects, err := f.backend.Objects(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing what carries the installation's labels: %w", err)
	}
	if err := f.identity.Backend(ctx); err != nil {
		return nil, err
	}
	return f.judge(ctx, objects)
}

// readBatch is how many rows are read at once.
const readBatch = 1000

// judge returns the orphans among objects. It reads the rows after the objects were listed, because the row of a
// workspace exists before its objects.
func (f *Finder) judge(ctx context.Context, objects []backend.Object) ([]Orphan, error) {
	ids := make(map[workspace.ID]struct{})
	for _, o := range objects {
		if o.Workspace != "" {
			ids[o.Workspace] = struct{}{}
		}
	}
	rows := make(map[workspace.ID]workspace.Workspace, len(ids))
	for batch := range slices.Chunk(slices.Collect(maps.Keys(ids)), readBatch) {
		found, err := f.store.Workspaces(ctx, batch)
		if err != nil {
			return nil, err
		}
		for _, w := range found {
			rows[w.ID] = w
		}
	}
	var orphans []Orphan
	now := time.Now()
	for _, o := range objects {
		w, known := rows[o.Workspace]
		if reason, ok := judge(o, w, known, now.Add(-f.minAge)); ok {
			orphans = append(orphans, Orphan{o, reason})
		}
	}
	slices.SortFunc(orphans, func(a, b Orphan) int {
		return strings.Compare(string(a.Kind)+"\x00"+a.Name+"\x00"+a.UID, string(b.Kind)+"\x00"+b.Name+"\x00"+b.UID)
	})
	return orphans, nil
}

// judge reports whether an object is an orphan, and why. When in doubt, the object is not an orphan: if its creation
// time is unknown or after until, or while an operation of a workspace may concern it.
func judge(o backend.Object, w workspace.Workspace, known bool, until time.Time) (Reason, bool) {
	switch {
	case o.Created.IsZero() || o.Created.After(until):
		return "", false
	case o.Kind == backend.ObjectNetwork:
		return Unused, true
	case !known:
		return NoWorkspace, true
	case o.Kind == backend.ObjectJob && o.OpID != "" && w.Operation != workspace.OpNone && o.OpID == w.ArchiveOpID:
		return "", false
	case w.Phase == workspace.PhaseDeleted:
		return Deleted, true
	case o.Kind == backend.ObjectScratch && w.Operation == workspace.OpNone:
		return Unused, true
	default:
		return "", false
	}
}

// Remove removes orphans that [Finder.Find] has returned and that are still orphans; it skips the others. It calls the
// function each for every orphan that it tries to remove, with the error of the removal or nil. It returns an error if
// it could not judge the orphans again.
func (f *Finder) Remove(ctx context.Context, orphans []Orphan, each func(o Orphan, err error)) error {
	// The orphans are judged only once, before all removals, because a person waits, and no orphan becomes needed again
	// within seconds.
	objects := make([]backend.Object, len(orphans))
	for i, o := range orphans {
		objects[i] = o.Object
	}
	still, err := f.judge(ctx, objects)
	if err != nil {
		return err
	}
	// Containers and jobs first: they use volumes.
	slices.SortStableFunc(still, func(a, b Orphan) int { return order(a.Kind) - order(b.Kind) })
	for _, o := range still {
		// The identity is checked before each removal, because the address of the engine may lead to another one by
		// now.
		if err := f.identity.Backend(ctx); err != nil {
			return err
		}
		each(o, f.backend.Remove(ctx, o.Object))
	}
	return nil
}

// order is the order of removal.
func order(k backend.ObjectKind) int {
	return slices.Index([]backend.ObjectKind{
		backend.ObjectContainer, backend.ObjectJob, backend.ObjectSandbox, backend.ObjectScratch, backend.ObjectVolume, backend.ObjectNetwork,
	}, k)
}
