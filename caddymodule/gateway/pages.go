package gateway

import (
	"embed"
	"fmt"
	"html/template"
	"net/http"

	"github.com/codehub/gateway/caddymodule/gateway/progress"
	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

//go:embed pages/*.html pages/wake.js
var pageFiles embed.FS

// layout renders the gateway's pages.
var layout = func() *web.Layout {
	script, err := pageFiles.ReadFile("pages/wake.js")
	if err != nil {
		panic(err) // the file is embedded: the build would have failed
	}
	return web.NewLayout(pageFiles, string(script), template.FuncMap{
		"doing": doingText,
		"idle":  func(w web.RunningWorkspace) web.Text { return idleText(w.Idle) },
	})
}()

// pageRefresh is after how many seconds a browser without scripts asks for the wake page
// again.
const pageRefresh = 3

// wakeView is the data of the wake page. Clock is the time since the wake-up began,
// as minutes:seconds, for browsers without scripts.
type wakeView struct {
	Name, StatusURL, Clock, Home string
	Status                       progress.Status
}

// showWake shows the progress of the wake-up. The page polls the status and reloads
// itself when the workspace is ready; without scripts it asks again every few seconds.
func (g *Gateway) showWake(req *request, st *route.State) error {
	s, _ := g.describe(req, st)
	if s.Steps == nil { // nothing goes on yet, or no longer
		s.Steps = progress.StepsFrom(st)
	}
	name := st.Route.Name
	return layout.Show(req.w, req.r, http.StatusBadGateway, web.Page{
		Title:   web.Text{En: "Waking " + name, Ko: name + " 깨우는 중"},
		Content: "wake.html", Refresh: pageRefresh,
		Data: &wakeView{
			Name: name, StatusURL: req.target.Prefix + web.OwnPath + "status", Status: s, Home: g.home(req),
			Clock: fmt.Sprintf("%d:%02d", s.Elapsed/60, s.Elapsed%60),
		},
	})
}

// limitView is the data of the limit page: the name of the workspace that was wanted, the
// limit, for one user or, if Global is set, for the whole installation, and the user's own
// workspaces that count. Back is the address that was wanted.
type limitView struct {
	Name, SwapURL, Back, Home string
	Title                     web.Text
	Global                    bool
	Max                       int
	Running                   []web.RunningWorkspace
}

// showLimit shows which limit keeps the workspace from running, and the user's running
// workspaces, each with a button that puts it to sleep and opens the wanted one.
func (g *Gateway) showLimit(req *request, st *route.State, refusal *service.LimitError) error {
	name := st.Route.Name
	title := web.Text{En: "No room for " + name, Ko: "지금은 " + name + web.Particle(name, "을", "를") + " 실행할 자리가 없습니다"}
	return layout.Show(req.w, req.r, http.StatusBadGateway, web.Page{
		Title: title, Content: "limit.html",
		Data: &limitView{
			Name: name, Title: title, Back: web.Here(req.r), Home: g.home(req),
			SwapURL: req.target.Prefix + web.OwnPath + swapPath,
			Global:  refusal.Scope == "global", Max: refusal.Limit, Running: g.running(req),
		},
	})
}

// failedView is the data of the page for a workspace in ERROR. Step is the one that failed,
// if the reason tells.
type failedView struct {
	*web.Message
	Step *progress.Step
}

// showFailed shows why the workspace cannot be opened, and what to do.
func (g *Gateway) showFailed(req *request, st *route.State) error {
	f := progress.FailureOf(st)
	v := &failedView{Step: f.Step, Message: &web.Message{
		Heading: f.Heading,
		Text:    web.Text{En: "Something went wrong with this workspace.", Ko: "이 워크스페이스에 문제가 생겼습니다."},
		Detail:  f.Detail,
		Remedy:  f.Remedy,
		Links:   []web.Link{web.HomeLink(g.home(req))},
	}}
	return layout.Show(req.w, req.r, http.StatusBadGateway, web.Page{Title: v.Heading, Content: "failed.html", Data: v})
}

// showMessage shows a message with a link to the list of all workspaces.
func (g *Gateway) showMessage(req *request, status int, m *web.Message) error {
	return layout.ShowMessage(req.w, req.r, status, m, g.home(req))
}

// home returns the address of the list of all workspaces, on the main site.
func (g *Gateway) home(req *request) string {
	if !req.target.Host {
		return "/"
	}
	return g.Site.MainOrigin(req.r) + "/"
}

// idleText tells how long a workspace has been unused. Recorded activity lags by up to
// a minute, so less than two minutes count as in use.
func idleText(seconds int64) web.Text {
	minutes, hours := seconds/60, seconds/3600
	switch {
	case minutes < 2:
		return web.Text{En: "In use", Ko: "사용 중"}
	case hours < 2:
		return web.Text{En: fmt.Sprintf("Not used for %d min", minutes), Ko: fmt.Sprintf("%d분 동안 사용하지 않음", minutes)}
	}
	return web.Text{En: fmt.Sprintf("Not used for %d h", hours), Ko: fmt.Sprintf("%d시간 동안 사용하지 않음", hours)}
}

// operationTexts say what is being done with a running workspace.
var operationTexts = map[workspace.Operation]web.Text{
	workspace.OpStopping: {En: "Going to sleep", Ko: "잠드는 중"},
	workspace.OpStarting: {En: "Starting", Ko: "시작하는 중"},
}

// busyTexts say what goes on in a workspace, by the reason for which it is awake.
var busyTexts = map[string]web.Text{
	workspace.BusyCommand:    {En: "Working in a terminal", Ko: "터미널에서 작업 중"},
	workspace.BusyTerminal:   {En: "Working in a terminal", Ko: "터미널에서 작업 중"},
	workspace.BusyBackground: {En: "Working in the background", Ko: "백그라운드에서 작업 중"},
	workspace.BusyKernel:     {En: "A notebook computes", Ko: "노트북 계산 중"},
	workspace.BusyNoAnswer:   {En: "It cannot be told what it does", Ko: "무엇을 하는지 알 수 없음"},
}

// doingText tells what goes on in a running workspace, or with it; empty if nothing is known.
func doingText(w web.RunningWorkspace) web.Text {
	if w.Operation != workspace.OpNone {
		if t, ok := operationTexts[w.Operation]; ok {
			return t
		}
		return web.Text{En: "On its way up", Ko: "준비하는 중"}
	}
	if w.Busy == nil {
		return web.Text{}
	}
	t, ok := busyTexts[w.Busy.Reason]
	if !ok {
		t = web.Text{En: "Working", Ko: "작업 중"}
	}
	if detail := w.Busy.Detail; detail != "" {
		t.En, t.Ko = t.En+": "+detail, t.Ko+": "+detail
	}
	return t
}
