package planner

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// nextOperations is the table of SPEC 3: the operation that brings a workspace one step from its phase towards
// the desired state. Deletion has rules of its own; see [planner.nextDeletion].
var nextOperations = map[workspace.Phase]map[workspace.DesiredState]workspace.Operation{
	workspace.PhasePending: {
		workspace.DesiredArchived: workspace.OpCreateEmptyArchive,
		workspace.DesiredStandby:  workspace.OpProvisioning,
		workspace.DesiredRunning:  workspace.OpProvisioning,
	},
	workspace.PhaseArchived: {
		workspace.DesiredArchived: workspace.OpNone,
		workspace.DesiredStandby:  workspace.OpRestoring,
		workspace.DesiredRunning:  workspace.OpRestoring,
	},
	workspace.PhaseStandby: {
		workspace.DesiredArchived: workspace.OpArchiving,
		workspace.DesiredStandby:  workspace.OpNone,
		workspace.DesiredRunning:  workspace.OpStarting,
	},
	workspace.PhaseRunning: {
		workspace.DesiredArchived: workspace.OpStopping,
		workspace.DesiredStandby:  workspace.OpStopping,
		workspace.DesiredRunning:  workspace.OpNone,
		workspace.DesiredDeleted:  workspace.OpStopping,
	},
}

// nextOperation returns the operation to begin, or OpNone.
func (p *planner) nextOperation() workspace.Operation {
	n := &p.next
	if n.Deleted() != (n.DesiredState == workspace.DesiredDeleted) {
		return workspace.OpNone // the schema rules it out; contradictory columns delete nothing
	}
	if n.Deleted() {
		return p.nextDeletion()
	}
	at := p.orderedPhase()
	wanted := n.Wanted()
	if p.o.Container != nil && wanted != workspace.DesiredRunning {
		at = workspace.PhaseRunning // a container that has exited is removed before the next step, too
	}
	return nextOperations[at][wanted]
}

// nextDeletion returns the next step of a deletion. A workspace in STANDBY or RUNNING steps down first, so that
// an archive exists from which the deletion can be undone. A volume that cannot be archived stays for the delay
// (SPEC 3).
func (p *planner) nextDeletion() workspace.Operation {
	switch {
	case !p.o.Knows(workspace.SensorVolumes) && p.o.Container != nil:
		return workspace.OpStopping
	case p.o.Container == nil && p.o.Volume == nil:
		return workspace.OpNone
	case p.mayDeleteVolume() && !p.stepsDown():
		return workspace.OpDeleting
	case p.o.Container != nil:
		return workspace.OpStopping
	case p.intact():
		return workspace.OpArchiving
	}
	p.wait(p.kept(), "the volume may be the only copy of the deleted workspace's files"+p.keptUntil())
	return workspace.OpNone
}

// kept returns why a deleted workspace waits if its volume is in no archive. This reason tells how long the volume
// stays. The rule is that of [planner.mayDeleteVolume].
func (p *planner) kept() string {
	if p.policy.KeepDeleted <= 0 || p.o.Volume != nil && !p.givenUp() {
		return workspace.WaitKeptUntilGivenUp
	}
	return workspace.WaitKeptUntilDeleted
}

// intact reports whether the volume holds the workspace's data, and can be archived.
func (p *planner) intact() bool {
	n := &p.next
	return p.o.Volume != nil && n.Conditions.True(workspace.VolumeReady) && p.foreign == "" && !n.ErrorReason.Terminal()
}

// stepsDown reports whether an intact volume is archived even though the delay has passed. There may have been no
// leader during the delay, or the row may be from before the deletion was undone. The delay alone gives up a volume
// only if archiving it was tried and has failed.
func (p *planner) stepsDown() bool {
	w := p.was.Waiting
	failed := w != nil && (w.Reason == workspace.WaitArchiveFailed || w.Reason == workspace.WaitDeletionFailed)
	return p.intact() && !p.next.DeleteNow && !p.storeDown() && !failed
}

