package pages

import (
	"fmt"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Limit is the page that shows which limit keeps a workspace from running.
type Limit struct {
	// Name is the workspace that was wanted, and Back its address. Home is the list of all
	// workspaces.
	Name, Back, Home string
	// Global says that the limit Max is for the whole installation, not for one user.
	Global bool
	Max    int
	// Running are the user's own workspaces that count. SwapURL takes the form that puts one
	// of them to sleep and opens the wanted one.
	Running []problem.RunningWorkspace
	SwapURL string
	// Origin is that of Back; empty where it is the page's own.
	Origin string
}

// Title is the heading.
func (p *Limit) Title() explain.Text {
	return explain.Text{En: "No room for " + p.Name, Ko: "지금은 " + p.Name + web.Particle(p.Name, "을", "를") + " 실행할 자리가 없습니다"}
}

// ShowLimit shows the page, with a button for each running workspace that puts it to sleep.
func ShowLimit(w http.ResponseWriter, r *http.Request, p *Limit) error {
	return layout.Show(w, r, http.StatusBadGateway, web.Page{Title: p.Title(), Content: "limit.html", Data: p, Leads: p.Origin})
}

// idleText tells how long a workspace has been unused. Recorded activity lags by up to
// a minute, so less than two minutes count as in use.
func idleText(seconds int64) explain.Text {
	minutes, hours := seconds/60, seconds/3600
	switch {
	case minutes < 2:
		return explain.Text{En: "In use", Ko: "사용 중"}
	case hours < 2:
		return explain.Text{En: fmt.Sprintf("Not used for %d min", minutes), Ko: fmt.Sprintf("%d분 동안 사용하지 않음", minutes)}
	}
	return explain.Text{En: fmt.Sprintf("Not used for %d h", hours), Ko: fmt.Sprintf("%d시간 동안 사용하지 않음", hours)}
}

// operationTexts say what is being done with a running workspace.
var operationTexts = map[workspace.Operation]explain.Text{
	workspace.OpStopping: {En: "Going to sleep", Ko: "잠드는 중"},
	workspace.OpStarting: {En: "Starting", Ko: "시작하는 중"},
}

// busyTexts say what goes on in a workspace, by the reason for which it is awake.
var busyTexts = map[string]explain.Text{
	workspace.BusyCommand:    {En: "Working in a terminal", Ko: "터미널에서 작업 중"},
	workspace.BusyTerminal:   {En: "Working in a terminal", Ko: "터미널에서 작업 중"},
	workspace.BusyBackground: {En: "Working in the background", Ko: "백그라운드에서 작업 중"},
	workspace.BusyKernel:     {En: "A notebook computes", Ko: "노트북 계산 중"},
	workspace.BusyNoAnswer:   {En: "It cannot be told what it does", Ko: "무엇을 하는지 알 수 없음"},
}

// doingText tells what goes on in a running workspace, or with it; empty if nothing is known.
func doingText(w problem.RunningWorkspace) explain.Text {
	if w.Operation != workspace.OpNone {
		if t, ok := operationTexts[w.Operation]; ok {
			return t
		}
		return explain.Text{En: "On its way up", Ko: "준비하는 중"}
	}
	if w.Busy == nil {
		return explain.Text{}
	}
	t, ok := busyTexts[w.Busy.Reason]
	if !ok {
		t = explain.Text{En: "Working", Ko: "작업 중"}
	}
	if detail := w.Busy.Detail; detail != "" {
		t.En, t.Ko = t.En+": "+detail, t.Ko+": "+detail
	}
	return t
}
