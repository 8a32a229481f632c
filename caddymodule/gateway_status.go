package codehub

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// longestPoll is the longest that a question for the status waits for a change.
const longestPoll = 60 * time.Second

// stage is how far a workspace is on its way up, as the wake page shows it.
type stage string

const (
	stageQueued    stage = "queued"    // waits for its turn
	stageRestoring stage = "restoring" // its home is restored, or made
	stageStarting  stage = "starting"  // its container starts
	stageAnswering stage = "answering" // its application has not answered yet
	stageReady     stage = "ready"
	stageAsleep    stage = "asleep" // nothing brings it up
	stageLimit     stage = "limit"
	stageFailed    stage = "failed"
)

// wakeStatus is what .codehub/status answers.
type wakeStatus struct {
	Phase     workspace.Phase     `json:"phase"`
	Operation workspace.Operation `json:"operation"`
	Ready     bool                `json:"ready"`
	// Waking says that something is under way to make the workspace ready.
	Waking bool   `json:"waking"`
	Stage  stage  `json:"stage"`
	Why    string `json:"message,omitempty"`
	// Tag changes whenever anything above does; a poll that sends it back as `seen`
	// misses no change.
	Tag string `json:"tag"`
	// Elapsed is the time since waking began, in seconds.
	Elapsed int `json:"elapsed"`
	// Limit lists the workspaces that run, when no further one may.
	Limit []runningWorkspace `json:"limit,omitempty"`
}

// runningWorkspace is one that takes up a place.
type runningWorkspace struct {
	ID   workspace.ID `json:"id"`
	Name string       `json:"name"`
	URL  string       `json:"url"`
	// Idle is the time since it was last known to be used, in seconds. What happened
	// within the last minute or so may not be known yet.
	Idle int64 `json:"idle_seconds"`
}

// status answers /.codehub/status: how far the workspace is. With ?wait=<seconds>
// it answers when that changes. Asking is no activity and wakes nothing, but keeps
// a waking that somebody has asked for going: the wake page asks.
func (g *Gateway) status(w http.ResponseWriter, r *http.Request, v visit) error {
	if r.Method != http.MethodGet {
		problemMethod.with("Use GET.").write(w)
		return nil
	}
	query := r.URL.Query()
	wait, _ := strconv.Atoi(query.Get("wait"))
	timer := time.NewTimer(min(time.Duration(max(wait, 0))*time.Second, longestPoll))
	defer timer.Stop()
	seen := query.Get("seen")
	for {
		st := v.entry.State()
		if !st.Exists() {
			return g.notFound(w, r, v)
		}
		k := g.waking.find(v.id, g.wakeTimeout)
		if k == nil && st.Route.Desired == workspace.DesiredRunning && !st.Ready() && !failed(st) {
			// It comes up by itself; somebody must see that it answers.
			k = g.waking.ask(v.id, v.entry, g.wakeTimeout, false)
		}
		s := g.describe(r.Context(), r, v, st, k)
		over := make(chan struct{})
		if k != nil && s.Waking {
			over = k.over
		}
		done := wait <= 0 || s.Ready || !s.Waking || seen != "" && seen != s.Tag
		if seen == "" {
			seen = s.Tag
		}
		if !done {
			g.waking.polls.Add(1)
			again := false
			select {
			case <-st.Changed():
				again = true
			case <-over:
				again = true
			case <-timer.C:
			case <-g.deps.stopping:
			case <-r.Context().Done():
			}
			g.waking.polls.Add(-1)
			if r.Context().Err() != nil {
				return clientGone(r)
			}
			if again {
				continue
			}
		}
		h := w.Header()
		h.Set("Content-Type", "application/json")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		return json.NewEncoder(w).Encode(s)
	}
}

// describe says how far the workspace is.
func (g *Gateway) describe(ctx context.Context, r *http.Request, v visit, st *route.State, k *waker) wakeStatus {
	s := wakeStatus{Phase: st.Route.Phase, Operation: st.Route.Operation, Ready: st.Ready()}
	var refused *service.LimitError
	if k != nil {
		refused = k.refusal()
		s.Elapsed = int(time.Since(k.began).Seconds())
	}
	switch {
	case s.Ready:
		s.Stage = stageReady
	case failed(st):
		s.Stage, s.Why = stageFailed, fmt.Sprintf("%s: %s", st.Route.ErrorReason, st.Route.ErrorMessage)
	case refused != nil:
		s.Stage, s.Why = stageLimit, problemOf(refused).Detail
		s.Limit = g.running(ctx, r, v)
	case k == nil && st.Route.Desired != workspace.DesiredRunning:
		s.Stage = stageAsleep
	default:
		s.Waking, s.Stage = true, stageOf(st)
	}
	s.Tag = fmt.Sprintf("%s.%s.%s", s.Stage, s.Phase, s.Operation)
	return s
}

// stageOf is the stage of a workspace that is being woken.
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

// running lists the user's workspaces that take up a place.
func (g *Gateway) running(ctx context.Context, r *http.Request, v visit) []runningWorkspace {
	ws, err := g.deps.wishes.Running(ctx, v.entry.State().Route.OwnerID)
	if err != nil {
		return nil // the refusal itself is what matters
	}
	list := make([]runningWorkspace, 0, len(ws))
	for _, x := range ws {
		used := later(x.LastAccessAt, x.PhaseChangedAt)
		item := runningWorkspace{ID: x.ID, Name: x.Name, URL: g.address(r, v, x.ID)}
		if !used.IsZero() {
			item.Idle = int64(max(time.Since(used), 0).Seconds())
		}
		list = append(list, item)
	}
	return list
}

// address is where another workspace is reached, in the way that this one is.
func (g *Gateway) address(r *http.Request, v visit, id workspace.ID) string {
	if !v.host {
		return pathPrefix + string(id) + "/"
	}
	host := hostPrefix + string(id) + g.domain
	if _, port, err := net.SplitHostPort(r.Host); err == nil && port != "" {
		host = net.JoinHostPort(host, port)
	}
	return scheme(r) + "://" + host + "/"
}
