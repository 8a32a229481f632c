package planner

import "github.com/codehub/gateway/coordinator/workspace"

// frozen reports whether the container is frozen because the workspace is idle. While the workspace should doze, any
// pause counts. Afterwards only a freeze by this program counts, and a pause by a person stays.
func (p *planner) frozen() bool {
	k := p.o.Container
	return k != nil && k.Running && k.Health == workspace.HealthPaused &&
		(!p.was.DozeAt.IsZero() || !k.StartedAt.IsZero() && k.StartedAt.Equal(p.was.HomeCtx.Dozed))
}

// updateDozing sets the condition of dozing. A workspace that never dozed does not have it.
func (p *planner) updateDozing() {
	frozen := p.frozen()
	if _, has := p.next.Conditions[workspace.Dozing]; !has && !frozen {
		return
	}
	reason := "ContainerGoesOn"
	if frozen {
		reason = workspace.ContainerDozing
	}
	p.set(workspace.Dozing, frozen, reason, "")
}

// thaw thaws a frozen container that should not be frozen any more. A container that is about to be deleted
// stays frozen.
func (p *planner) thaw() (Action, bool) {
	n := &p.next
	if !p.frozen() || !n.DozeAt.IsZero() || n.Operation != workspace.OpNone || n.Deleted() ||
		n.Wanted() != workspace.DesiredRunning && n.Phase != workspace.PhaseError {
		return ActNothing, false
	}
	return p.act(ActThaw), true
}

// freeze freezes the container of a workspace that should doze. The identity of that container is saved first.
func (p *planner) freeze() (Action, bool) {
	n, k := &p.next, p.o.Container
	if n.DozeAt.IsZero() || n.Phase != workspace.PhaseRunning || n.Wanted() != workspace.DesiredRunning ||
		k == nil || k.StartedAt.IsZero() || !k.Ready && !p.frozen() || len(p.o.Jobs) > 0 || p.backingOff {
		return ActNothing, false
	}
	n.HomeCtx.Dozed = k.StartedAt.UTC().Round(0)
	if p.frozen() {
		return ActNothing, true
	}
	return ActFreeze, true
}

// dozeEnded reports whether the container in which the workspace dozed has ended. This is saved before anything begins:
// the save takes a running place for the workspace or, if none is free, puts the workspace to sleep (SPEC 5).
func (p *planner) dozeEnded() bool {
	return !p.was.DozeAt.IsZero() && p.was.Phase == workspace.PhaseRunning && p.next.Phase != workspace.PhaseRunning
}
