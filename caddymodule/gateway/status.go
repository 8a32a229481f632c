package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/activator"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// maxPoll is the longest that a request for the status waits for a change.
const maxPoll = 60 * time.Second

// pollCount is the number of status requests that wait for a change.
type pollCount struct{ n atomic.Int64 }

// stage is how far a workspace is on its way up, as the wake page shows it.
type stage string

const (
	stageQueued    stage = "queued"    // waits for its turn
	stageRestoring stage = "restoring" // its home is restored or created
	stageStarting  stage = "starting"  // its container starts
	stageAnswering stage = "answering" // its application has not answered yet
	stageReady     stage = "ready"
	stageAsleep    stage = "asleep" // no wake-up is in progress
	stageLimit     stage = "limit"
	stageFailed    stage = "failed"
)

// status is the answer of .codehub/status.
type status struct {
	Phase     workspace.Phase     `json:"phase"`
	Operation workspace.Operation `json:"operation"`
	Ready     bool                `json:"ready"`
	// Waking says that the workspace is on its way up.
	Waking bool   `json:"waking"`
	Stage  stage  `json:"stage"`
	Why    string `json:"message,omitempty"`
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

// status answers /.codehub/status: how far the workspace is. With ?wait=<seconds> it
// answers when that changes. Polling is not activity and never wakes; it only extends
// a wake-up in progress, because the wake page polls.
func (g *Gateway) status(req *request) error {
	r := req.r
	if r.Method != http.MethodGet {
		web.ProblemMethod.With("Use GET.").Write(req.w)
		return nil
	}
	query := r.URL.Query()
	wait, _ := strconv.Atoi(query.Get("wait"))
	timer := time.NewTimer(min(time.Duration(max(wait, 0))*time.Second, maxPoll))
	defer timer.Stop()
	seen := query.Get("seen")
	for {
		st := req.entry.State()
		if !st.Exists() {
			return g.answer(req, Decide(State{Identity: SignedIn}, req.kind), nil, nil)
		}
		s, changed := g.describe(req, st)
		if wait <= 0 || s.Ready || !s.Waking || seen != "" && seen != s.Tag {
			return sendStatus(req.w, s)
		}
		seen = s.Tag
		again, err := g.awaitChange(r, st, changed, timer.C)
		if err != nil {
			return err
		}
		if !again {
			return sendStatus(req.w, s)
		}
	}
}

// awaitChange waits until the status may have changed. It reports false when the
// request has waited long enough.
func (g *Gateway) awaitChange(r *http.Request, st *route.State, ended <-chan struct{}, timeout <-chan time.Time) (bool, error) {
	g.polls.n.Add(1)
	defer g.polls.n.Add(-1)
	select {
	case <-st.Changed():
		return true, nil
	case <-ended:
		return true, nil
	case <-timeout:
	case <-g.Stopping:
	case <-r.Context().Done():
		return false, ErrClientGone
	}
	return false, nil
}

func sendStatus(w http.ResponseWriter, s status) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return json.NewEncoder(w).Encode(s)
}

// describe returns how far the workspace is in the state st, and a channel that is
// closed when the wake-up that brings it up ends.
func (g *Gateway) describe(req *request, st *route.State) (s status, ended <-chan struct{}) {
	wakeUp := g.Activator.InProgress(req.target.ID, g.WakeTimeout)
	if wakeUp == nil && st.Route.Desired == workspace.DesiredRunning && !st.Ready() && !st.Failed() {
		// It comes up without a request of ours: only the probe of a wake-up finds out
		// when it answers.
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
		s.Waking, s.Stage = true, stageOf(st)
		if wakeUp != nil {
			ended = wakeUp.Done()
		}
	}
	s.Tag = fmt.Sprintf("%s.%s.%s", s.Stage, s.Phase, s.Operation)
	return s, ended
}

func refusalOf(w *activator.WakeUp) *service.LimitError {
	if w == nil {
		return nil
	}
	return w.Refusal()
}

// stageOf returns the stage of a workspace that is on its way up.
func stageOf(st *route.State) stage {
	switch st.Route.Operation {
	case workspace.OpRestoring, workspace.OpProvisioning, workspace.OpCreateEmptyArchive:
		return stageRestoring
	case workspace.OpStarting:
		return stageStarting
	}
	if st.Running() && st.Route.Operation == workspace.OpNone {
		return stageAnswering
	}
	return stageQueued
}

// running lists the user's workspaces that count against the limits.
func (g *Gateway) running(req *request) []runningWorkspace {
	all, err := g.Service.Running(req.r.Context(), req.user)
	if err != nil {
		return nil // the refusal itself is what matters
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

// address returns where another workspace is reached, in the same way as the one of
// the request.
func (g *Gateway) address(req *request, id workspace.ID) string {
	if req.target.Host {
		return g.Site.WorkspaceOrigin(req.r, id) + "/"
	}
	return web.WorkspacePath(id)
}
