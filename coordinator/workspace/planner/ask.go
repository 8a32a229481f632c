package planner

import "github.com/codehub/gateway/coordinator/workspace"

// Ask holds the questions to the object store whose answers a decision needs.
type Ask struct {
	// Archive asks for the archive at archive_key. Upload asks for the archive that the archive operation in progress
	// uploads.
	Archive, Upload bool
	// Bucket asks whether the bucket can be used and is the recorded one. It also asks for archives that are younger
	// than those that the row knows, and for the archive of an open revert.
	Bucket bool
}

// None reports whether there are no questions.
func (a Ask) None() bool { return a == Ask{} }

// questions returns the questions about the archives that every decision on this row and observation depends on.
func (p *planner) questions() (ask Ask) {
	w, o := &p.was, &p.o
	if recoveryPending(*w) || !o.Knows(workspace.SensorVolumes) || p.foreign != "" {
		return Ask{}
	}
	switch w.Operation {
	case workspace.OpArchiving:
		if w.ArchiveKey == w.ID.ArchiveKey(w.ArchiveOpID) {
			return Ask{Archive: true}
		}
		job := p.job(workspace.JobArchive, w.ArchiveOpID)
		succeeded := job != nil && job.State == workspace.JobSucceeded
		// If the volume is gone, its content is in the upload or, if nothing had changed, in the previous archive.
		kept := o.Volume == nil && w.ArchiveKey != "" && !w.HomeCtx.Dirty
		return Ask{
			Archive: kept || succeeded && job.Unchanged && o.Volume != nil && w.ArchiveKey != "",
			Upload:  o.Volume == nil || succeeded && !job.Unchanged,
		}
	case workspace.OpCreateEmptyArchive:
		return Ask{Upload: true}
	}
	if w.ArchiveKey == "" || w.Deleted() && w.ErrorReason.DoubtsData() && o.Volume != nil {
		return Ask{}
	}
	if job := p.job(workspace.JobRestore, w.HomeCtx.RestoreOpID); w.Operation == workspace.OpRestoring && job != nil {
		// The job checks the archive itself. A missing archive is believed only if the bucket is the right one.
		return Ask{Archive: job.State == workspace.JobFailed && job.Reason == workspace.ReasonDataLost}
	}
	return Ask{Archive: o.Volume == nil || w.HomeCtx.RestoreMarker != w.ArchiveKey}
}

// unanswered returns the questions if the observation does not answer them yet. An unusable store is an answer.
// While a retry is not due, there are no questions.
func (p *planner) unanswered() Ask {
	ask := p.questions()
	if p.backingOff || p.storeDown() ||
		(!ask.Archive || p.o.Archive != workspace.Unknown) && (!ask.Upload || p.o.Upload != workspace.Unknown) {
		return Ask{}
	}
	// A workspace that is about to begin an operation, or continues one that another leader began, also needs the
	// identity of its bucket.
	ask.Bucket = string(p.was.Phase) != string(p.was.Wanted()) || p.was.Reverting()
	if p.was.Operation != workspace.OpNone {
		ask.Bucket = !p.o.Witnessed
	}
	return ask
}

// askBucket requires an answer from the bucket before anything begins or continues. The present wait stays until then.
func (p *planner) askBucket() Action {
	p.ask = p.questions()
	p.ask.Bucket = true
	p.keepWaiting()
	return ActNothing
}
