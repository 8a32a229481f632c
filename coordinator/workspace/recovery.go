package workspace

// RecoveryChoice is what becomes of the data of a workspace that is recovered.
type RecoveryChoice string

// The choices (SPEC 12.9).
const (
	// RecoverRetry only clears the error: nothing about the data is in doubt.
	RecoverRetry RecoveryChoice = "retry"
	// RecoverVolume takes the volume that exists as the workspace's data.
	RecoverVolume RecoveryChoice = "volume"
	// RecoverArchive takes the archive Key.
	RecoverArchive RecoveryChoice = "archive"
	// RecoverEmpty starts with an empty home.
	RecoverEmpty RecoveryChoice = "empty"
)

// Recovery is one recovery. The controller carries each out once, by its ID.
type Recovery struct {
	ID     string         `json:"id"`
	Choice RecoveryChoice `json:"choice"`
	// Key is the archive of [RecoverArchive].
	Key string `json:"key,omitempty"`
	// Newest is the newest archive that whoever chose has seen. A younger one ends the
	// recovery's first operation in Conflict.
	Newest string `json:"newest,omitempty"`
	// VolumeOpID is the operation that made the volume that whoever chose has seen.
	// ReplaceVolume says that its content is given up. Any other volume that exists ends
	// [RecoverArchive] and [RecoverEmpty] in Conflict.
	VolumeOpID    string `json:"volume_op_id,omitempty"`
	ReplaceVolume bool   `json:"replace_volume,omitempty"`
}

// recover carries out a recovery that an administrator has asked for, once, and
// reports whether this decision is about it. What it gives up was chosen; whatever
// else it finds ends it in an error.
func (p *planner) recover() (Action, bool) {
	n, r := &p.next, p.was.Recovery
	if !recoveryPending(p.was) {
		return ActNothing, false
	}
	if !p.o.knows(AllSensors) {
		p.keepWaiting()
		if p.doubtful {
			p.waitForSensors()
		}
		return ActNothing, true
	}
	replaces := r.Choice == RecoverArchive || r.Choice == RecoverEmpty
	refused := replaces && p.o.Volume != nil && !(r.ReplaceVolume && r.VolumeOpID == p.o.Volume.OpID)
	if r.Choice != RecoverRetry && !refused && len(p.o.Jobs) > 0 {
		return p.act(ActDeleteJobs), true // one may still write to the volume that is to be kept
	}
	if replaces && !refused {
		switch {
		case p.o.Container != nil:
			return p.act(ActDeleteContainer), true
		case p.o.Volume != nil && r.Choice == RecoverEmpty:
			return p.act(ActDeleteVolume), true
		}
	}
	n.HomeCtx.RecoveryID = r.ID
	n.HomeCtx.Fingerprint = Fingerprint{}
	if r.Choice != RecoverRetry {
		p.endRevert("another choice was made about the files")
	}
	n.HomeCtx.Crashes, n.HomeCtx.Deferred = 0, 0
	switch {
	case refused:
		return p.fail(ReasonConflict, "the recovery was to replace the data, but a volume exists that it was not chosen to give up"), true
	case r.Choice == RecoverVolume && p.o.Volume == nil:
		return p.fail(ReasonDataLost, "the recovery was to take the volume, but there is none"), true
	case r.Choice == RecoverVolume && r.VolumeOpID != "" && r.VolumeOpID != p.o.Volume.OpID:
		return p.fail(ReasonConflict, "the recovery was to take a volume, but now there is another one"), true
	case r.Choice == RecoverVolume:
		n.HomeCtx.VolumeOpID, n.HomeCtx.StaleVolumeOpID = p.o.Volume.OpID, ""
		n.HomeCtx.RestoreMarker, n.HomeCtx.Dirty = n.ArchiveKey, true
		n.Conditions = n.Conditions.with(VolumeReady, true, "VolumePresent", "", p.now)
	case replaces:
		n.ArchiveKey = r.Key // none for an empty home
		n.ArchiveOpID = ""
		n.HomeCtx = HomeContext{RecoveryID: r.ID, Newest: r.Newest, RevertID: n.HomeCtx.RevertID, RevertProblem: n.HomeCtx.RevertProblem}
		n.Home = HomeSize{}
		if p.o.Volume != nil {
			n.HomeCtx.VolumeOpID = p.o.Volume.OpID // the restore replaces it
		}
		// The old observations are about other data: nothing may be found missing by them.
		n.Conditions = n.Conditions.with(VolumeReady, false, "NotRestored", "", p.now).
			with(ArchiveReady, false, "NotObserved", "", p.now)
	}
	return ActNothing, true
}

// recoveryPending reports whether w has a recovery that was not carried out yet.
func recoveryPending(w Workspace) bool {
	return w.Recovery != nil && w.Recovery.ID != w.HomeCtx.RecoveryID && !w.Deleted() &&
		w.ErrorReason == "" && w.Operation == OpNone
}
