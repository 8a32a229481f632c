package reconcile

import (
	"context"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/readiness"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// addReadiness adds the results of the controller's own probes of w's container. The controller probes the container
// from its start until its application has answered. The answer counts only for this container.
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
	if s.watch == nil && !(probed && awaitsAnswer(w, *c)) {
		return
	}
	if spec, err := l.launch(w); err == nil {
		o.Image, o.Port = spec.Image, spec.Port
	}
	if s.watch == nil {
		watch, watching := l.prober.New(ctx, w.ID, *c, w.HomeCtx.Found.Known(*c, o.Image, o.Port), func() { l.queue.Add(w.ID) })
		s.watch = watch
		l.wg.Go(func() { guard.Run("probing an application", func() { watch.Run(watching) }) })
	}
	found := s.watch.Found()
	o.Readiness = &found
}

// awaitsAnswer reports whether the first answer of the container's application matters. The answer ends a start, the
// wait for a health check, the state in which the application does not answer, and the use of another port.
func awaitsAnswer(w workspace.Workspace, c workspace.Container) bool {
	return w.Phase != workspace.PhaseRunning || c.Health == workspace.HealthStarting || w.HomeCtx.Found.In(c) ||
		w.Waiting != nil && w.Waiting.Reason == workspace.WaitNotAnswering
}

// answered reports whether the watch has seen an answer, and the row shows the consequences already.
func answered(watch *readiness.Watch, w workspace.Workspace, c workspace.Container) bool {
	return !awaitsAnswer(w, c) && watch.Found().Answered
}

// endWatch ends the probes of a container.
func (s *state) endWatch() {
	if s.watch != nil {
		s.watch.Cancel()
		s.watch = nil
	}
}
