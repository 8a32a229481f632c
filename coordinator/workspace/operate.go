package workspace

import (
	"fmt"
	"time"
)

// begin claims the operation that brings the workspace one step nearer to what
// is wished for, if there is one (SPEC 3).
func (r *round) begin() Action {
	n := &r.next
	op := r.choose()
	if op == OpNone || r.waiting {
		return ActNothing
	}
	n.Operation, n.OpStartedAt = op, r.now
	n.ErrorCount, n.ErrorReason, n.ErrorMessage = 0, "", ""
	switch op {
	case OpArchiving, OpCreateEmptyArchive:
		// Always a new id: under an older one an upload may be complete that the
		// volume has since moved past, and it would be taken for this one.
		n.ArchiveOpID = r.p.NewOpID()
	case OpRestoring:
		// From here on the volume is not the workspace's data (SPEC 12.1).
		n.HomeCtx.RestoreMarker = ""
		n.HomeCtx.RestoreOpID = r.p.NewOpID()
		n.Conditions = n.Conditions.with(VolumeReady, false, "NotRestored", "the archive is being restored", r.now)
	case OpStarting:
		n.HomeCtx.Dirty = true
	}
	// The upload of the new operation was not looked for yet.
	r.o.Upload = Unknown
	return r.step()
}

func (r *round) choose() Operation {
	n := &r.next
	at := r.standing()
	if n.Deleted() {
		return r.chooseDeletion(at)
	}
	if r.o.Container != nil && n.DesiredState != DesiredRunning {
		return OpStopping
	}
	switch at {
	case PhasePending:
		if n.DesiredState == DesiredArchived {
			return OpCreateEmptyArchive
		}
		return OpProvisioning
	case PhaseArchived:
		if n.DesiredState != DesiredArchived {
			return OpRestoring
		}
	case PhaseStandby:
		switch n.DesiredState {
		case DesiredRunning:
			return OpStarting
		case DesiredArchived:
			return OpArchiving
		}
	}
	return OpNone
}

// chooseDeletion steps down first, so that for the length of the GC's delay an
// archive exists from which the deletion can be undone.
func (r *round) chooseDeletion(at Phase) Operation {
	gone := r.o.Container == nil && !r.o.Volume
	switch {
	case gone:
		return OpNone
	case r.was.Phase == PhaseError:
		return OpDeleting
	case r.o.Container != nil && at.Level() >= PhaseStandby.Level():
		return OpStopping
	case at == PhaseStandby:
		return OpArchiving
	}
	return OpDeleting
}

// proceed looks after the operation in progress: finished, out of time, or to be
// called again.
func (r *round) proceed() Action {
	n := &r.next
	op := n.Operation
	action := r.step()
	if n.Operation == OpNone || n.Operation != op {
		return action
	}
	if limit := r.p.Timeouts[op]; limit > 0 && r.now.Sub(n.OpStartedAt) > limit {
		return r.fail(ReasonTimeout, fmt.Sprintf("%s took longer than %s", op, limit))
	}
	return action
}

// step is the next action of the operation in progress, or its completion.
func (r *round) step() Action {
	switch r.next.Operation {
	case OpCreateEmptyArchive:
		return r.createEmptyArchive()
	case OpProvisioning:
		if r.next.Conditions.True(VolumeReady) {
			return r.done()
		}
		return r.act(ActProvision)
	case OpRestoring:
		return r.restore()
	case OpStarting:
		return r.start()
	case OpStopping:
		if r.o.Container == nil {
			r.next.HomeCtx.Crashes = 0
			return r.done()
		}
		return r.act(ActDeleteContainer)
	case OpArchiving:
		return r.archive()
	case OpDeleting:
		switch {
		case r.o.Container != nil:
			return r.act(ActDeleteContainer)
		case r.o.Volume:
			return r.act(ActDeleteVolume)
		}
		return r.done()
	}
	return ActNothing
}

// act is the action, unless a retry is not due yet.
func (r *round) act(a Action) Action {
	if r.waiting {
		return ActNothing
	}
	return a
}

// done completes the operation (SPEC 3). Jobs that are left are removed by the
// next look.
func (r *round) done() Action {
	n := &r.next
	n.Operation, n.OpStartedAt = OpNone, time.Time{}
	n.ErrorCount, n.ErrorReason, n.ErrorMessage = 0, "", ""
	n.Phase = r.judged()
	if len(r.o.Jobs) > 0 {
		return ActDeleteJobs
	}
	return ActNothing
}

func (r *round) start() Action {
	k := r.o.Container
	switch {
	case r.next.Conditions.True(ContainerReady):
		return r.done()
	case r.waiting:
		return ActNothing
	case k != nil && !k.Running && k.FinishedAt.After(r.was.OpStartedAt) && !r.was.OpStartedAt.IsZero():
		// It was started for this operation and is over already. It goes, or the next
		// attempt would take it for its own; the last one stays for who looks into it.
		r.fail(ReasonActionFailed, fmt.Sprintf("the container ended right after its start with exit code %d", k.ExitCode))
		if r.next.Operation == OpNone {
			return ActNothing
		}
		return ActDeleteContainer
	case k != nil && k.Running:
		return ActNothing // its health check has not passed yet
	}
	return ActStart
}

func (r *round) restore() Action {
	n := &r.next
	if r.o.Container != nil {
		return r.act(ActDeleteContainer) // it holds the volume (SPEC 12.4)
	}
	if !r.o.Volume {
		return r.act(ActProvision)
	}
	job := r.job(JobRestore, n.HomeCtx.RestoreOpID)
	switch {
	case job == nil:
		return r.act(ActStartRestore)
	case job.State == JobRunning:
		return ActNothing
	case job.State == JobFailed:
		return r.jobFailed(job)
	}
	n.HomeCtx = HomeContext{RestoreMarker: n.ArchiveKey}
	n.Conditions = n.Conditions.with(VolumeReady, true, "VolumePresent", "", r.now)
	return r.done()
}

