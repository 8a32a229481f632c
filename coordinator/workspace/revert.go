package workspace

import "time"

// Revert is a wish to go back to an older archive. The present state is archived first, so
// that it is not lost; then the older archive becomes the current one, and the desired state,
// which stays what it was, brings the workspace up from it.
//
// Whatever keeps the present state from being archived ends it: nobody waits for a store
// that is away in order to go on with the files as they are.
type Revert struct {
	ID string `json:"id"`
	// Key is the archive to go back to.
	Key string `json:"key"`
	// At is when it was asked for.
	At time.Time `json:"at"`
}

// Reverting reports whether a wish to go back to an older archive is open.
func (w Workspace) Reverting() bool {
	return w.Revert != nil && w.Revert.ID != w.HomeCtx.RevertID && !w.Deleted()
}

// Wanted is the state that the controller brings the workspace to now: ARCHIVED while it
// goes back to an older archive, and else the desired one.
func (w Workspace) Wanted() DesiredState {
	if w.Reverting() {
		return DesiredArchived
	}
	return w.DesiredState
}

// endRevert ends an open wish to go back to an older archive, whatever else happens. Without
// a problem it was carried out.
func (p *planner) endRevert(problem string) {
	n := &p.next
	if n.Revert == nil || n.Revert.ID == n.HomeCtx.RevertID {
		return
	}
	n.HomeCtx.RevertID, n.HomeCtx.RevertProblem = n.Revert.ID, problem
}

// revert makes the older archive the current one as soon as the present state is in an
// archive and nowhere else. It reports whether this decision is about it.
func (p *planner) revert() (Action, bool) {
	n, r := &p.next, p.next.Revert
	if !n.Reverting() || p.orderedPhase() != PhaseArchived || p.o.Container != nil {
		return ActNothing, false
	}
	switch {
	case p.o.Volume != nil || n.HomeCtx.Dirty:
		p.endRevert("a home volume exists besides the archive")
		return ActNothing, true
	case p.backingOff:
		p.keepWaiting()
		return ActNothing, true
	case p.storeDown():
		p.endRevert(p.o.Store.Message)
		return ActNothing, true
	case p.o.Store.State == StoreUnasked, p.o.Archive == Unknown, p.o.Chosen == Unknown:
		p.askStore = true
		p.keepWaiting()
		return ActNothing, true
	case p.o.Younger != "":
		return p.overtaken(), true
	case p.o.Archive == Absent: // DataLost before
		return ActNothing, true
	case p.o.Chosen == Absent:
		p.endRevert("the archive " + r.Key + " is not in the object store any more")
		return ActNothing, true
	case r.Key != n.ArchiveKey:
		if n.HomeCtx.Newest == "" {
			n.HomeCtx.Newest = n.ArchiveKey
		}
		n.HomeCtx.Replaced = n.ArchiveKey
		n.ArchiveKey, n.ArchiveOpID = r.Key, ""
		n.HomeCtx.RestoreMarker, n.HomeCtx.Fingerprint = "", Fingerprint{}
	}
	p.endRevert("")
	return ActNothing, true
}
