package preview

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// printEvery is how often a workspace of the preview prints a line.
const printEvery = 2 * time.Second

// running returns the workspace of a request, or answers that it does not run.
func (b *board) running(w http.ResponseWriter, r *http.Request) (row workspace.Workspace, ok bool) {
	row = b.of(r)
	if row.Phase != workspace.PhaseRunning {
		problem.NotRunning.With("problem.not_running", nil).Write(w, r)
		return row, false
	}
	return row, true
}

// logs answers with lines that a server might print. With follow it adds further lines.
func (p *Preview) logs(w http.ResponseWriter, r *http.Request) {
	if _, ok := p.boardOf(r).running(w, r); !ok {
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	line := func(at time.Time, n int) {
		fmt.Fprintf(w, "[%s] info  GET /static/%d.js 200 %d ms\n", at.UTC().Format(time.TimeOnly), n, 3+n%17)
	}
	lines, err := strconv.Atoi(r.URL.Query().Get("lines"))
	if err != nil {
		lines = 200
	}
	for n := range lines {
		line(time.Now().Add(time.Duration(n-lines)*printEvery), n)
	}
	if r.URL.Query().Get("follow") != "true" {
		return
	}
	ticker := time.NewTicker(printEvery)
	defer ticker.Stop()
	for n := lines; http.NewResponseController(w).Flush() == nil; n++ {
		select {
		case <-r.Context().Done():
			return
		case at := <-ticker.C:
			line(at, n)
		}
	}
}

// stats answers with figures that rise and fall.
func (p *Preview) stats(w http.ResponseWriter, r *http.Request) {
	row, ok := p.boardOf(r).running(w, r)
	if !ok {
		return
	}
	now := time.Now()
	seconds := float64(now.UnixMilli()%(24*3600*1000)) / 1000
	wave := math.Sin(seconds / 20)
	s := backend.Stats{
		At: now, CPU: time.Duration((seconds*0.6 - 12*math.Cos(seconds/20)) * 0.8 * float64(time.Second)), Cores: 2,
		Memory: int64((700 + 250*wave) * (1 << 20)), MemoryLimit: 2 << 30, Processes: 21 + int(4*wave),
		Ports: []int{3000, 5173, 8080},
	}
	sendJSON(w, http.StatusOK, v1.StatsOf(s, row.Home, 120<<30, 8080, func(port int) string {
		return fmt.Sprintf("http://%d--ws-%s.localhost/", port, row.ID)
	}))
}
