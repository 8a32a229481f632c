package planner

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// leadsTo reports whether the operation is one of those on the way to that desired state, from any
// phase.
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

// begins are the actions that start what an operation then waits for.
var begins = map[Action]bool{
	ActProvision: true, ActStart: true, ActStartArchive: true, ActStartRestore: true,
}

// mayWrite are the waits of a storage job that may run all the same, on a machine that does not
// answer.
var mayWrite = map[string]bool{workspace.WaitNodeLost: true, workspace.WaitTerminating: true}

// cancelled reports whether the operation in progress only waits for resources from outside, and leads to a state that
// is not desired any more (SPEC 3). action is the next action.
func (p *planner) cancelled(action Action) bool {
	traits, waits := operations[p.next.Operation], p.waiting
	if waits == nil && begins[action] {
		waits = p.was.Waiting // it would only be tried again
	}
	return waits != nil && traits.yields && !leadsTo(p.next.Operation, p.next.Wanted()) &&
		(traits.job == "" || !mayWrite[waits.Reason])
}

// atOnce is the pause before a workspace is looked at again that is at rest otherwise.
const atOnce = 10 * time.Millisecond

// cancel ends the operation without an error, and removes its storage job. The container that it has
// begun to make, and the volume of a restore, are removed by what follows.
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
