package planner

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// leadsTo reports whether the operation is on the way to that desired state, from any phase.
func leadsTo(op workspace.Operation, wanted workspace.DesiredState) bool {
	if wanted == workspace.DesiredDeleted {
		return op == workspace.OpStopping || op == workspace.OpArchiving || op == workspace.OpDeleting
	}
	for _, next := range nextOperations {
		if next[wanted] == op {
			return true
		}
	}
	return false
}

// begins are the actions that start something for which the operation then waits.
var begins = map[Action]bool{
	ActProvision: true, ActStart: true, ActStartArchive: true, ActStartRestore: true,
}

// mayWrite are the waits during which a storage job may still be running, on a machine that does not answer.
var mayWrite = map[string]bool{workspace.WaitNodeLost: true, workspace.WaitTerminating: true}

// cancelled reports whether the operation in progress only waits for resources from outside, and leads to a state that
// is not desired any more (SPEC 3). action is the next action.
func (p *planner) cancelled(action Action) bool {
	traits, waits := operations[p.next.Operation], p.waiting
	if waits == nil && begins[action] {
		waits = p.was.Waiting // the action would only repeat the attempt
	}
	return waits != nil && traits.yields && !leadsTo(p.next.Operation, p.next.Wanted()) &&
		(traits.job == "" || !mayWrite[waits.Reason])
}

// atOnce is the pause before the next look at a workspace that is otherwise at rest.
const atOnce = 10 * time.Millisecond

// cancel ends the operation without an error, and removes its storage job. Later steps remove the container that the
// operation began to create, and the volume of a restore.
func (p *planner) cancel() Action {
	n := &p.next
	n.Operation, n.OpStartedAt = workspace.OpNone, time.Time{}
	n.HomeCtx.Deferred = 0
	p.waiting = nil
	p.clearError()
	n.Phase = p.judgedPhase()
	if len(p.o.Jobs) > 0 {
		return ActDeleteJobs
	}
	if string(n.Phase) == string(n.Wanted()) {
		p.retry = atOnce
	}
	return ActNothing
}
