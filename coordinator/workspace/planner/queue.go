package planner

import "github.com/codehub/gateway/coordinator/workspace"

// startJob returns the action that starts a job, if there is a place for it.
func (p *planner) startJob(kind workspace.JobKind, a Action) Action {
	if p.backingOff || p.queued(kind) {
		return ActNothing
	}
	return a
}

// queued reports whether a job must wait for a place, and records that wait. The wait counts neither as time of the
// operation nor as a failure (SPEC 3).
func (p *planner) queued(kind workspace.JobKind) bool {
	if p.o.Queued == nil {
		p.begins = kind
		return false
	}
	before := told(p.o.Queued.Before)
	p.wait(workspace.WaitJobQueue, queueMessage(before))
	p.waiting.Before = before
	return true
}

// told rounds the number of jobs ahead down to 10, 20, 50, 100 and so on. Each change of the number is a write. With
// hundreds of waiting jobs, nearly all numbers would change whenever one job ends.
func told(before int) int {
	if before <= workspace.ExactlyBefore {
		return before
	}
	rounded := 10
	for _, step := 0, rounded; ; step *= 10 {
		for _, n := range []int{step, 2 * step, 5 * step} {
			if n > before {
				return rounded
			}
			rounded = n
		}
	}
}
