package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/version"
)

// readyWait is how long a readiness probe waits for the process to become ready. It can be short, because probes are
// repeated anyway.
const readyWait = 100 * time.Millisecond

// healthBody is the answer of health and readiness.
type healthBody struct {
	Status string `json:"status"`
	// Detail says why the status is outdated.
	Detail string `json:"detail,omitempty"`
}

// health answers 200 as long as this process serves requests. It answers 503 once its release is too old, because then
// only a newer program helps.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) error {
	if older := h.Refused(); older != nil {
		w.Header().Set("Retry-After", problem.RetryUnavailable)
		return sendJSON(w, http.StatusServiceUnavailable, healthBody{"outdated", older.Error()})
	}
	return sendJSON(w, http.StatusOK, healthBody{Status: "ok"})
}

// readiness answers 200 once this process can serve requests for workspaces and users. It answers 503 before that, and
// when the process is about to exit. In between, it answers like health, even during an outage of a server, because
// this process still reaches running workspaces.
func (h *Handler) readiness(w http.ResponseWriter, r *http.Request) error {
	if h.Refused() != nil {
		return h.health(w, r)
	}
	if h.Exiting() {
		return sendJSON(w, http.StatusServiceUnavailable, healthBody{Status: "stopping"})
	}
	ctx, cancel := context.WithTimeout(r.Context(), readyWait)
	defer cancel()
	if h.WaitReady(ctx) != nil {
		return sendJSON(w, http.StatusServiceUnavailable, healthBody{Status: "starting"})
	}
	return h.health(w, r)
}

// coordinatorHealth tells administrators whether this process leads (SPEC 5) and, if there are several shards, which
// ones it leads. It also reports problems to fix (SPEC 2). Other people learn only whether it leads and whether there
// are problems, because the names of machines and servers are kept secret.
func (h *Handler) coordinatorHealth(w http.ResponseWriter, r *http.Request) error {
	now, at := h.Health(), h.Site.Parse(r)
	ctx, cancel := context.WithTimeout(r.Context(), h.DatabaseTimeout)
	defer cancel()
	grant, err := h.sessionGrant(r.WithContext(ctx), &at)
	if errors.Is(err, auth.ErrBadToken) {
		problem.Of(err).Write(w, r)
		return nil
	}
	if err != nil || !grant.Admin() {
		status := "ok"
		if len(now.Problems) > 0 {
			status = "problems"
		}
		return sendJSON(w, http.StatusOK, struct {
			Status   string `json:"status"`
			IsLeader bool   `json:"is_leader"`
		}{status, now.IsLeader})
	}
	var led *[]int
	count := 0
	if now.Shards > 1 {
		led, count = &now.Led, now.Shards
		if now.Led == nil {
			led = &[]int{}
		}
	}
	return sendJSON(w, http.StatusOK, struct {
		IsLeader bool     `json:"is_leader"`
		NodeID   string   `json:"node_id"`
		Version  string   `json:"version"`
		Uptime   int64    `json:"uptime_seconds"`
		Led      *[]int   `json:"shards,omitempty"`
		Shards   int      `json:"shard_count,omitempty"`
		Problems []string `json:"problems"`
	}{now.IsLeader, now.NodeID, version.String(), int64(now.Uptime / time.Second), led, count, append([]string{}, now.Problems...)})
}