// mayDeleteVolume reports whether the volume of a deleted workspace may be deleted: if there is none, if the
// delay has passed, if an administrator has given it up, or if it is only the remains of an interrupted restore
// of an archive that exists.
func (p *planner) mayDeleteVolume() bool {
	n := &p.next
	if p.o.Volume == nil || n.DeleteNow {
		return true
	}
	return p.givenUp() && p.policy.KeepDeleted > 0 && p.now.Sub(n.DeletedAt) >= p.policy.KeepDeleted ||
		!n.Conditions.True(workspace.VolumeReady) && !n.HomeCtx.Dirty && p.foreign == "" &&
			!n.ErrorReason.DoubtsData() && p.o.Archive == workspace.Present
}

// givenUp reports whether the volume was given up with the workspace. A volume that was found or made after the
// deletion was not given up. The volume's creation time does not help, because the engine and the database have
// different clocks (SPEC 12.13).
func (p *planner) givenUp() bool {
	n := &p.next
	if p.foreign != "" {
		was := n.HomeCtx.ForeignVolumeOpID
		return n.ErrorReason.Terminal() && was != "" && was == p.o.Volume.OpID
	}
	ready := n.Conditions[workspace.VolumeReady]
	return ready.Status != "True" || !ready.LastTransitionTime.After(n.DeletedAt)
}

// begin claims the next operation, if there is one.
func (p *planner) begin() (Action, bool) { return p.beginNext(), true }

// beginNext claims the next operation, if there is one.
func (p *planner) beginNext() Action {
	n := &p.next
	if p.backingOff {
		p.keepWaiting()
		return ActNothing
	}
	op := p.nextOperation()
	traits := operations[op]
	if op == workspace.OpNone || p.dozeEnded() {
		return ActNothing
	}
	if p.startWaits(op) {
		if p.retriesPull() {
			return ActDeleteContainer
		}
		return ActNothing
	}
	if d := p.policy.FullDisk; traits.needsDisk && d != nil {
		p.wait(workspace.WaitDiskPressure, fullDiskMessage(*d))
		p.waiting.Percent, p.waiting.Count = d.Percent, d.Leaving
		p.retryLater()
		return ActNothing
	}
	if traits.job != "" && p.queued(traits.job) {
		return ActNothing
	}
	// Nothing is provisioned, restored or created beside an archive that may exist.
	unknown := n.ArchiveKey != "" && !n.Deleted() && !n.Conditions.True(workspace.VolumeReady) &&
		p.o.Archive == workspace.Unknown && op != workspace.OpStopping
	if traits.usesStore || unknown || op == workspace.OpProvisioning && !p.fresh() {
		switch {
		case p.storeDown():
			return p.waitStore()
		case p.o.Store.State == workspace.StoreUnasked, unknown:
			return p.askBucket()
		}
	}
	if p.o.Younger != "" && traits.makesHome {
		return p.overtaken()
	}
	n.Operation, n.OpStartedAt = op, p.now
	p.waiting = nil
	p.clearError()
	switch op {
	case workspace.OpCreateEmptyArchive:
		if n.ArchiveOpID == "" { // an earlier attempt has created the same archive
			n.ArchiveOpID = p.policy.NewOpID()
		}
	case workspace.OpArchiving:
		// This is always a new id. If the operation used an older id, there might be a complete upload under that id.
		// It would be older than the volume, but would be mistaken for the result of this operation.
		n.ArchiveOpID = p.policy.NewOpID()
	case workspace.OpProvisioning:
		// Each volume has its own id, so that no other one is mistaken for it.
		if n.HomeCtx.VolumeOpID == "" || p.o.Volume == nil {
			n.HomeCtx.VolumeOpID = p.policy.NewOpID()
		}
	case workspace.OpRestoring:
		p.beginRestore()
	case workspace.OpStarting:
		n.HomeCtx.Dirty = true
		n.HomeCtx.Exited = time.Time{}
		if k := p.o.Container; k != nil && !k.Running {
			n.HomeCtx.Exited = k.FinishedAt.UTC().Round(0)
		}
	}
	// The object store was not asked about the upload of the new operation yet.
	p.o.Upload = workspace.Unknown
	return p.advance()
}

// beginRestore gives the restore, or its next attempt, an id and a volume of its own.
func (p *planner) beginRestore() {
	p.next.HomeCtx.BeginRestore(p.policy.NewOpID(), p.o.Volume)
	p.set(workspace.VolumeReady, false, "NotRestored", "the archive is being restored")
}
