package gateway

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
)

//go:embed pages/*.html pages/style.css pages/page.js
var pageFiles embed.FS

var (
	pageCSS = pageFile("pages/style.css")
	pageJS  = pageFile("pages/page.js")

	pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
		"t": func(en, ko string) template.HTML { return bothLanguages(web.Text{En: en, Ko: ko}) },
		"tf": func(en, ko string, n int) template.HTML {
			return bothLanguages(web.Text{En: fmt.Sprintf(en, n), Ko: fmt.Sprintf(ko, n)})
		},
		"text": bothLanguages,
		"idle": func(seconds int64) template.HTML { return bothLanguages(idleText(seconds)) },
	}).ParseFS(pageFiles, "pages/*.html"))

	layout = pageTemplates.Lookup("layout.html")

	// pagePolicy is the Content-Security-Policy of every page: it loads nothing and
	// runs only the embedded script, which the policy names by its hash.
	pagePolicy = "default-src 'none'; style-src " + sourceHash(pageCSS) + "; script-src " + sourceHash(pageJS) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)

// pageFile returns an embedded file as text.
func pageFile(name string) string {
	b, err := pageFiles.ReadFile(name)
	if err != nil {
		panic(err) // the file is embedded: the build would have failed
	}
	return string(b)
}

// sourceHash returns the source expression by which a Content-Security-Policy allows
// exactly this inline text.
func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// bothLanguages puts a text into the page in every language and lets the style sheet
// show one, so that switching the language needs no request.
func bothLanguages(t web.Text) template.HTML {
	return template.HTML(`<span class="en" lang="en">` + template.HTMLEscapeString(t.En) + //nolint:gosec // escaped
		`</span><span class="ko" lang="ko">` + template.HTMLEscapeString(t.Ko) + `</span>`)
}

// page is the data of the layout. Exactly one of Wake, Limit and Message is set.
type page struct {
	Lang, Title string
	CSS         template.CSS
	JS          template.JS
	Wake        *wakeView
	Limit       *limitView
	Message     *message
}

// wakeView is the data of the wake page. Clock is the time since the wake-up began,
// as minutes:seconds, for browsers without scripts.
type wakeView struct {
	Name, StatusURL, Clock string
	Status                 status
	Steps                  []step
}

// step is one stage of a wake-up as the wake page lists it. Text is what is shown, Usual
// what is shown again once the workspace no longer waits.
type step struct {
	Stage       stage
	Class       string // "done", "now" or empty
	Text, Usual web.Text
}

// limitView is the data of the limit page. Max is the limit, for one user or, if
// Global is set, for the whole installation.
type limitView struct {
	Global  bool
	Max     int
	Running []runningWorkspace
	Home    string
}

// show completes the page with language, style and script, and sends it.
func (g *Gateway) show(req *request, status int, title web.Text, p page) error {
	p.Lang = web.Language(req.r)
	p.Title = title.In(p.Lang)
	p.CSS, p.JS = template.CSS(pageCSS), template.JS(pageJS) //nolint:gosec // our own files
	return web.SendPage(req.w, req.r, status, pagePolicy, layout, p)
}

// steps are the stages that the wake page lists, in order.
var steps = []step{
	{Stage: stageQueued, Text: web.Text{En: "Waiting for its turn", Ko: "차례를 기다리는 중"}},
	{Stage: stageRestoring, Text: web.Text{En: "Restoring its files", Ko: "파일을 복원하는 중"}},
	{Stage: stageStarting, Text: web.Text{En: "Starting the container", Ko: "컨테이너를 시작하는 중"}},
	{Stage: stageAnswering, Text: web.Text{En: "Waiting for the application's first answer", Ko: "애플리케이션의 첫 응답을 기다리는 중"}},
}

// stepsAt returns the steps with the current one marked and the earlier ones done. What
// the workspace waits for, if anything, takes the place of the current one's text.
func stepsAt(now stage, w *waiting) []step {
	switch now {
	case stageReady:
		now = stageAnswering
	case stageAsleep:
		now = stageQueued
	}
	class := "done"
	list := make([]step, len(steps))
	for i, s := range steps {
		s.Class, s.Usual = class, s.Text
		if s.Stage == now {
			s.Class, class = "now", ""
			if w != nil {
				s.Text = web.Text{En: w.En, Ko: w.Ko}
			}
		}
		list[i] = s
	}
	return list
}

// showWake shows the progress of the wake-up. The page polls the status and reloads
// itself when the workspace is ready.
func (g *Gateway) showWake(req *request, st *route.State) error {
	s, _ := g.describe(req, st)
	return g.show(req, http.StatusBadGateway,
		web.Text{En: "Waking " + st.Route.Name, Ko: st.Route.Name + " 깨우는 중"},
		page{Wake: &wakeView{
			Name: st.Route.Name, StatusURL: req.target.Prefix + web.OwnPath + "status", Status: s,
			Clock: fmt.Sprintf("%d:%02d", s.Elapsed/60, s.Elapsed%60), Steps: stepsAt(s.Stage, s.Waiting),
		}})
}

// showLimit shows which limit is reached and lists the user's running workspaces, so
// that the user can put one to sleep.
func (g *Gateway) showLimit(req *request, refusal *service.LimitError) error {
	return g.show(req, http.StatusBadGateway,
		web.Text{En: "The limit of running workspaces is reached", Ko: "실행 한도에 도달했습니다"},
		page{Limit: &limitView{
			Global: refusal.Scope == "global", Max: refusal.Limit,
			Running: g.running(req), Home: g.home(req),
		}})
}

// showMessage shows a message with a link to the list of all workspaces.
func (g *Gateway) showMessage(req *request, status int, m *message) error {
	m.Links = append(m.Links, link{g.home(req), web.Text{En: "All workspaces", Ko: "모든 워크스페이스"}})
	return g.show(req, status, m.Heading, page{Message: m})
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
		return web.Text{En: "in use", Ko: "사용 중"}
	case hours < 2:
		return web.Text{En: fmt.Sprintf("idle for %d min", minutes), Ko: fmt.Sprintf("%d분 동안 사용 안 함", minutes)}
	}
	return web.Text{En: fmt.Sprintf("idle for %d h", hours), Ko: fmt.Sprintf("%d시간 동안 사용 안 함", hours)}
}

// failureText returns the reason of a failure and its message, "Reason: message".
func failureText(st *route.State) string {
	return strings.TrimSuffix(string(st.Route.ErrorReason)+": "+st.Route.ErrorMessage, ": ")
}
