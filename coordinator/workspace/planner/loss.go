package planner

import (
	"cmp"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// restoreGap is the longest time without a leader between the creation of a volume and the start of the job
// that restores into it. If a volume was requested longer ago and has no job, a new leader cannot know what
// happened to it. The engine's creation time is not used: that is another clock (SPEC 12.13).
const restoreGap = 10 * time.Minute

// freshFor is how long after its creation a workspace is provisioned without asking the object store, because it has
// no archive yet.
const freshFor = 10 * time.Minute

// conflict explains why the existing volume is not one that this row knows, or returns "". The database may be older
// than reality, and the volume may hold newer files than any archive (SPEC 12.9).
func (p *planner) conflict() string {
	v, w := p.o.Volume, p.was
	if v == nil || w.HomeCtx.StaleVolumeOpID != "" && v.OpID == w.HomeCtx.StaleVolumeOpID {
		return ""
	}
	since := ""
	if !v.CreatedAt.IsZero() {
		since = " on " + v.CreatedAt.UTC().Format(time.RFC3339)
	}
	if v.OpID != w.HomeCtx.VolumeOpID {
		return fmt.Sprintf("the home volume was made by operation %q%s, but the database knows operation %q: the "+
			"volume may hold newer files than the database knows of",
			v.OpID, since, w.HomeCtx.VolumeOpID)
	}
	if w.Operation != workspace.OpRestoring || !p.o.Knows(workspace.SensorContainers|workspace.SensorJobs) {
		return ""
	}
	if k := p.o.Container; k != nil && (k.Running || v.OpID != "") {
		return "a container uses the home volume that the archive is to be restored into: the volume may hold newer " +
			"files than the archive"
	}
	asked := w.HomeCtx.RestoreVolumeAt
	if asked.IsZero() {
		asked = w.OpStartedAt // an earlier release has begun the restore
	}
	if !p.o.Witnessed && p.job(workspace.JobRestore, w.HomeCtx.RestoreOpID) == nil && v.OpID != "" &&
		p.now.Sub(asked) > restoreGap {
		return fmt.Sprintf("the home volume was asked for at %s, long before the restore into it could begin: it may "+
			"hold newer files than the archive",
			asked.UTC().Format(time.RFC3339))
	}
	return ""
}

// fresh reports whether the workspace is too young to have an archive that its row does not know.
func (p *planner) fresh() bool {
	w := &p.was
	return w.ArchiveKey == "" && w.ArchiveOpID == "" && w.Recovery == nil && p.now.Sub(w.CreatedAt) < freshFor
}

// doubt looks for archives that the row does not know, because the row may be older than reality. It does so before an
// operation that creates the data continues. It applies only to operations that another leader began. It reports
// whether the operation must not continue now.
func (p *planner) doubt() (Action, bool) {
	n := &p.next
	if !operations[n.Operation].makesHome || p.o.Witnessed || p.backingOff || p.fresh() ||
		n.Conditions.True(workspace.VolumeReady) || p.job(workspace.JobRestore, n.HomeCtx.RestoreOpID) != nil {
		return ActNothing, false
	}
	switch {
	case p.storeDown():
		return p.giveWay(waitForStore[p.o.Store.State], p.o.Store.Message), true
	case p.o.Store.State == workspace.StoreUnasked:
		return p.askBucket(), true
	case p.o.Younger != "":
		return p.overtaken(), true
	}
	return ActNothing, false
}

// overtaken ends the operation with the error Conflict: there is an archive that is younger than those that the row
// knows.
func (p *planner) overtaken() Action {
	return p.fail(workspace.ReasonConflict, fmt.Sprintf("the object store holds archive %s, which is younger than "+
		"the one that the database knows (%s): it may hold newer files",
		p.o.Younger, cmp.Or(p.next.ArchiveKey, "none")))
}

// served reports whether the workspace's container runs on the volume.
func (p *planner) served() bool {
	k := p.o.Container
	return k != nil && k.Running && k.Volume
}

// conflicting handles a [planner.conflict]: nothing is done to the volume.
func (p *planner) conflicting() (Action, bool) {
	n := &p.next
	if p.foreign == "" && p.o.Knows(workspace.SensorVolumes) {
		n.HomeCtx.ConflictDesired = ""
	}
	if p.foreign == "" || n.Deleted() {
		return ActNothing, false
	}
	if !p.o.Knows(workspace.SensorContainers) {
		p.keepWaiting()
		return ActNothing, true
	}
	n.HomeCtx.ForeignVolumeOpID = p.o.Volume.OpID
	if p.o.Volume.OpID == n.HomeCtx.VolumeOpID {
		n.HomeCtx.VolumeOpID = "" // the reasons against it are gone with the operation
	}
	switch {
	case n.Operation == workspace.OpStopping && p.o.Container != nil:
		return p.continueOperation(), true
	case p.served():
		return p.inUse(), true
	case p.awaitsRecovery() && (n.ErrorReason == workspace.ReasonConflict || n.ErrorReason == workspace.ReasonDataLost):
		return p.orphanJobs(), true
	}
	return p.fail(workspace.ReasonConflict, p.foreign), true
}

// inUse handles a conflict while the container runs on the volume. People may be working there, so it stays in use
// until a choice is made, or until a lower state is requested later. The desired state of a row that is older than
// reality is no such request. After such a request only the container is removed, and the workspace is in ERROR until
// the choice is made.
func (p *planner) inUse() Action {
	n := &p.next
	p.endRevert(p.foreign)
	ended := n.Operation != workspace.OpNone
	if ended {
		n.Operation, n.OpStartedAt = workspace.OpNone, time.Time{}
		p.clearError()
	}
	found := &n.HomeCtx.ConflictDesired
	if *found == "" || n.DesiredState == workspace.DesiredRunning {
		*found = n.DesiredState
	}
	until := "put to sleep"
	if *found != workspace.DesiredRunning {
		until = "asked for another state than " + string(*found)
	}
	p.wait(workspace.WaitConflict, p.foreign+"; the workspace stays in use until an administrator recovers it and "+
		"keeps the volume, or until it is "+until)
	if a := p.orphanJobs(); a != ActNothing || ended || p.awaitsRecovery() || n.DesiredState == *found {
		return a
	}
	return p.beginNext()
}

// dataLost describes data that is missing although the owner has not deleted the workspace, or returns "" (SPEC
// 12.2). After such a loss no empty volume is provisioned and no older archive is restored.
func (p *planner) dataLost() string {
	n := p.next
	if n.Deleted() || n.Conditions.True(workspace.VolumeReady) || !p.o.Knows(workspace.SensorVolumes) {
		return ""
	}
	if n.ArchiveKey != "" && p.o.Archive == workspace.Absent && !p.uploadPossible() {
		return "the archive " + n.ArchiveKey + " is missing and no volume holds its content"
	}
	if p.o.Volume != nil {
		return ""
	}
	// Data that a container may have written is lost even if the container's end was not seen. If a deletion gave the
	// volume up and was undone afterwards, the older archive is not the workspace's data.
	had := p.was.Conditions.True(workspace.VolumeReady) || n.HomeCtx.Dirty
	archived := n.ArchiveKey != "" && n.Conditions.True(workspace.ArchiveReady)
	current := archived && n.HomeCtx.RestoreMarker == n.ArchiveKey && !n.HomeCtx.Dirty
	if had && !current && !p.uploadPossible() {
		return "the home volume is missing and no archive holds its latest content"
	}
	return ""
}

// uploadPossible reports whether the archive operation in progress has uploaded the whole content, or whether that is
// still possible because the object store was not asked yet.
func (p *planner) uploadPossible() bool {
	return p.next.Operation == workspace.OpArchiving && p.next.ArchiveKey != p.expectedKey() &&
		p.o.Upload != workspace.Absent
}

// halfRestored reports whether an archived workspace that should stay archived has a volume from its own interrupted
// restore.
func (p *planner) halfRestored() bool {
	n := &p.next
	return p.o.Volume != nil && p.o.Volume.OpID != "" && p.foreign == "" && !n.Deleted() &&
		n.Phase == workspace.PhaseArchived && n.Wanted() == workspace.DesiredArchived && !n.HomeCtx.Dirty &&
		p.o.Archive == workspace.Present && p.o.Container == nil
}