// expectedKey is the archive key that belongs to the archive operation's id.
func (r *round) expectedKey() string { return r.next.ID.ArchiveKey(r.next.ArchiveOpID) }

// archive is SPEC 1, contract 8: upload, save the key, delete the volume.
func (r *round) archive() Action {
	n := &r.next
	if r.o.Container != nil {
		return r.act(ActDeleteContainer)
	}
	if n.ArchiveKey == r.expectedKey() {
		return r.dropArchived()
	}
	job := r.job(JobArchive, n.ArchiveOpID)
	switch {
	case !r.o.Volume && r.o.Upload == Present:
		return r.saveKey()
	case !r.o.Volume && r.o.Upload == Unknown:
		return ActNothing
	case !r.o.Volume:
		// Only a deleted workspace comes here: for any other this is DataLost.
		n.ArchiveOpID = ""
		return r.done()
	case job == nil:
		return r.act(ActStartArchive)
	case job.State == JobRunning:
		return ActNothing
	case job.State == JobFailed:
		return r.jobFailed(job)
	case r.o.Upload == Unknown || r.waiting:
		return ActNothing
	case r.o.Upload == Absent:
		return r.fail(ReasonActionFailed, "the archive job succeeded and its archive is not in the object store")
	case job.Size != r.o.UploadSize:
		return r.fail(ReasonArchiveCorrupted, r.sizeDiffers(job))
	}
	return r.saveKey()
}

// saveKey makes the upload the workspace's archive. The marker moves with the
// key: the volume that was just archived is, for as long as it exists, the
// content of the new key (SPEC 12.1).
func (r *round) saveKey() Action {
	n := &r.next
	n.ArchiveKey = r.expectedKey()
	n.HomeCtx.RestoreMarker = n.ArchiveKey
	n.HomeCtx.Dirty = false
	n.Conditions = n.Conditions.with(ArchiveReady, true, "ArchivePresent", "", r.now).
		with(VolumeReady, r.o.Volume, volumeReason(r.o.Volume), "", r.now)
	// What comes next, deleting the volume, is decided on a look of its own, after
	// this save.
	return ActNothing
}

func volumeReason(present bool) string {
	if present {
		return "VolumePresent"
	}
	return "VolumeMissing"
}

// dropArchived deletes the volume once its archive is saved and was seen again.
func (r *round) dropArchived() Action {
	n := &r.next
	job := r.job(JobArchive, n.ArchiveOpID)
	switch {
	case r.o.Archive == Unknown:
		return ActNothing
	case !r.o.Volume && r.o.Archive == Present:
		n.ArchiveOpID = ""
		return r.done()
	case !r.o.Volume:
		n.ArchiveOpID = ""
		return r.done() // a deleted workspace; any other is DataLost by now
	case r.o.Archive == Present && job != nil && job.State == JobSucceeded && job.Size != r.o.UploadSize:
		return r.fail(ReasonArchiveCorrupted, r.sizeDiffers(job))
	case r.o.Archive == Present:
		return r.act(ActDropArchivedVolume)
	case job != nil && job.State != JobRunning:
		// The archive disappeared while the volume is still there: make it again.
		return r.fail(ReasonActionFailed, "the archive disappeared from the object store before its volume was deleted")
	case job == nil:
		return r.act(ActStartArchive)
	}
	return ActNothing
}

func (r *round) sizeDiffers(job *Job) string {
	return fmt.Sprintf("the archive has %d bytes in the object store, and its job wrote %d", r.o.UploadSize, job.Size)
}

func (r *round) createEmptyArchive() Action {
	n := &r.next
	if n.ArchiveKey == r.expectedKey() || r.o.Upload == Present {
		n.ArchiveKey = r.expectedKey()
		n.HomeCtx = HomeContext{RestoreMarker: n.ArchiveKey}
		if !r.o.Volume {
			n.HomeCtx.RestoreMarker = "" // as in forget
		}
		n.Conditions = n.Conditions.with(ArchiveReady, true, "ArchivePresent", "", r.now)
		n.ArchiveOpID = ""
		return r.done()
	}
	return r.act(ActCreateEmptyArchive)
}

func (r *round) jobFailed(job *Job) Action {
	if r.waiting {
		return ActDeleteJobs // counted already; it only stands in the way
	}
	return r.fail(job.Reason, fmt.Sprintf("the %s job failed: %s", job.Kind, job.Message))
}

func (r *round) job(kind JobKind, opID string) *Job {
	for i := range r.o.Jobs {
		if j := &r.o.Jobs[i]; j.Kind == kind && j.OpID == opID {
			return j
		}
	}
	return nil
}

// Needs says which archives must be looked for in the object store before o is
// complete enough to decide on: archive_key's, and that of the archive operation
// in progress.
func Needs(w Workspace, o Observation) (archive, upload bool) {
	own := w.ID.ArchiveKey(w.ArchiveOpID)
	switch w.Operation {
	case OpArchiving:
		if w.ArchiveKey == own {
			return true, false
		}
		upload = !o.Volume
		for _, j := range o.Jobs {
			upload = upload || j.Kind == JobArchive && j.OpID == w.ArchiveOpID && j.State == JobSucceeded
		}
		return false, upload
	case OpCreateEmptyArchive:
		return false, true
	}
	if w.ArchiveKey == "" {
		return false, false
	}
	if w.Operation == OpRestoring && len(o.Jobs) > 0 {
		return false, false // the job tells
	}
	return !o.Volume || w.HomeCtx.RestoreMarker != w.ArchiveKey, false
}
