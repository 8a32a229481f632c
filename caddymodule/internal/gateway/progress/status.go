// Package progress tells a waiting person how a workspace starts: its stages, the current one, and
// the reason why it waits. It also tells when a stage takes longer than usual, and what to do after
// a failure.
//
// It owns the stages, the choice of their texts from package words, and the JSON that the wake page polls. It sends
// nothing, wakes nothing, and must not reveal what only administrators may know.
package progress

import (
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/activator"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Status is the JSON answer of .codehub/status, which the wake page polls.
type Status struct {
	Phase     workspace.Phase     `json:"phase"`
	Operation workspace.Operation `json:"operation"`
	Ready     bool                `json:"ready"`
	// Waking says that the workspace is starting, so that polling is worthwhile.
	Waking bool   `json:"waking"`
	Stage  Stage  `json:"stage"`
	Why    string `json:"message,omitempty"`
	// Waiting is why the workspace makes no progress; absent while it does.
	Waiting *Waiting `json:"waiting,omitempty"`
	// Steps are the stages of this wake-up in order, while the workspace is starting.
	Steps []Step `json:"steps,omitempty"`
	// Tag changes whenever one of the above does. A poll that sends it back as `seen`
	// misses no change.
	Tag string `json:"tag"`
	// Elapsed is the age of the wake-up, and StageElapsed the age of the current stage, in seconds. A stage older than
	// Usual seconds takes longer than usual; then Late is the advice. Usual is 0 if Waiting is more specific.
	Elapsed      int        `json:"elapsed"`
	StageElapsed int        `json:"stage_elapsed"`
	Usual        int        `json:"usual_seconds"`
	Late         words.Text `json:"late,omitempty"`
	// Failure is the failure and its remedy, if the workspace has failed.
	Failure *Failure `json:"failure,omitempty"`
	// Limit lists the running workspaces when no further one may run.
	Limit []problem.RunningWorkspace `json:"limit,omitempty"`
}

// At returns the status of a workspace in the state st. Its wake-up w is nil when none
// is in progress. The list of running workspaces is left to the caller.
func At(st *route.State, w *activator.WakeUp) Status {
	if w == nil {
		return Of(st, nil, nil)
	}
	p := w.Progress()
	return Of(st, &p, w.Refusal())
}

// Of returns the status of a workspace in the state st. p is the progress of its wake-up, and refusal is the limit that
// forbids the wake-up. Both may be nil.
func Of(st *route.State, p *activator.WakeProgress, refusal *service.LimitError) Status {
	now := time.Now()
	asleep := p == nil && (st.Route.Desired != workspace.DesiredRunning || st.Dozes())
	if p == nil {
		p = &activator.WakeProgress{Began: now, From: st.Route.Phase, During: st.Route.Operation, StepBegan: now}
	}
	s := Status{
		Phase: st.Route.Phase, Operation: st.Route.Operation, Ready: st.Ready(),
		Elapsed: int(now.Sub(p.Began).Seconds()),
	}
	switch {
	case s.Ready:
		s.Stage = StageReady
	case st.Failed():
		s.Stage, s.Failure = StageFailed, FailureOf(st)
		s.Why = s.Failure.Detail
	case refusal != nil:
		s.Stage, s.Why = StageLimit, problem.Of(refusal).Detail
	case asleep:
		s.Stage = StageAsleep
	default:
		s.Waking, s.Waiting = true, WaitingFor(st)
		s.Steps, s.Stage = stepsAt(st, *p, s.Waiting)
		s.timed(p.StepBegan, now)
	}
	s.tag()
	return s
}

// timed sets how long the current stage has taken so far, and the advice if that is longer than usual.
func (s *Status) timed(began, now time.Time) {
	if s.Stage == StagePulling && !s.Waiting.Since.IsZero() {
		began = s.Waiting.Since
	}
	s.StageElapsed = int(max(now.Sub(began), 0).Seconds())
	if s.Waiting == nil || s.Stage == StagePulling { // otherwise the reason is known, and says what to do
		info := stageInfos[s.Stage]
		s.Usual, s.Late = int(info.usual.Seconds()), words.Of(info.late, nil)
	}
}

// IsLate reports whether the current stage takes longer than usual.
func (s *Status) IsLate() bool { return s.Usual > 0 && s.StageElapsed >= s.Usual }

// tag sets the tag from everything that a poll waits for.
func (s *Status) tag() {
	s.Tag = fmt.Sprintf("%s.%s.%s", s.Stage, s.Phase, s.Operation)
	if s.Waiting != nil {
		sum := fnv.New32a()
		_, _ = io.WriteString(sum, s.Waiting.Reason+"\n"+s.Waiting.Text.String())
		s.Tag = fmt.Sprintf("%s.%08x", s.Tag, sum.Sum32())
	}
	for _, item := range s.Steps {
		if item.State == stepNow && item.Amount != nil {
			sum := fnv.New32a()
			_, _ = io.WriteString(sum, item.Amount.String())
			s.Tag = fmt.Sprintf("%s.%08x", s.Tag, sum.Sum32())
		}
	}
}
