package api

import (
	"context"
	"net/http"
	"time"
)

// readyPatience is how long the answer about readiness waits for it: a probe asks again.
const readyPatience = 100 * time.Millisecond

// health answers 200 as long as this process serves requests.
func (h *Handler) health(w http.ResponseWriter, _ *http.Request) error {
	return sendJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
}

// readiness answers 200 once this process can serve requests for workspaces and users, and 503
// before that. From then on it is as health is: while a server is away, running workspaces
// are still reached through this process.
func (h *Handler) readiness(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithTimeout(r.Context(), readyPatience)
	defer cancel()
	status, text := http.StatusOK, "ok"
	if h.WaitReady(ctx) != nil {
		status, text = http.StatusServiceUnavailable, "starting"
	}
	return sendJSON(w, status, struct {
		Status string `json:"status"`
	}{text})
}

// coordinatorHealth reports whether this process leads (SPEC 5), which shards when there
// are several, and what an administrator has to put right (SPEC 2).
func (h *Handler) coordinatorHealth(w http.ResponseWriter, _ *http.Request) error {
	now := h.Health()
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
		Uptime   int64    `json:"uptime_seconds"`
		Led      *[]int   `json:"shards,omitempty"`
		Shards   int      `json:"shard_count,omitempty"`
		Problems []string `json:"problems"`
	}{now.IsLeader, now.NodeID, int64(now.Uptime / time.Second), led, count, append([]string{}, now.Problems...)})
}
