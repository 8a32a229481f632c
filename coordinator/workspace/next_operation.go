package workspace

// nextOperations is the table of SPEC 3: the operation that brings a workspace one
// step from its phase towards the desired state. Deletion has rules of its own; see
// [planner.nextDeletion].
var nextOperations = map[Phase]map[DesiredState]Operation{
	PhasePending: {
		DesiredArchived: OpCreateEmptyArchive, DesiredStandby: OpProvisioning, DesiredRunning: OpProvisioning,
	},
	PhaseArchived: {
		DesiredArchived: OpNone, DesiredStandby: OpRestoring, DesiredRunning: OpRestoring,
	},
	PhaseStandby: {
		DesiredArchived: OpArchiving, DesiredStandby: OpNone, DesiredRunning: OpStarting,
	},
	PhaseRunning: {
		DesiredArchived: OpStopping, DesiredStandby: OpStopping, DesiredRunning: OpNone, DesiredDeleted: OpStopping,
	},
}

// nextOperation is the operation to begin, or OpNone.
func (p *planner) nextOperation() Operation {
	n := &p.next
	if n.Deleted() != (n.DesiredState == DesiredDeleted) {
		return OpNone // the schema rules it out; nothing is deleted on half an answer
	}
	if n.Deleted() {
		return p.nextDeletion()
	}
	at := p.orderedPhase()
	wanted := n.Wanted()
	if p.o.Container != nil && wanted != DesiredRunning {
		at = PhaseRunning // also a container that has exited is removed before the next step
	}
	return nextOperations[at][wanted]
}

// nextDeletion is the next step of a deletion. A workspace in STANDBY or RUNNING steps
// down first, so that an archive exists from which the deletion can be undone; a volume
// that cannot be archived stays for the delay (SPEC 3).
func (p *planner) nextDeletion() Operation {
	switch {
	case !p.o.knows(SensorVolumes) && p.o.Container != nil:
		return OpStopping
	case p.o.Container == nil && p.o.Volume == nil:
		return OpNone
	case p.mayDeleteVolume() && !p.stepsDown():
		return OpDeleting
	case p.o.Container != nil:
		return OpStopping
	case p.intact():
		return OpArchiving
	}
	p.wait(WaitKeptUntilDeleted, "the volume may be the only copy of the deleted workspace's files, and stays for the delay"+p.keptUntil())
	return OpNone
}

// intact reports whether the volume holds the workspace's data, and can be archived.
func (p *planner) intact() bool {
	n := &p.next
	return p.o.Volume != nil && n.Conditions.True(VolumeReady) && p.foreign == "" && !n.ErrorReason.Terminal()
}

// stepsDown reports whether an intact volume is archived even though the delay has
// passed. It may have passed while nobody led, or the row is from before the deletion was
// undone: only what has been tried and failed is given up by time.
func (p *planner) stepsDown() bool {
	w := p.was.Waiting
	failed := w != nil && (w.Reason == WaitArchiveFailed || w.Reason == WaitDeletionFailed)
	return p.intact() && !p.next.DeleteNow && !p.storeDown() && !failed
}

// mayDeleteVolume reports whether the volume of a deleted workspace may go: there is
// none, the delay has passed, an administrator has given it up, or it is only what an
// interrupted restore has left of an archive that exists.
func (p *planner) mayDeleteVolume() bool {
	n := &p.next
	if p.o.Volume == nil || n.DeleteNow {
		return true
	}
	// What was found or made after the deletion was not given up with it.
	known := (p.foreign == "" || n.ErrorReason.Terminal()) && !p.o.Volume.CreatedAt.After(n.DeletedAt)
	return known && p.policy.KeepDeleted > 0 && p.now.Sub(n.DeletedAt) >= p.policy.KeepDeleted ||
		!n.Conditions.True(VolumeReady) && !n.HomeCtx.Dirty && p.foreign == "" && !n.ErrorReason.doubtsData() && p.o.Archive == Present
}

// needsDisk are the operations that bring a home to the disk. A workspace whose home is
// there starts also when the disk is full.
var needsDisk = map[Operation]bool{OpProvisioning: true, OpRestoring: true}

// begin claims the next operation, if there is one.
func (p *planner) begin() Action {
	n := &p.next
	if p.backingOff {
		p.keepWaiting()
		return ActNothing
	}
	op := p.nextOperation()
	if op == OpNone {
		return ActNothing
	}
	if needsDisk[op] && p.policy.DiskFull != "" {
		p.wait(WaitDiskPressure, p.policy.DiskFull)
		p.retryLater()
		return ActNothing
	}
	// Nothing is provisioned, restored or created next to an archive of which nobody
	// knows whether it exists.
	unknown := n.ArchiveKey != "" && !n.Deleted() && !n.Conditions.True(VolumeReady) && p.o.Archive == Unknown && op != OpStopping
	if usesStore[op] || unknown || op == OpProvisioning && !p.fresh() {
		switch {
		case p.storeDown():
			return p.waitStore()
		case p.o.Store.State == StoreUnasked, unknown:
			p.askStore = true
			p.keepWaiting()
			return ActNothing
		}
	}
	if p.o.Younger != "" && makesHome[op] {
		return p.overtaken()
	}
	n.Operation, n.OpStartedAt = op, p.now
	p.waiting = nil
	p.clearError()
	switch op {
	case OpCreateEmptyArchive:
		if n.ArchiveOpID == "" { // an earlier attempt has made the same archive
			n.ArchiveOpID = p.policy.NewOpID()
		}
	case OpArchiving:
		// Always a new id. Under an older id there may be a complete upload that is
		// older than the volume, and it would be taken for the result of this operation.
		n.ArchiveOpID = p.policy.NewOpID()
	case OpProvisioning:
		if n.HomeCtx.VolumeOpID == "" {
			n.HomeCtx.VolumeOpID = p.policy.NewOpID()
		}
	case OpRestoring:
		p.beginRestore()
	case OpStarting:
		n.HomeCtx.Dirty = true
	}
	// The object store was not asked about the upload of the new operation yet.
	p.o.Upload = Unknown
	return p.step()
}

// beginRestore names the restore and the volume that it makes. Each restore makes a
// volume of its own: what an earlier one has left is removed and never written over, so
// a row from before that restore does not know the volume and leaves it alone.
func (p *planner) beginRestore() {
	h := &p.next.HomeCtx
	h.RestoreMarker = "" // until it completes, the volume is not the workspace's data (SPEC 12.1)
	h.RestoreOpID = p.policy.NewOpID()
	switch v := p.o.Volume; {
	case v == nil:
		h.StaleVolumeOpID, h.VolumeOpID = h.VolumeOpID, h.RestoreOpID
	case v.OpID != "":
		h.StaleVolumeOpID, h.VolumeOpID = v.OpID, h.RestoreOpID
	}
	p.set(VolumeReady, false, "NotRestored", "the archive is being restored")
}
