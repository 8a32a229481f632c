package pages

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Limit is the page that shows which limit keeps a workspace from running.
type Limit struct {
	// Name is the requested workspace, and Back its address. Home is the list of all workspaces.
	Name, Back, Home string
	// Global says that the limit Max is for the whole installation, not for one user.
	Global bool
	Max    int
	// Running are the user's own workspaces that count against the limit. SwapURL accepts the form that puts one of
	// them to sleep and opens the requested one.
	Running []problem.RunningWorkspace
	SwapURL string
	// Origin is the origin of Back. It is empty if Back has the origin of the page itself.
	Origin string
}

// Title is the heading.
func (p *Limit) Title() words.Text {
	return words.Of("page.limit.title", words.Values{"Name": p.Name})
}

// ShowLimit shows the page, with a button for each running workspace that puts it to sleep.
func ShowLimit(w http.ResponseWriter, r *http.Request, p *Limit) error {
	return layout.Show(w, r, http.StatusBadGateway, web.Page{
		Title: p.Title(), Content: "limit.html", Data: p, Leads: p.Origin,
	})
}

// idleText tells how long a workspace has been unused. Activity is recorded up to a minute late, so a workspace that
// has been unused for less than two minutes is shown as in use.
func idleText(w problem.RunningWorkspace) words.Text {
	minutes, hours := w.Idle/60, w.Idle/3600
	switch {
	case w.NeverUsed && minutes < 2:
		return words.Of("page.limit.just_started", nil) // a first use may not be recorded yet
	case w.NeverUsed:
		return words.Of("page.limit.never_used", nil)
	case minutes < 2:
		return words.Of("page.limit.in_use", nil)
	case hours < 2:
		return words.Of("page.limit.idle_minutes", words.Values{"Minutes": minutes})
	}
	return words.Of("page.limit.idle_hours", words.Values{"Hours": hours})
}

// busyTexts are the keys of the texts about work in a workspace, by the reason why the work keeps the workspace awake.
var busyTexts = map[string]string{
	workspace.BusyCommand:    "page.limit.busy.terminal",
	workspace.BusyTerminal:   "page.limit.busy.terminal",
	workspace.BusyBackground: "page.limit.busy.background",
	workspace.BusyKernel:     "page.limit.busy.notebook",
	workspace.BusyNoAnswer:   "page.limit.busy.no_answer",
}

// doingText describes the operation of a running workspace, or else the work in it. The text is empty if neither is
// known.
func doingText(w problem.RunningWorkspace) words.Text {
	if w.Operation != workspace.OpNone {
		if key := "page.limit.operation." + string(w.Operation); words.Has(key) {
			return words.Of(key, nil)
		}
		return words.Of("page.limit.on_its_way", nil)
	}
	if w.Busy == nil {
		return nil
	}
	key, ok := busyTexts[w.Busy.Reason]
	if !ok {
		key = "page.limit.busy.unknown"
	}
	what := words.Of(key, nil)
	if detail := w.Busy.Detail; detail != "" {
		return words.Of("page.limit.doing", words.Values{"What": what, "Detail": detail})
	}
	return what
}
