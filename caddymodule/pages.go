package codehub

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

//go:embed pages/*.html pages/style.css pages/page.js
var pageFiles embed.FS

var (
	pageCSS = pageFile("pages/style.css")
	pageJS  = pageFile("pages/page.js")

	pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
		"t":    func(en, ko string) template.HTML { return text{en, ko}.html() },
		"tf":   func(en, ko string, n int) template.HTML { return text{fmt.Sprintf(en, n), fmt.Sprintf(ko, n)}.html() },
		"idle": idleText,
	}).ParseFS(pageFiles, "pages/*.html"))

	// pagePolicy lets the pages load nothing, and run nothing but their own script.
	pagePolicy = "default-src 'none'; style-src " + sourceHash(pageCSS) + "; script-src " + sourceHash(pageJS) +
		"; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)

func pageFile(name string) string {
	b, err := pageFiles.ReadFile(name)
	if err != nil {
		panic(err) // embedded; cannot happen in a program that was built
	}
	return string(b)
}

func sourceHash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// text is what a page says, in every language it speaks. Both are in the page, so
// that switching needs neither a script nor another address.
type text struct{ en, ko string }

func (t text) html() template.HTML {
	return template.HTML(`<span class="en" lang="en">` + template.HTMLEscapeString(t.en) + //nolint:gosec // escaped
		`</span><span class="ko" lang="ko">` + template.HTMLEscapeString(t.ko) + `</span>`)
}

func (t text) in(lang string) string {
	if lang == "ko" {
		return t.ko
	}
	return t.en
}

// page is what the layout shows. Exactly one of the last three is set.
type page struct {
	Lang, Title string
	CSS         template.CSS
	JS          template.JS
	Wake        *wakeView
	Limit       *limitView
	Message     *messageView
}

type wakeView struct {
	Name, StatusURL, Clock string
	Status                 wakeStatus
	Steps                  []step
}

type step struct {
	Stage stage
	Class string
	Text  template.HTML
}

type limitView struct {
	Global  bool
	Max     int
	Running []runningWorkspace
	Home    string
}

type messageView struct {
	title                 text
	Heading, Text, Remedy template.HTML
	Detail                string
	Links                 []link
}

type link struct {
	URL  string
	Text template.HTML
}

// write sends the page.
func (p page) write(w http.ResponseWriter, r *http.Request, title text, status int) error {
	p.Lang = language(r)
	p.Title = title.in(p.Lang)
	p.CSS, p.JS = template.CSS(pageCSS), template.JS(pageJS) //nolint:gosec // our own files
	var body bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&body, "layout.html", p); err != nil {
		return fmt.Errorf("making a page: %w", err)
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Add("Vary", "Accept-Language, Cookie")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client has gone
	return nil
}

// language is the one that the visitor has chosen, or that the browser prefers.
func language(r *http.Request) string {
	if chosen := cookieValue(r.Header, "codehub_lang"); chosen == "ko" || chosen == "en" {
		return chosen
	}
	best, weight := "en", 0.0
	for part := range strings.SplitSeq(r.Header.Get("Accept-Language"), ",") {
		tag, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		if v, ok := strings.CutPrefix(strings.TrimSpace(params), "q="); ok {
			q, _ = strconv.ParseFloat(v, 64)
		}
		base, _, _ := strings.Cut(strings.ToLower(tag), "-")
		if (base == "ko" || base == "en") && q > weight {
			best, weight = base, q
		}
	}
	return best
}

var stageTexts = []struct {
	stage stage
	text  text
}{
	{stageQueued, text{"Waiting for its turn", "차례를 기다리는 중"}},
	{stageRestoring, text{"Restoring its files", "파일을 복원하는 중"}},
	{stageStarting, text{"Starting the container", "컨테이너를 시작하는 중"}},
	{stageAnswering, text{"Waiting for the application's first answer", "애플리케이션의 첫 응답을 기다리는 중"}},
}

// wakePage shows how far the workspace is, and becomes the workspace.
func (g *Gateway) wakePage(w http.ResponseWriter, r *http.Request, v visit) error {
	st := v.entry.State()
	s := g.describe(r.Context(), r, v, st, g.waking.find(v.id, g.wakeTimeout))
	view := &wakeView{
		Name: st.Route.Name, StatusURL: v.prefix + ownPath + "status", Status: s,
		Clock: fmt.Sprintf("%d:%02d", s.Elapsed/60, s.Elapsed%60),
	}
	class := "done"
	for _, x := range stageTexts {
		here := x.stage == s.Stage || s.Stage == stageReady && x.stage == stageAnswering || s.Stage == stageAsleep && x.stage == stageQueued
		c := class
		if here {
			c, class = "now", ""
		}
		view.Steps = append(view.Steps, step{x.stage, c, x.text.html()})
	}
	w.Header().Set("Retry-After", "3")
	return page{Wake: view}.write(w, r, text{"Waking " + st.Route.Name, st.Route.Name + " 깨우는 중"}, http.StatusBadGateway)
}

