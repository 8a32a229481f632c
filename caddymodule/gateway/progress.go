package gateway

import (
	"fmt"
	"hash/fnv"
	"io"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// status is the JSON answer of .codehub/status, which the wake page polls.
type status struct {
	Phase     workspace.Phase     `json:"phase"`
	Operation workspace.Operation `json:"operation"`
	Ready     bool                `json:"ready"`
	// Waking says that the workspace is starting, so that polling is worthwhile.
	Waking bool   `json:"waking"`
	Stage  stage  `json:"stage"`
	Why    string `json:"message,omitempty"`
	// Waiting is why the workspace does not get on; absent while it does.
	Waiting *waiting `json:"waiting,omitempty"`
	// Steps are the stages of this wake-up in order, while the workspace is starting.
	Steps []step `json:"steps,omitempty"`
	// Tag changes whenever one of the above does. A poll that sends it back as `seen`
	// misses no change.
	Tag string `json:"tag"`
	// Elapsed is the age of the wake-up, and StageElapsed that of the present stage, in
	// seconds. A stage that is older than Usual seconds takes longer than usual; then Late
	// says what to do. Usual is 0 where Waiting says more.
	Elapsed      int       `json:"elapsed"`
	StageElapsed int       `json:"stage_elapsed"`
	Usual        int       `json:"usual_seconds"`
	Late         *web.Text `json:"late,omitempty"`
	// Failure is what happened and what to do, when the workspace has failed.
	Failure *failure `json:"failure,omitempty"`
	// Limit lists the running workspaces when no further one may run.
	Limit []web.RunningWorkspace `json:"limit,omitempty"`
}

// failure is why a workspace cannot be opened, for its owner. Detail is a technical text.
type failure struct {
	Heading web.Text `json:"heading"`
	Remedy  web.Text `json:"remedy"`
	Detail  string   `json:"detail,omitempty"`
}

// describe returns the progress of the workspace in the state st, and a channel that
// is closed when its wake-up ends; the channel is nil when no wake-up is in progress.
// It extends a wake-up in progress and never starts one that sets the desired state.
func (g *Gateway) describe(req *request, st *route.State) (s status, ended <-chan struct{}) {
	wakeUp := g.Activator.InProgress(req.target.ID, g.WakeTimeout)
	if wakeUp == nil && st.Route.Desired == workspace.DesiredRunning && !st.Ready() && !st.Failed() {
		// It was started in another way, such as through the API. Only a wake-up probes
		// the application, so join one.
		wakeUp = g.Activator.Join(req.target.ID, req.entry, g.WakeTimeout)
	}
	s = status{Phase: st.Route.Phase, Operation: st.Route.Operation, Ready: st.Ready()}
	refusal := refusalOf(wakeUp)
	now := time.Now()
	p := activator.Progress{Began: now, From: st.Route.Phase, During: st.Route.Operation, StepBegan: now}
	if wakeUp != nil {
		p = wakeUp.Progress()
		s.Elapsed = int(now.Sub(p.Began).Seconds())
	}
	switch {
	case s.Ready:
		s.Stage = stageReady
	case st.Failed():
		s.Stage, s.Why, s.Failure = stageFailed, failureText(st), failureOf(st)
	case refusal != nil:
		s.Stage, s.Why = stageLimit, web.ProblemOf(refusal).Detail
		s.Limit = g.running(req)
	case wakeUp == nil && st.Route.Desired != workspace.DesiredRunning:
		s.Stage = stageAsleep
	default:
		s.Waking, s.Waiting = true, waitingFor(st)
		s.Steps, s.Stage = stepsAt(st, p, s.Waiting)
		s.timed(p.StepBegan, now)
		if wakeUp != nil {
			ended = wakeUp.Done()
		}
	}
	s.tag()
	return s, ended
}

// timed says for how long the present stage goes on, and what to do when that is long.
func (s *status) timed(began, now time.Time) {
	if s.Stage == stagePulling && !s.Waiting.Since.IsZero() {
		began = s.Waiting.Since
	}
	s.StageElapsed = int(max(now.Sub(began), 0).Seconds())
	if s.Waiting == nil || s.Stage == stagePulling { // otherwise the reason is known, and says what to do
		info := stageInfos[s.Stage]
		s.Usual, s.Late = int(info.usual.Seconds()), &info.late
	}
}

// IsLate reports whether the present stage takes longer than usual.
func (s *status) IsLate() bool { return s.Usual > 0 && s.StageElapsed >= s.Usual }

// tag sets the tag from everything that a poll waits for.
func (s *status) tag() {
	s.Tag = fmt.Sprintf("%s.%s.%s", s.Stage, s.Phase, s.Operation)
	if s.Waiting != nil {
		sum := fnv.New32a()
		_, _ = io.WriteString(sum, s.Waiting.Reason+"\n"+s.Waiting.En)
		s.Tag = fmt.Sprintf("%s.%08x", s.Tag, sum.Sum32())
	}
	for _, item := range s.Steps {
		if item.State == stepNow && item.Amount != nil {
			sum := fnv.New32a()
			_, _ = io.WriteString(sum, item.Amount.En)
			s.Tag = fmt.Sprintf("%s.%08x", s.Tag, sum.Sum32())
		}
	}
}

// refusalOf returns the limit that ended a wake-up, or nil; the wake-up may be nil.
func refusalOf(w *activator.WakeUp) *service.LimitError {
	if w == nil {
		return nil
	}
	return w.Refusal()
}

// running lists the user's workspaces that count against the limits, the longest
// unused first. If PostgreSQL does not answer, the list is empty.
func (g *Gateway) running(req *request) []web.RunningWorkspace {
	all, err := g.Service.Running(req.r.Context(), req.user)
	if err != nil {
		return nil // the list is an extra: the limit is shown without it
	}
	return web.RunningList(all, func(id workspace.ID) string { return g.address(req, id) })
}

// address returns the URL of another workspace, by host or by path as in the request.
func (g *Gateway) address(req *request, id workspace.ID) string {
	if req.target.Host {
		return g.Site.WorkspaceOrigin(req.r, id) + "/"
	}
	return web.WorkspacePath(id)
}

// failureOf returns what happened to a workspace in ERROR, and what to do.
func failureOf(st *route.State) *failure {
	m := failedMessage(st)
	return &failure{Heading: m.Heading, Remedy: m.Remedy, Detail: m.Detail}
}
