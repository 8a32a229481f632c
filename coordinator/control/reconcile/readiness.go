package reconcile

import (
	"context"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile/internal/readiness"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// addReadiness adds what the controller's own probe has found out about the container of w, which is probed from its
// start until its application has answered. The answer counts for that container alone.
func (l *loop) addReadiness(ctx context.Context, w workspace.Workspace, s *state, o *workspace.Observation) {
	if l.prober.Probe == nil || !o.Knows(workspace.SensorContainers) {
		return
	}
	c := o.Container
	probed := c != nil && c.Unknown == "" && c.Running && c.Endpoint != "" && c.Pending == nil && c.Health != workspace.HealthPaused &&
		!w.Deleted() && w.Wanted() == workspace.DesiredRunning
	if s.watch != nil && (!probed || !s.watch.Of(*c) || answered(s.watch, w, *c)) {
		s.endWatch()
	}
	if s.watch == nil && probed && awaitsAnswer(w, *c) {
		watch, watching := l.prober.New(ctx, w.ID, *c, func() { l.queue.Add(w.ID) })
		s.watch = watch
		l.wg.Go(func() { guard.Run("probing an application", func() { watch.Run(watching) }) })
	}
	if s.watch == nil {
		return
	}
	found := s.watch.Found()
	o.Readiness = &found
	w.HomeCtx.Found = workspace.FoundPort{}
	if spec, err := l.launch(w); err == nil {
		o.Image, o.Port = spec.Image, spec.Port
	}
}

// awaitsAnswer reports whether the first answer of the container's application matters: it ends a start and the wait
// for a health check, and what a container that does not answer waits for.
func awaitsAnswer(w workspace.Workspace, c workspace.Container) bool {
	return w.Phase != workspace.PhaseRunning || c.Health == workspace.HealthStarting ||
		w.Waiting != nil && w.Waiting.Reason == workspace.WaitNotAnswering
}

// answered reports whether all that the watch has found out is in the row.
func answered(watch *readiness.Watch, w workspace.Workspace, c workspace.Container) bool {
	found := watch.Found()
	return !awaitsAnswer(w, c) && (found.Answered || found.Instead != 0 && found.Instead == w.HomeCtx.Found.Port)
}

// endWatch ends the probes of a container.
func (s *state) endWatch() {
	if s.watch != nil {
		s.watch.Cancel()
		s.watch = nil
	}
}

// atFoundPort starts a container at the port where its application was found (SPEC 7).
func atFoundPort(launch func(workspace.Workspace) (backend.StartSpec, error)) func(workspace.Workspace) (backend.StartSpec, error) {
	return func(w workspace.Workspace) (backend.StartSpec, error) {
		spec, err := launch(w)
		spec.Port = w.HomeCtx.Found.StartPort(spec.Image, spec.Port)
		return spec, err
	}
}
