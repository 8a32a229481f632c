package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/workspace"
)

// maxPoll is the longest that a status request waits for a change.
const maxPoll = 60 * time.Second

// status answers GET /.codehub/status with the progress of the workspace. With ?wait=<seconds> it waits at most this
// long until the progress differs from ?seen=<tag>, or without ?seen, from the progress at the time of the request.
// Polling is not activity and never wakes; it only extends a wake-up in progress, because the wake page polls.
func (g *Gateway) status(req *request) error {
	if req.r.Method != http.MethodGet {
		problem.Method.With("problem.use_get", nil).Write(req.w, req.r)
		return nil
	}
	seen := req.r.URL.Query().Get("seen")
	return g.poll(req, func(st *route.State) (any, bool, <-chan struct{}) {
		s, ended := g.describe(req, st)
		changed := s.Ready || !s.Waking || seen != "" && seen != s.Tag
		seen = s.Tag
		return s, changed, ended
	})
}

// poll answers a page with what look returns about the newest state. It answers as soon as look reports a change, and
// after ?wait=<seconds> at the latest. What look returns may also change while the state stays the same. For this, look
// returns a channel that is closed at such a change, or nil if there can be none.
func (g *Gateway) poll(req *request, look func(*route.State) (answer any, changed bool, ended <-chan struct{})) error {
	wait, _ := strconv.Atoi(req.r.URL.Query().Get("wait"))
	timer := time.NewTimer(min(time.Duration(max(wait, 0))*time.Second, maxPoll))
	defer timer.Stop()
	for {
		if isClosed(req.grant.Ended()) {
			return g.run(req, decision.Facts{})
		}
		st := req.entry.State()
		if !st.Exists() {
			return g.answer(req, decision.Decide(decision.Facts{Identity: decision.SignedIn}, req.kind), nil, nil)
		}
		answer, changed, ended := look(st)
		if wait <= 0 || changed {
			return sendJSON(req.w, answer)
		}
		again, err := g.awaitChange(req, st, ended, timer.C)
		if err != nil {
			return err
		}
		if !again {
			return sendJSON(req.w, answer)
		}
	}
}

// describe returns the progress of the workspace in the state st, and a channel that is closed
// when its wake-up ends. The channel is nil when no wake-up is in progress. It extends a
// wake-up in progress and never starts one that sets the desired state.
func (g *Gateway) describe(req *request, st *route.State) (s progress.Status, ended <-chan struct{}) {
	wakeUp := g.Activator.InProgress(req.at.ID, g.WakeTimeout)
	if wakeUp == nil && st.Route.Desired == workspace.DesiredRunning && !st.Ready() && !st.Dozes() && !st.Failed() {
		// The workspace was started in another way, such as through the API. Only a wake-up probes the application, so
		// join one.
		wakeUp = g.Activator.Join(req.r.Context(), req.at.ID, req.entry, g.WakeTimeout, clientOf(req.kind))
	}
	s = progress.At(st, wakeUp)
	if s.Stage == progress.StageLimit {
		s.Limit = g.running(req)
	}
	if s.Waking && wakeUp != nil {
		ended = wakeUp.Done()
	}
	return s, ended
}

// awaitChange waits until the status may have changed. It reports false when the
// request has waited long enough.
func (g *Gateway) awaitChange(
	req *request, st *route.State, ended <-chan struct{}, timeout <-chan time.Time,
) (bool, error) {
	g.polls.Add(1)
	defer g.polls.Add(-1)
	select {
	case <-st.Changed():
		return true, nil
	case <-req.grant.Ended():
		return true, nil
	case <-ended:
		// A stopped activator ends every wake-up immediately: there is nothing to wait for.
		return !isClosed(g.Activator.Stopped()), nil
	case <-timeout:
	case <-g.Stopping:
	case <-req.r.Context().Done():
		return false, ErrClientGone
	}
	return false, nil
}

// isClosed reports whether the channel is closed; nil is not.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// sendJSON sends a state to a page. The answer must not be cached, because the page compares the state's tag.
func sendJSON(w http.ResponseWriter, s any) error {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	return json.NewEncoder(w).Encode(s)
}

// running lists the user's workspaces that count against the limits, the longest
// unused first. If PostgreSQL does not answer, the list is empty.
func (g *Gateway) running(req *request) []problem.RunningWorkspace {
	all, err := g.Service.Running(req.r.Context(), req.user)
	if err != nil {
		return nil // the list is an extra: the limit is shown without it
	}
	return problem.RunningList(all, func(id workspace.ID) string { return g.address(req, id) })
}

// address returns the URL of another workspace. If the request came to a workspace's own host, the URL is on the other
// workspace's own host. Otherwise it has the form that the setting workspace_url says.
func (g *Gateway) address(req *request, id workspace.ID) string {
	if req.at.OwnHost {
		return req.at.WorkspaceOrigin(id) + "/"
	}
	return req.at.WorkspaceURL(id)
}
