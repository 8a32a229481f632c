// Package planner owns the choice of the next operation and action for a workspace (SPEC 3), given its row and
// an observation. It must not perform I/O, read the clock or import anything but the standard library and
// package workspace. This is why every rule that protects a user's files can be tested as a table of values.
package planner

import (
	"fmt"
	"reflect"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// planner makes one decision, by the list of [steps]. The steps change next and return the action; was and o keep their
// given values.
type planner struct {
	now        time.Time
	was        workspace.Workspace
	next       workspace.Workspace
	o          workspace.Observation
	policy     Policy
	backingOff bool

	foreign  string             // why the volume is not this row's; see [planner.conflict]
	doubtful bool               // it is unknown whether the volume stays
	waiting  *workspace.Waiting // the wait to record in next
	ended    bool               // a ready container has ended the error
	archived *workspace.ArchiveRecord
	ask      Ask               // the answers that are needed first
	partial  bool              // the row depends on archives that were not asked for yet
	begins   workspace.JobKind // the job that needs a place
	asked    bool              // another attempt to start was requested
	retry    time.Duration
}

// newPlanner returns a planner for one decision. The decision about an actuator's error uses only the row, not
// the observation.
func newPlanner(now time.Time, w workspace.Workspace, o workspace.Observation, backingOff bool,
	policy Policy) *planner {
	if o.ActionError != nil {
		o = workspace.Observation{Unseen: workspace.AllSensors, ActionError: o.ActionError}
	}
	p := &planner{now: now, was: w, next: w, o: o.Sanitized(), policy: policy, backingOff: backingOff}
	p.doubtful = o.VolumeDoubtful()
	p.foreign = p.conflict()
	p.ask = p.unanswered()
	p.partial = !p.ask.None()
	return p
}

// decision completes the decision with the consequences of the changes.
func (p *planner) decision(a Action) Decision {
	n := &p.next
	p.resume()
	n.Waiting = p.waiting
	if a == ActDeleteContainer || n.Operation == workspace.OpStopping || n.Operation == workspace.OpDeleting {
		// This is saved before the container is deleted, so that no route leads to an address that another
		// container will get (SPEC 8).
		n.Endpoint, n.BasePath = "", ""
	}
	if !n.Deleted() || p.o.Knows(workspace.AllSensors) {
		n.AwaitsGC = p.awaitsGC()
	}
	if n.Phase != p.was.Phase {
		n.PhaseChangedAt = p.now
	}
	// An observation without news is not written: an idle tick writes no row.
	step := !reflect.DeepEqual(p.next, p.was)
	n.Progress = p.progress()
	changed := step || n.Progress != p.was.Progress
	if changed {
		n.ObservedAt = p.now
	}
	if n.Operation == workspace.OpNone && p.ask.None() || p.partial {
		p.begins = "" // something else came in between
	}
	d := Decision{
		Next: p.next, Action: a, Changed: changed, OnlyProgress: changed && !step,
		Archived: p.archived, Ask: p.ask, Job: p.begins, Retry: p.retry,
	}
	switch a {
	case ActDropArchivedVolume, ActDropStaleVolume, ActDeleteVolume:
		d.VolumeOpID = p.o.Volume.OpID
	}
	return d
}

// awaitsGC reports whether the workspace is deleted and only its archive is left.
func (p *planner) awaitsGC() bool {
	n := &p.next
	return n.Deleted() && n.Operation == workspace.OpNone && p.nothingLeft() && n.ArchiveKey != "" &&
		n.Conditions.True(workspace.ArchiveReady)
}

// nothingLeft reports whether the backend holds nothing of the workspace.
func (p *planner) nothingLeft() bool {
	return p.o.Knows(workspace.AllSensors) && p.o.Container == nil && p.o.Volume == nil && len(p.o.Jobs) == 0
}

// updateArchive sets the condition of the archive.
func (p *planner) updateArchive() {
	switch {
	case p.next.ArchiveKey == "":
		p.set(workspace.ArchiveReady, false, "NoArchive", "")
	case p.o.Archive == workspace.Present:
		p.set(workspace.ArchiveReady, true, "ArchivePresent", "")
	case p.o.Archive == workspace.Absent:
		p.set(workspace.ArchiveReady, false, "ArchiveMissing", "the archive or its commit marker is not in the "+
			"object store")
	}
}

// markDirty records that a container may have written to the home, even one that this program did not start.
func (p *planner) markDirty() {
	k, n := p.o.Container, &p.next
	if p.o.Knows(workspace.SensorContainers|workspace.SensorVolumes) && k != nil && k.Volume && p.foreign == "" &&
		n.Conditions.True(workspace.VolumeReady) {
		n.HomeCtx.Dirty = true
	}
}

// updatePolicy sets the condition of the policy. A container with another volume violates the policy, as does one
// without a volume: files that users write there are not saved with the workspace.
func (p *planner) updatePolicy() {
	if !p.o.Knows(workspace.SensorContainers | workspace.SensorVolumes) {
		return
	}
	k, n := p.o.Container, &p.next
	serves := k != nil && (k.Ready || k.Running &&
		(k.Health == workspace.HealthUnhealthy || k.Health == workspace.HealthPaused))
	healthy := !serves || n.Conditions.True(workspace.VolumeReady) && k.Volume
	reason := ""
	if !healthy {
		reason = string(workspace.ReasonContainerWithoutVolume)
	}
	p.set(workspace.PolicyHealthy, healthy, reason, "")
}

// set changes one condition.
func (p *planner) set(t workspace.ConditionType, status bool, reason, message string) {
	p.next.Conditions = p.next.Conditions.With(t, status, reason, message, p.now)
}

// updateVolume sets the condition of the volume.
func (p *planner) updateVolume() {
	switch n := &p.next; {
	case !p.o.Knows(workspace.SensorVolumes), p.foreign != "" && !p.o.Knows(workspace.SensorContainers):
	case p.o.Volume == nil:
		p.set(workspace.VolumeReady, false, "VolumeMissing", "")
	case p.foreign != "":
		p.set(workspace.VolumeReady, p.served(), "VolumeNotRecorded", p.foreign)
	case n.HomeCtx.RestoreMarker != n.ArchiveKey:
		p.set(workspace.VolumeReady, false, "NotRestored", "the volume does not hold the archive's content yet")
	default:
		n.HomeCtx.ForeignVolumeOpID = ""
		p.set(workspace.VolumeReady, true, "VolumePresent", "")
	}
}

// updateContainer sets the condition of the container, and the endpoint. A container that turned unhealthy
// keeps its endpoint: people may be working in it.
func (p *planner) updateContainer() {
	if !p.o.Knows(workspace.SensorContainers) {
		return
	}
	n, k := &p.next, p.o.Container
	n.Endpoint, n.BasePath = "", ""
	if k != nil && k.Running && (k.Health != workspace.HealthPaused || p.frozen()) &&
		(k.Ready || p.was.Phase == workspace.PhaseRunning) {
		// without an address it cannot be reached, and another container may have its old one
		n.Endpoint, n.BasePath = k.Endpoint, k.BasePath
	}
	switch {
	case k == nil:
		p.set(workspace.ContainerReady, false, "ContainerMissing", "")
	case k.Ready:
		p.set(workspace.ContainerReady, true, "ContainerRunning", "")
	case p.frozen() && p.was.Phase == workspace.PhaseRunning:
		p.set(workspace.ContainerReady, true, workspace.ContainerDozing, "")
	case k.Running && k.Health == workspace.HealthUnhealthy:
		p.set(workspace.ContainerReady, false, workspace.ContainerUnhealthy,
			whyNotReady(k, "the container's health check fails; it stays in use and may recover by itself"))
	case k.Running && k.Health == workspace.HealthPaused:
		p.set(workspace.ContainerReady, false, workspace.ContainerPaused, "the container is paused; it goes on when "+
			"it is unpaused")
	case k.Running:
		p.set(workspace.ContainerReady, false, workspace.ContainerNotReady,
			whyNotReady(k, "the container is running but not ready for traffic yet"))
	default:
		p.set(workspace.ContainerReady, false, "ContainerExited", "the container exited with "+howEnded(k))
	}
	p.updateDozing()
}

// updatePhase sets the phase that follows from the conditions. A phase ERROR left by a failed operation stays
// until recovery.
func (p *planner) updatePhase() {
	if p.awaitsRecovery() {
		p.next.Phase = workspace.PhaseError
		return
	}
	p.next.Phase = p.judgedPhase()
}

// judgedPhase returns the phase that follows from the observation. A DELETED workspace is never observed again, so a
// workspace becomes DELETED only when it is certain that nothing of it is left. A volume that was not restored yet and
// a container that has exited make no condition true, but they still exist.
func (p *planner) judgedPhase() workspace.Phase {
	n := &p.next
	phase := workspace.Judge(n.Conditions, n.DeletedAt, n.ArchiveKey, p.was.Phase)
	if phase == workspace.PhaseDeleted && (!p.nothingLeft() || n.ArchiveKey != "" && p.o.Archive == workspace.Unknown) {
		return workspace.PhaseDeleting
	}
	return phase
}

// orderedPhase is the workspace's place in the order, deleted or not.
func (p *planner) orderedPhase() workspace.Phase {
	return workspace.OrderedPhase(p.next.Conditions, p.next.ArchiveKey, p.was.Phase)
}

// awaitsRecovery reports whether the workspace is in ERROR until an administrator recovers it. One that was
// deleted in ERROR and undeleted is in ERROR again.
func (p *planner) awaitsRecovery() bool {
	return !p.was.Deleted() && !p.ended && (p.was.ErrorReason.Terminal() || p.was.Phase == workspace.PhaseError &&
		p.was.ErrorReason != "")
}

// needed returns the sensors that the next step depends on. A container whose volume may be removed with it is
// not stopped: while it runs, its files can be saved. Nor is a container that was in use in a conflict, until it is
// known whether it still is in use.
func (p *planner) needed() workspace.Sensors {
	n := &p.next
	inConflict := n.HomeCtx.ConflictDesired != "" && n.Operation == workspace.OpNone && !n.Deleted()
	if p.doubtful && !n.DeleteNow || inConflict {
		return workspace.AllSensors
	}
	if traits, ok := operations[n.Operation]; ok {
		return traits.sensors
	}
	if n.Operation == workspace.OpNone && p.o.Knows(workspace.SensorContainers) &&
		nextOperations[p.orderedPhase()][n.Wanted()] == workspace.OpStopping {
		return workspace.SensorContainers
	}
	return workspace.AllSensors
}

// waitForSensors ends the decision while a sensor that the next step depends on is silent.
func (p *planner) waitForSensors() (Action, bool) {
	if p.o.Knows(p.needed()) {
		return ActNothing, false
	}
	p.describeUnseen()
	return ActNothing, true
}

// describeUnseen records what the workspace waits for, if it should change at all.
func (p *planner) describeUnseen() {
	n := &p.next
	p.keepWaiting()
	if p.o.UnseenReason != "" && (p.doubtful || n.Operation != workspace.OpNone ||
		string(n.Phase) != string(n.Wanted())) {
		p.wait(p.o.UnseenReason, p.o.UnseenMessage)
	}
}

// describeContainer records what a running workspace's container waits for.
func (p *planner) describeContainer() {
	if p.next.Phase != workspace.PhaseRunning {
		return
	}
	if k := p.o.Container; k != nil && k.Running && k.Pending != nil {
		p.wait(k.Pending.Reason, k.Pending.Message)
		return
	}
	c := p.next.Conditions[workspace.ContainerReady]
	switch c.Reason {
	case workspace.ContainerUnhealthy:
		p.wait(workspace.WaitUnhealthy, c.Message)
	case workspace.ContainerPaused:
		p.wait(workspace.WaitPaused, c.Message)
	}
	p.describeSilence()
}

// orphanJobs returns the action that removes the jobs that belong to no operation, if there are any. A job that still
// runs would write to the volume while the next operation uses it.
func (p *planner) orphanJobs() Action {
	if p.next.Operation == workspace.OpNone && len(p.o.Jobs) > 0 && (p.awaitsRecovery() || !p.startsBesideJobs()) {
		return p.act(ActDeleteJobs)
	}
	return ActNothing
}

// clearMarker clears restore_marker, and forgets the incarnation, when the volume is gone and its archive
// exists and is current. Otherwise a volume of the same name that appears late would be mistaken for the restored
// volume, or for one that a restore may overwrite.
func (p *planner) clearMarker() {
	n := &p.next
	if !p.o.Knows(workspace.SensorVolumes) || p.o.Volume != nil || p.o.Archive != workspace.Present || n.HomeCtx.Dirty {
		return
	}
	n.HomeCtx.ForgetContent()
	if n.Operation == workspace.OpArchiving || p.was.Conditions.True(workspace.VolumeReady) {
		n.HomeCtx.VolumeOpID = ""
	}
}

// endError ends an error that only says that the container did not come up in time, once it is ready on the
// workspace's own data.
func (p *planner) endError() {
	n := &p.next
	ready := n.Conditions.True(workspace.ContainerReady) && n.Conditions.True(workspace.VolumeReady) &&
		n.Conditions.True(workspace.PolicyHealthy)
	if !p.awaitsRecovery() || !p.was.ErrorReason.EndsWhenReady() || n.Wanted() != workspace.DesiredRunning ||
		p.foreign != "" ||
		!ready || !p.o.Knows(workspace.SensorContainers|workspace.SensorVolumes) {
		return
	}
	p.ended = true
	n.ErrorReason, n.ErrorMessage, n.ErrorCount = "", "", 0
	n.HomeCtx.Crashes, n.HomeCtx.Deferred, n.HomeCtx.Unread = 0, 0, 0
}

// endCrashLoop counts containers that exit by themselves soon after their start, and ends a series of them in
// ERROR (SPEC 12.5).
func (p *planner) endCrashLoop() (Action, bool) {
	n, k := &p.next, p.o.Container
	if n.Deleted() || p.was.Phase != workspace.PhaseRunning || k == nil || k.Running || k.Disrupted ||
		n.Wanted() != workspace.DesiredRunning {
		return ActNothing, false
	}
	n.HomeCtx.Crashes++
	if k.FinishedAt.Sub(k.StartedAt) >= StableAfter {
		n.HomeCtx.Crashes = 1
	}
	if n.HomeCtx.Crashes < p.policy.MaxRetry {
		return ActNothing, false
	}
	n.ErrorCount = n.HomeCtx.Crashes - 1 // fail adds the last one
	n.HomeCtx.Crashes = 0
	p.fail(workspace.ReasonRetryExceeded, "the container keeps exiting soon after it starts, last with exit "+
		howEnded(k))
	return ActNothing, true
}

// act returns the action a, or none while a retry is not due yet.
func (p *planner) act(a Action) Action {
	if p.backingOff {
		return ActNothing
	}
	return a
}

// fail counts a failure. A terminal failure, or the last of MaxRetry failures, moves the workspace to ERROR and ends
// the operation in the same save. Others leave the operation in place for a retry. The jobs are removed in either case:
// a failed job would block the next attempt. A cause outside the workspace postpones the operation instead.
func (p *planner) fail(reason workspace.ErrorReason, message string) Action {
	n := &p.next
	if p.givesWay(reason) {
		why := workspace.WaitArchiveFailed
		switch {
		case n.Operation != workspace.OpArchiving:
			why = workspace.WaitDeletionFailed
		case reason == workspace.ReasonUnreachable:
			why = workspace.WaitStoreAway
		}
		return p.giveWay(why, message)
	}
	n.ErrorCount++
	if !reason.Terminal() && n.ErrorCount >= p.policy.MaxRetry {
		message = fmt.Sprintf("%s (failed %d times, last reason %s)", message, n.ErrorCount, reason)
		reason = workspace.ReasonRetryExceeded
	}
	n.ErrorReason, n.ErrorMessage = reason, message
	if reason.Terminal() {
		p.endRevert(message)
		n.Phase = workspace.PhaseError
		n.Operation = workspace.OpNone
		n.OpStartedAt = time.Time{}
	}
	return ActDeleteJobs
}

// clearError forgets the failures of an operation. The reason that put a workspace into ERROR before its
// deletion is kept: it applies again when the deletion is undone.
func (p *planner) clearError() {
	n := &p.next
	n.ErrorCount = 0
	if !n.ErrorReason.Terminal() {
		n.ErrorReason, n.ErrorMessage = "", ""
	}
}
