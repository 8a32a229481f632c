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

// stage is how far a wake-up has come, as the wake page shows it.
type stage string

const (
	stageQueued    stage = "queued"    // waits for the controller, or for what status.Waiting says
	stageRestoring stage = "restoring" // its home is restored or created
	stageStarting  stage = "starting"  // its container starts
	stageAnswering stage = "answering" // its application has not answered yet
	stageReady     stage = "ready"
	stageAsleep    stage = "asleep" // no wake-up is in progress
	stageLimit     stage = "limit"
	stageFailed    stage = "failed"
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
	// Tag changes whenever one of the above does. A poll that sends it back as `seen`
	// misses no change.
	Tag string `json:"tag"`
	// Elapsed is the age of the wake-up in seconds.
	Elapsed int `json:"elapsed"`
	// Limit lists the running workspaces when no further one may run.
	Limit []runningWorkspace `json:"limit,omitempty"`
}

// runningWorkspace is a workspace that counts against the limits.
type runningWorkspace struct {
	ID   workspace.ID `json:"id"`
	Name string       `json:"name"`
	URL  string       `json:"url"`
	// Idle is the time since the last recorded use, in seconds. Use within the last
	// minute may not be recorded yet.
	Idle int64 `json:"idle_seconds"`
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
	if wakeUp != nil {
		s.Elapsed = int(time.Since(wakeUp.Began()).Seconds())
	}
	switch {
	case s.Ready:
		s.Stage = stageReady
	case st.Failed():
		s.Stage, s.Why = stageFailed, failureText(st)
	case refusal != nil:
		s.Stage, s.Why = stageLimit, web.ProblemOf(refusal).Detail
		s.Limit = g.running(req)
	case wakeUp == nil && st.Route.Desired != workspace.DesiredRunning:
		s.Stage = stageAsleep
	default:
		s.Waking, s.Stage, s.Waiting = true, stageOf(st), waitingFor(st)
		if wakeUp != nil {
			ended = wakeUp.Done()
		}
	}
	s.Tag = fmt.Sprintf("%s.%s.%s", s.Stage, s.Phase, s.Operation)
	if s.Waiting != nil {
		sum := fnv.New32a()
		_, _ = io.WriteString(sum, s.Waiting.Reason+"\n"+s.Waiting.Message)
		s.Tag = fmt.Sprintf("%s.%08x", s.Tag, sum.Sum32())
	}
	return s, ended
}

// refusalOf returns the limit that ended a wake-up, or nil; the wake-up may be nil.
func refusalOf(w *activator.WakeUp) *service.LimitError {
	if w == nil {
		return nil
	}
	return w.Refusal()
}

// stageOf returns the stage of a workspace that is starting and not ready.
func stageOf(st *route.State) stage {
	switch st.Route.Operation {
	case workspace.OpRestoring, workspace.OpProvisioning, workspace.OpCreateEmptyArchive:
		return stageRestoring
	case workspace.OpStarting:
		return stageStarting
	}
	if st.Route.Phase == workspace.PhaseRunning && st.Route.Operation == workspace.OpNone {
		return stageAnswering
	}
	return stageQueued
}

// running lists the user's workspaces that count against the limits, the longest
// unused first. If PostgreSQL does not answer, the list is empty.
func (g *Gateway) running(req *request) []runningWorkspace {
	all, err := g.Service.Running(req.r.Context(), req.user)
	if err != nil {
		return nil // the list is an extra: the limit is shown without it
	}
	list := make([]runningWorkspace, 0, len(all))
	for _, w := range all {
		item := runningWorkspace{ID: w.ID, Name: w.Name, URL: g.address(req, w.ID)}
		used := w.LastAccessAt
		if w.PhaseChangedAt.After(used) {
			used = w.PhaseChangedAt
		}
		if !used.IsZero() {
			item.Idle = int64(max(time.Since(used), 0).Seconds())
		}
		list = append(list, item)
	}
	return list
}

// address returns the URL of another workspace, by host or by path as in the request.
func (g *Gateway) address(req *request, id workspace.ID) string {
	if req.target.Host {
		return g.Site.WorkspaceOrigin(req.r, id) + "/"
	}
	return web.WorkspacePath(id)
}
