package workspace

// nextOperations is the table of SPEC 3: the operation that brings a workspace one
// step from its phase towards the desired state. The deletion of a workspace in
// STANDBY or RUNNING steps down first, so that an archive exists from which it can
// be undone until the GC delay has passed.
var nextOperations = map[Phase]map[DesiredState]Operation{
	PhasePending: {
		DesiredArchived: OpCreateEmptyArchive, DesiredStandby: OpProvisioning, DesiredRunning: OpProvisioning, DesiredDeleted: OpDeleting,
	},
	PhaseArchived: {
		DesiredArchived: OpNone, DesiredStandby: OpRestoring, DesiredRunning: OpRestoring, DesiredDeleted: OpDeleting,
	},
	PhaseStandby: {
		DesiredArchived: OpArchiving, DesiredStandby: OpNone, DesiredRunning: OpStarting, DesiredDeleted: OpArchiving,
	},
	PhaseRunning: {
		DesiredArchived: OpStopping, DesiredStandby: OpStopping, DesiredRunning: OpNone, DesiredDeleted: OpStopping,
	},
	PhaseError: {
		DesiredArchived: OpNone, DesiredStandby: OpNone, DesiredRunning: OpNone, DesiredDeleted: OpDeleting,
	},
}

// nextOperation looks the operation up in the table. What has nothing left to
// delete needs no DELETING.
func (p *planner) nextOperation() Operation {
	n := &p.next
	nothingLeft := p.o.Container == nil && !p.o.Volume
	if n.Deleted() && nothingLeft || n.Deleted() != (n.DesiredState == DesiredDeleted) {
		// The schema rules the second case out; nothing is deleted on half an answer.
		return OpNone
	}
	return nextOperations[p.tablePhase()][n.DesiredState]
}

// tablePhase is the row of nextOperations that applies.
func (p *planner) tablePhase() Phase {
	n, at := &p.next, p.orderedPhase()
	switch {
	case n.Deleted() && p.was.Phase == PhaseError:
		return PhaseError
	case n.Deleted() && at.Level() < PhaseStandby.Level():
		return at // DELETING removes the container as well
	case p.o.Container != nil && n.DesiredState != DesiredRunning:
		return PhaseRunning // also a container that has exited is removed before the next step
	}
	return at
}

// begin claims the next operation, if there is one.
func (p *planner) begin() Action {
	n := &p.next
	op := p.nextOperation()
	if op == OpNone || p.backingOff {
		return ActNothing
	}
	n.Operation, n.OpStartedAt = op, p.now
	n.ErrorCount, n.ErrorReason, n.ErrorMessage = 0, "", ""
	switch op {
	case OpArchiving, OpCreateEmptyArchive:
		// Always a new id. Under an older id there may be a complete upload that is
		// older than the volume, and it would be taken for the result of this operation.
		n.ArchiveOpID = p.policy.NewOpID()
	case OpRestoring:
		// Until the restore completes, the volume is not the workspace's data (SPEC 12.1).
		n.HomeCtx.RestoreMarker = ""
		n.HomeCtx.RestoreOpID = p.policy.NewOpID()
		n.Conditions = n.Conditions.with(VolumeReady, false, "NotRestored", "the archive is being restored", p.now)
	case OpStarting:
		n.HomeCtx.Dirty = true
	}
	// The object store was not asked about the upload of the new operation yet.
	p.o.Upload = Unknown
	return p.step()
}
