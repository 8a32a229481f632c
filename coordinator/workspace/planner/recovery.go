package planner

import "github.com/codehub/gateway/coordinator/workspace"

// recover carries out, once, a recovery that an administrator has requested, and reports whether this decision is
// about it. The administrator chose what is given up; anything unexpected ends the recovery in an error.
func (p *planner) recover() (Action, bool) {
	n, r := &p.next, p.was.Recovery
	if !recoveryPending(p.was) {
		return ActNothing, false
	}
	if r.Choice == workspace.RecoverRetry && p.was.Phase != workspace.PhaseError {
		// The recovery requests another attempt to pull the image, and decides nothing else. The next start makes that
		// attempt.
		if !p.was.Waiting.FailedPull() {
			p.retryAsked() // the image has been pulled meanwhile
		}
		return ActNothing, false
	}
	if !p.o.Knows(workspace.AllSensors) {
		p.keepWaiting()
		if p.doubtful {
			p.describeUnseen()
		}
		return ActNothing, true
	}
	replaces := r.Choice == workspace.RecoverArchive || r.Choice == workspace.RecoverEmpty
	refused := replaces && p.o.Volume != nil && !(r.ReplaceVolume && r.VolumeOpID == p.o.Volume.OpID)
	if r.Choice != workspace.RecoverRetry && !refused && len(p.o.Jobs) > 0 {
		return p.act(ActDeleteJobs), true // a job may still write to the volume that should be kept
	}
	if k := p.o.Container; r.Choice == workspace.RecoverVolume && k != nil && !k.Volume {
		return p.act(ActDeleteContainer), true // the container would be a violation again (SPEC 1, contract 6)
	}
	if replaces && !refused {
		switch {
		case p.o.Container != nil:
			return p.act(ActDeleteContainer), true
		case p.o.Volume != nil && r.Choice == workspace.RecoverEmpty:
			return p.act(ActDeleteVolume), true
		}
	}
	n.HomeCtx.RecoveryID = r.ID
	n.HomeCtx.Fingerprint = workspace.Fingerprint{}
	if r.Choice != workspace.RecoverRetry {
		p.endRevert("another choice was made about the files")
	}
	n.HomeCtx.Crashes, n.HomeCtx.Deferred, n.HomeCtx.Unread = 0, 0, 0
	switch {
	case refused:
		return p.fail(workspace.ReasonConflict, "the recovery was to replace the data, but a volume exists that it "+
			"was not chosen to give up"), true
	case r.Choice == workspace.RecoverVolume && p.o.Volume == nil:
		return p.fail(workspace.ReasonDataLost, "the recovery was to take the volume, but there is none"), true
	case r.Choice == workspace.RecoverVolume && r.VolumeOpID != "" && r.VolumeOpID != p.o.Volume.OpID:
		return p.fail(workspace.ReasonConflict, "the recovery was to take a volume, but now there is another one"), true
	case r.Choice == workspace.RecoverVolume:
		n.HomeCtx.VolumeOpID, n.HomeCtx.StaleVolumeOpID = p.o.Volume.OpID, ""
		n.HomeCtx.HoldContent(n.ArchiveKey, true)
		p.set(workspace.VolumeReady, true, "VolumePresent", "")
	case replaces:
		n.ArchiveKey = r.Key // none for an empty home
		n.ArchiveOpID = ""
		n.HomeCtx = workspace.HomeContext{ChoiceRecord: workspace.ChoiceRecord{
			RecoveryID: r.ID, Newest: r.Newest, RevertID: n.HomeCtx.RevertID, RevertProblem: n.HomeCtx.RevertProblem,
		}}
		n.Home = workspace.HomeSize{}
		if p.o.Volume != nil {
			n.HomeCtx.VolumeOpID = p.o.Volume.OpID // the restore replaces it
		}
		// The old observations are about other data and must not make anything look lost.
		p.set(workspace.VolumeReady, false, "NotRestored", "")
		p.set(workspace.ArchiveReady, false, "NotObserved", "")
	}
	return ActNothing, true
}

// recoveryPending reports whether w has a recovery that was not carried out yet.
func recoveryPending(w workspace.Workspace) bool {
	return w.Recovery != nil && w.Recovery.ID != w.HomeCtx.RecoveryID && !w.Deleted() &&
		w.ErrorReason == "" && w.Operation == workspace.OpNone
}

// retryAsked reports, once, whether another attempt to start the workspace was requested after the operation began to
// wait.
func (p *planner) retryAsked() bool {
	r := p.was.Recovery
	if r == nil || r.ID == p.next.HomeCtx.RecoveryID || r.Choice != workspace.RecoverRetry {
		return false
	}
	p.next.HomeCtx.RecoveryID, p.next.HomeCtx.Deferred = r.ID, 0
	p.asked = true
	return true
}

// retriesPull reports, once, whether another attempt was requested while the container's node is backing off from a
// pull. A new container pulls immediately.
func (p *planner) retriesPull() bool {
	k := p.o.Container
	return p.retryAsked() && k != nil && k.Running && k.Pending != nil && k.Pending.Cause != ""
}
