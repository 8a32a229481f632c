package planner

import "github.com/codehub/gateway/coordinator/workspace"

// step is one part of a decision. It may change the next row, and reports whether the decision ends with its
// action.
type step struct {
	name string
	do   func(*planner) (Action, bool)
}

// steps lists the steps of a decision in their order. Only a step changes the next row, and each sees the changes of
// the steps before it. The first step that ends the decision is the last one.
var steps = []step{
	// Decisions by the row alone. The conditions stay unchanged, so the next observation finds a loss that shows for
	// the first time.
	{"count an actuator's error", (*planner).countError},
	{"carry out a recovery", (*planner).recover},
	// The observation (SPEC 2).
	{"take the application's own answer", always((*planner).readiness)},
	{"hold a container back that its backend must look into", always((*planner).holdBack)},
	{"see the volume", always((*planner).updateVolume)},
	{"see the archive", always((*planner).updateArchive)},
	{"see the container", always((*planner).updateContainer)},
	{"note that the home may have changed", always((*planner).markDirty)},
	{"judge the policy", always((*planner).updatePolicy)},
	{"end an error that a ready container ends", always((*planner).endError)},
	{"judge the phase", always((*planner).updatePhase)},
	// Invariants, before anything continues (SPEC 12).
	{"end the revert of a deleted workspace", always((*planner).endRevertOfDeleted)},
	{"let a container go on that must not stay frozen", (*planner).thaw},
	{"leave a volume alone that the row does not know", (*planner).conflicting},
	{"stay in ERROR until recovery", (*planner).stayInError},
	{"refuse a container without its volume", (*planner).refuseContainer},
	{"declare lost data", (*planner).declareLoss},
	{"wait for the sensors", (*planner).waitForSensors},
	{"forget a volume that is gone", always((*planner).clearMarker)},
	// The operation in progress, or the next one (SPEC 3).
	{"go on with the operation", (*planner).proceed},
	{"remove jobs of no operation", (*planner).deleteOrphanJobs},
	{"end a crash loop", (*planner).endCrashLoop},
	{"say what the container waits for", always((*planner).describeContainer)},
	{"drop what an interrupted restore has left", (*planner).dropHalfRestored},
	{"go back to an older archive", (*planner).revert},
	{"freeze the container of an idle workspace", (*planner).freeze},
	{"begin the next operation", (*planner).begin},
}

// always returns a step that never ends the decision.
func always(change func(*planner)) func(*planner) (Action, bool) {
	return func(p *planner) (Action, bool) {
		change(p)
		return ActNothing, false
	}
}

// countError counts an actuator's error, or adopts the actuator's wait. The jobs of an operation that continues
// stay: the call may have started one of them.
func (p *planner) countError() (Action, bool) {
	err := p.o.ActionError
	if err == nil || p.next.Operation == workspace.OpNone {
		return ActNothing, false
	}
	action := p.failed(err)
	if p.next.Operation != workspace.OpNone {
		action = ActNothing
	}
	return action, true
}

// endRevertOfDeleted ends an open revert of a workspace that was deleted.
func (p *planner) endRevertOfDeleted() {
	if p.next.Deleted() {
		p.endRevert("the workspace was deleted")
	}
}

// stayInError keeps a workspace in ERROR until its recovery. It still records a loss. Otherwise an empty volume would
// be provisioned after a recovery, because later observations no longer show that the data existed.
func (p *planner) stayInError() (Action, bool) {
	if !p.awaitsRecovery() {
		return ActNothing, false
	}
	if lost := p.dataLost(); lost != "" && p.next.ErrorReason != workspace.ReasonDataLost {
		return p.fail(workspace.ReasonDataLost, lost), true
	}
	return p.orphanJobs(), true
}

// refuseContainer puts the workspace into ERROR while a container runs without the workspace's volume (SPEC 1, contract
// 6).
func (p *planner) refuseContainer() (Action, bool) {
	n := &p.next
	if n.Deleted() || n.Conditions.True(workspace.PolicyHealthy) ||
		!p.o.Knows(workspace.SensorContainers|workspace.SensorVolumes) {
		return ActNothing, false
	}
	return p.fail(workspace.ReasonContainerWithoutVolume, "the container runs without the workspace's home volume"),
		true
}

// declareLoss ends in ERROR when data is missing (SPEC 12.2).
func (p *planner) declareLoss() (Action, bool) {
	if lost := p.dataLost(); lost != "" {
		return p.fail(workspace.ReasonDataLost, lost), true
	}
	return ActNothing, false
}

// deleteOrphanJobs removes jobs that belong to no operation. The wait stays meanwhile.
func (p *planner) deleteOrphanJobs() (Action, bool) {
	a := p.orphanJobs()
	if a == ActNothing {
		return ActNothing, false
	}
	p.keepWaiting()
	return a, true
}

// dropHalfRestored removes the remains of an interrupted restore of an archived workspace.
func (p *planner) dropHalfRestored() (Action, bool) {
	if !p.halfRestored() {
		return ActNothing, false
	}
	return p.act(ActDropStaleVolume), true
}
