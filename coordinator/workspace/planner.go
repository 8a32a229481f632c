package workspace

import (
	"fmt"
	"reflect"
	"time"
)

// planner makes one decision. Its methods change next and return the action that
// follows; was and o stay as they were given.
type planner struct {
	now        time.Time
	was        Workspace
	next       Workspace
	o          Observation
	policy     Policy
	backingOff bool
}

// decision completes the decision with the times that follow from what has changed.
func (p *planner) decision(a Action) Decision {
	if p.next.Phase != p.was.Phase {
		p.next.PhaseChangedAt = p.now
	}
	// An observation that found nothing new is not written: an idle tick writes no row.
	changed := !reflect.DeepEqual(p.next, p.was)
	if changed {
		p.next.ObservedAt = p.now
	}
	return Decision{Next: p.next, Action: a, Changed: changed}
}

// updateConditions turns the observation into conditions (SPEC 2).
func (p *planner) updateConditions() {
	o, n := p.o, &p.next
	c := n.Conditions
	switch {
	case !o.Volume:
		c = c.with(VolumeReady, false, "VolumeMissing", "", p.now)
	case n.HomeCtx.RestoreMarker != n.ArchiveKey:
		c = c.with(VolumeReady, false, "NotRestored", "the volume does not hold the archive's content yet", p.now)
	default:
		c = c.with(VolumeReady, true, "VolumePresent", "", p.now)
	}
	switch {
	case n.ArchiveKey == "":
		c = c.with(ArchiveReady, false, "NoArchive", "", p.now)
	case o.Archive == Present:
		c = c.with(ArchiveReady, true, "ArchivePresent", "", p.now)
	case o.Archive == Absent:
		c = c.with(ArchiveReady, false, "ArchiveMissing", "the archive or its commit marker is not in the object store", p.now)
	}
	n.Endpoint = ""
	switch k := o.Container; {
	case k == nil:
		c = c.with(ContainerReady, false, "ContainerMissing", "", p.now)
	case k.Ready:
		c = c.with(ContainerReady, true, "ContainerRunning", "", p.now)
		n.Endpoint = k.Endpoint
	case k.Running:
		c = c.with(ContainerReady, false, "ContainerNotReady", "the container is running but not ready for traffic yet", p.now)
	default:
		c = c.with(ContainerReady, false, "ContainerExited", fmt.Sprintf("the container exited with code %d", k.ExitCode), p.now)
	}
	// A container with another volume violates the policy like one without a volume:
	// what users write there is not saved with the workspace.
	healthy := !c.True(ContainerReady) || c.True(VolumeReady) && o.Container.Volume
	reason := ""
	if !healthy {
		reason = string(ReasonContainerWithoutVolume)
	}
	n.Conditions = c.with(PolicyHealthy, healthy, reason, "", p.now)
}

// updatePhase sets the phase that follows from the conditions. A phase ERROR that
// a failed operation left stays until recovery. If the workspace is deleted, ERROR
// stays until the deletion can begin, because [planner.nextOperation] depends on it.
func (p *planner) updatePhase() {
	if p.awaitsRecovery() && (!p.next.Deleted() || p.backingOff || len(p.o.Jobs) > 0) {
		return
	}
	p.next.Phase = p.judgedPhase()
}

// judgedPhase is the phase that follows from the observation. A workspace becomes
// DELETED, and so is never observed again, only when nothing of it is left. A
// volume that was not restored yet and a container that has exited meet no
// condition, but they still exist.
func (p *planner) judgedPhase() Phase {
	phase := Judge(p.next.Conditions, p.next.DeletedAt, p.next.ArchiveKey)
	if phase == PhaseDeleted && (p.o.Container != nil || p.o.Volume) {
		return PhaseDeleting
	}
	return phase
}

// orderedPhase is the workspace's place in the order, deleted or not.
func (p *planner) orderedPhase() Phase {
	c := p.next.Conditions
	return orderedPhase(c.True(ContainerReady), c.True(VolumeReady), p.next.ArchiveKey != "" && c.True(ArchiveReady))
}

// awaitsRecovery reports whether the workspace is in ERROR until an administrator
// recovers it.
func (p *planner) awaitsRecovery() bool {
	return p.was.Phase == PhaseError && p.was.ErrorReason != ""
}

