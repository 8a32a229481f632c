package planner

import "github.com/codehub/gateway/coordinator/workspace"

// endRevert ends an open request to go back to an older archive, whether it succeeded or not. An empty problem means
// that the request was carried out.
func (p *planner) endRevert(problem string) {
	n := &p.next
	if n.Revert == nil || n.Revert.ID == n.HomeCtx.RevertID {
		return
	}
	n.HomeCtx.RevertID, n.HomeCtx.RevertProblem = n.Revert.ID, problem
}

// revert makes the older archive the current one as soon as the present state is in an archive and nowhere
// else. It reports whether this decision is about it.
func (p *planner) revert() (Action, bool) {
	n, r := &p.next, p.next.Revert
	if !n.Reverting() || p.orderedPhase() != workspace.PhaseArchived || p.o.Container != nil {
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
	case p.o.Store.State == workspace.StoreUnasked, p.o.Archive == workspace.Unknown, p.o.Chosen == workspace.Unknown:
		return p.askBucket(), true
	case p.o.Younger != "":
		return p.overtaken(), true
	case p.o.Archive == workspace.Absent: // this was DataLost before
		return ActNothing, true
	case p.o.Chosen == workspace.Absent:
		p.endRevert("the archive " + r.Key + " is not in the object store any more")
		return ActNothing, true
	case r.Key != n.ArchiveKey:
		if n.HomeCtx.Newest == "" {
			n.HomeCtx.Newest = n.ArchiveKey
		}
		n.HomeCtx.Replaced = n.ArchiveKey
		n.ArchiveKey, n.ArchiveOpID = r.Key, ""
		n.HomeCtx.ForgetContent()
	}
	p.endRevert("")
	return ActNothing, true
}