// limitPage says that no further workspace may run, and which do.
func (g *Gateway) limitPage(w http.ResponseWriter, r *http.Request, v visit, refused *service.LimitError) error {
	w.Header().Set("Retry-After", "30")
	view := &limitView{
		Global: refused.Scope == "global", Max: refused.Limit,
		Running: g.running(r.Context(), r, v), Home: g.home(r, v),
	}
	return page{Limit: view}.write(w, r, text{"No place to run it now", "실행할 자리가 없습니다"}, http.StatusBadGateway)
}

// messagePage shows a message.
func (g *Gateway) messagePage(w http.ResponseWriter, r *http.Request, status int, m *messageView) error {
	return page{Message: m}.write(w, r, m.title, status)
}

// home is the list of all workspaces.
func (g *Gateway) home(r *http.Request, v visit) string {
	if !v.host {
		return "/"
	}
	return g.mainOrigin(r) + "/"
}

func message(title, body text, links ...link) *messageView {
	return &messageView{title: title, Heading: title.html(), Text: body.html(), Links: links}
}

func homeLink(g *Gateway, r *http.Request, v visit) link {
	return link{g.home(r, v), text{"All workspaces", "모든 워크스페이스"}.html()}
}

func notFoundMessage(g *Gateway, r *http.Request, v visit) *messageView {
	return message(
		text{"Nothing here", "찾을 수 없습니다"},
		text{"No workspace of yours has this address. It may have been deleted.", "이 주소를 가진 워크스페이스가 없습니다. 삭제되었을 수 있습니다."},
		homeLink(g, r, v))
}

func noAnswerMessage(g *Gateway, r *http.Request, v visit) *messageView {
	return message(
		text{"The workspace gave no answer", "워크스페이스가 응답하지 않았습니다"},
		text{"Its application broke off or took too long. It may be starting again: try in a moment.", "애플리케이션의 연결이 끊겼거나 응답이 너무 오래 걸렸습니다. 다시 시작하는 중일 수 있으니 잠시 후 다시 시도해 주세요."},
		link{r.URL.RequestURI(), text{"Try again", "다시 시도"}.html()}, homeLink(g, r, v))
}

func expiredTicket(back string) *messageView {
	return message(
		text{"The sign-in has expired", "로그인이 만료되었습니다"},
		text{"It was used already, or it has taken too long. Open the workspace again.", "이미 사용되었거나 시간이 초과되었습니다. 워크스페이스를 다시 열어 주세요."},
		link{back, text{"Open the workspace", "워크스페이스 열기"}.html()})
}

// remedies say what to do about a failed workspace.
var remedies = map[workspace.ErrorReason]text{
	workspace.ReasonTimeout:                {"It took too long. Ask an administrator to recover it; nothing of your files was changed.", "시간이 너무 오래 걸렸습니다. 관리자에게 복구를 요청하세요. 파일은 변경되지 않았습니다."},
	workspace.ReasonDataLost:               {"Data that must exist was not found. Do not delete the workspace; tell an administrator.", "있어야 할 데이터를 찾지 못했습니다. 워크스페이스를 삭제하지 말고 관리자에게 알리세요."},
	workspace.ReasonImagePullFailed:        {"Its image cannot be had. Check the name of the image, then ask an administrator to recover the workspace.", "이미지를 가져올 수 없습니다. 이미지 이름을 확인한 뒤 관리자에게 복구를 요청하세요."},
	workspace.ReasonArchiveCorrupted:       {"Its archive is damaged. Do not delete the workspace; tell an administrator.", "보관본이 손상되었습니다. 워크스페이스를 삭제하지 말고 관리자에게 알리세요."},
	workspace.ReasonContainerWithoutVolume: {"Its container runs without its files. Tell an administrator.", "파일 없이 컨테이너가 실행되고 있습니다. 관리자에게 알리세요."},
}

func failedMessage(g *Gateway, r *http.Request, v visit, st *route.State) *messageView {
	m := message(
		text{st.Route.Name + " cannot be opened", st.Route.Name + "을(를) 열 수 없습니다"},
		text{"Something went wrong with this workspace.", "이 워크스페이스에 문제가 생겼습니다."},
		homeLink(g, r, v))
	m.Detail = strings.TrimSuffix(string(st.Route.ErrorReason)+": "+st.Route.ErrorMessage, ": ")
	remedy, ok := remedies[st.Route.ErrorReason]
	if !ok {
		remedy = text{"Ask an administrator to recover it.", "관리자에게 복구를 요청하세요."}
	}
	m.Remedy = remedy.html()
	return m
}

// idleText says how long a workspace has not been used.
func idleText(seconds int64) template.HTML {
	switch {
	case seconds < 120:
		return text{"in use", "사용 중"}.html()
	case seconds < 7200:
		return text{fmt.Sprintf("idle for %d min", seconds/60), fmt.Sprintf("%d분 동안 미사용", seconds/60)}.html()
	}
	return text{fmt.Sprintf("idle for %d h", seconds/3600), fmt.Sprintf("%d시간 동안 미사용", seconds/3600)}.html()
}
