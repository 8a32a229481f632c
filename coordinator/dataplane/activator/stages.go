package activator

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// stages records how long a wake-up has spent in each stage.
type stages struct {
	now   metrics.Stage
	since time.Time
	took  [metrics.Stages]time.Duration
}

// enter records that the wake-up enters a stage at the time at.
func (s *stages) enter(stage metrics.Stage, at time.Time) {
	s.took[s.now] += at.Sub(s.since)
	s.now, s.since = stage, at
}

// stageOf returns the stage of a workspace that is not ready.
func stageOf(st *route.State) metrics.Stage {
	r := &st.Route
	switch {
	case st.Dozes():
		return metrics.Waiting
	case st.Running():
		return metrics.Answering
	case r.Desired != workspace.DesiredRunning:
		return metrics.Waiting
	case r.Waiting != nil && r.Waiting.Reason == workspace.WaitPullingImage:
		return metrics.Pulling
	case r.Waiting != nil:
		return metrics.Waiting
	}
	switch r.Operation {
	case workspace.OpRestoring:
		return metrics.Restoring
	case workspace.OpProvisioning, workspace.OpStarting:
		return metrics.Starting
	}
	return metrics.Waiting
}

// ended returns the metrics of a wake-up that ends now.
func (p *WakeProgress) ended(by metrics.Client, how metrics.WakeEnd, now time.Time) *metrics.WakeUp {
	p.stages.enter(p.stages.now, now)
	return &metrics.WakeUp{Client: by, From: p.From, End: how, Total: now.Sub(p.Began), Stages: p.stages.took}
}