// plan checks the invariants first, then continues the operation in progress or
// begins the next one.
func (p *planner) plan() Action {
	n := &p.next
	lost := p.dataLost()
	if p.awaitsRecovery() && !n.Deleted() {
		if lost != "" && n.ErrorReason != ReasonDataLost {
			// Recorded now: later observations no longer show that something was there,
			// and after a recovery an empty volume would be provisioned.
			return p.fail(ReasonDataLost, lost)
		}
		return p.deleteOrphanJobs()
	}
	if !n.Deleted() && !n.Conditions.True(PolicyHealthy) {
		return p.fail(ReasonContainerWithoutVolume, "the container runs without the workspace's home volume")
	}
	if lost != "" {
		return p.fail(ReasonDataLost, lost)
	}
	p.clearMarker()
	if n.Operation != OpNone {
		return p.proceed()
	}
	if a := p.deleteOrphanJobs(); a != ActNothing {
		return a
	}
	if !n.Deleted() && p.crashLooping() {
		return ActNothing
	}
	return p.begin()
}

// deleteOrphanJobs removes jobs that no operation waits for. One that still runs
// would write to the volume while the next operation uses it.
func (p *planner) deleteOrphanJobs() Action {
	if p.next.Operation == OpNone && len(p.o.Jobs) > 0 {
		return p.act(ActDeleteJobs)
	}
	return ActNothing
}

// clearMarker clears restore_marker when the volume is gone and its archive exists
// and is current. Otherwise an empty volume of the same name, created late by a
// former leader, would be taken for the restored one.
func (p *planner) clearMarker() {
	n := &p.next
	if !p.o.Volume && p.o.Archive == Present && !n.HomeCtx.Dirty {
		n.HomeCtx.RestoreMarker = ""
	}
}

// dataLost describes data that is missing although the owner has not deleted the
// workspace, or returns "" (SPEC 12.2). Where a volume or an archive disappeared,
// no empty volume is provisioned and no older archive is restored.
func (p *planner) dataLost() string {
	n := p.next
	if n.Deleted() || n.Conditions.True(VolumeReady) {
		return ""
	}
	if n.ArchiveKey != "" && p.o.Archive == Absent && !p.uploadPossible() {
		return "the archive " + n.ArchiveKey + " is missing and no volume holds its content"
	}
	if p.o.Volume {
		return ""
	}
	archived := n.ArchiveKey != "" && n.Conditions.True(ArchiveReady)
	current := archived && n.HomeCtx.RestoreMarker == n.ArchiveKey && !n.HomeCtx.Dirty
	if p.was.Conditions.True(VolumeReady) && !current && !p.uploadPossible() {
		return "the home volume is missing and no archive holds its latest content"
	}
	return ""
}

// uploadPossible reports whether the archive operation in progress has uploaded
// the whole content, or may have: the object store was not asked yet.
func (p *planner) uploadPossible() bool {
	return p.next.Operation == OpArchiving && p.next.ArchiveKey != p.expectedKey() && p.o.Upload != Absent
}

// crashLooping counts containers that exit by themselves soon after their start,
// and reports whether it ended a series of them in ERROR (SPEC 12.5).
func (p *planner) crashLooping() bool {
	n, k := &p.next, p.o.Container
	if p.was.Phase != PhaseRunning || k == nil || k.Running || n.DesiredState != DesiredRunning {
		return false
	}
	n.HomeCtx.Crashes++
	if k.FinishedAt.Sub(k.StartedAt) >= p.policy.StableAfter {
		n.HomeCtx.Crashes = 1
	}
	if n.HomeCtx.Crashes < p.policy.MaxRetry {
		return false
	}
	n.ErrorCount = n.HomeCtx.Crashes - 1 // fail adds the last one
	n.HomeCtx.Crashes = 0
	p.fail(ReasonRetryExceeded, fmt.Sprintf("the container keeps exiting soon after it starts, last with exit code %d", k.ExitCode))
	return true
}

// act returns a, or nothing while a retry is not due yet.
func (p *planner) act(a Action) Action {
	if p.backingOff {
		return ActNothing
	}
	return a
}

// fail counts a failure. A terminal one, and the last of MaxRetry, moves the
// workspace to ERROR and ends the operation in the same save; others leave the
// operation in place for a retry. The jobs are removed in either case: a failed
// job would block the next attempt.
func (p *planner) fail(reason ErrorReason, message string) Action {
	n := &p.next
	n.ErrorCount++
	if !reason.Terminal() && n.ErrorCount >= p.policy.MaxRetry {
		message = fmt.Sprintf("%s (failed %d times, last reason %s)", message, n.ErrorCount, reason)
		reason = ReasonRetryExceeded
	}
	n.ErrorReason, n.ErrorMessage = reason, message
	if reason.Terminal() {
		n.Phase = PhaseError
		n.Operation = OpNone
		n.OpStartedAt = time.Time{}
	}
	return ActDeleteJobs
}
