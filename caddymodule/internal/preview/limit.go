package preview

import (
	"net/http"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// limitPages returns the limit page without running workspaces, with one or two, and with every kind of them. It also
// returns the pages of a workspace that sleeps.
func limitPages(c states) []*entry {
	asleep := wake{phase: workspace.PhaseStandby, op: workspace.OpNone}.state()
	asleep.Route.Desired = workspace.DesiredStandby
	refused := progress.Of(asleep, nil, &service.LimitError{Scope: "user", Limit: 2})
	var every []problem.RunningWorkspace
	run := func(r problem.RunningWorkspace) {
		r.ID, r.URL = id(len(every)), "/"
		every = append(every, r)
	}
	run(problem.RunningWorkspace{Name: "notes", Operation: workspace.OpNone, Idle: 30})
	run(problem.RunningWorkspace{Name: "thesis", Operation: workspace.OpNone, Idle: 50 * 60})
	run(problem.RunningWorkspace{Name: longName, Operation: workspace.OpNone, Idle: 30 * 3600})
	for _, reason := range append(c.busy, unknownReason) {
		busy := &workspace.Busy{Reason: reason, Detail: "npm install", Since: time.Now()}
		run(problem.RunningWorkspace{Name: reason, Operation: workspace.OpNone, Busy: busy})
	}
	for _, op := range c.operations {
		if op != workspace.OpNone {
			run(problem.RunningWorkspace{Name: string(op), Operation: op})
		}
	}
	limit := func(named string, global bool, running []problem.RunningWorkspace) *entry {
		return &entry{Group: "limit", Name: named, Covers: []string{"stage " + string(refused.Stage)},
			show: func(w http.ResponseWriter, r *http.Request) error {
				return pages.ShowLimit(w, r, &pages.Limit{
					Name: name, Back: "/", Home: "/", Global: global, Max: max(len(running), 1),
					Running: running, SwapURL: root + "message/Busy",
				})
			}}
	}
	sleeps := func(named string, status int, why string) *entry {
		return &entry{Group: "limit", Name: named, Covers: []string{"stage " + string(progress.Of(asleep, nil, nil).Stage)},
			show: func(w http.ResponseWriter, r *http.Request) error {
				return pages.ShowAsleep(w, r, status, &pages.Asleep{Name: name, Back: "/", Home: "/", WakeURL: wakePath, Why: words.Of(why, nil)})
			}}
	}
	return []*entry{
		limit("of-the-user", false, every[:2]), limit("of-the-user-everything", false, every),
		limit("of-the-installation", true, every[:1]), limit("of-the-installation-none-is-yours", true, nil),
		sleeps("asleep", http.StatusServiceUnavailable, "page.asleep.text"), sleeps("asleep-put-to-sleep", http.StatusServiceUnavailable, "page.asleep.put_to_sleep"),
		sleeps("asleep-form", http.StatusConflict, "page.asleep.form"),
	}
}
