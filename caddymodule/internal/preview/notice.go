package preview

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/pagescript"
	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/caddymodule/internal/web"
)

// noticeOwn is the path of the gateway's own files, relative to the page.
const noticeOwn = "own/"

// noticeStates are sequences of the gateway's answers to the script in a workspace's page.
var noticeStates = []struct {
	name, hint string
	answers    []map[string]any
}{
	{"running", "Nothing is shown.", []map[string]any{{"state": "running", "run": "1", "tag": "running"}}},
	{"about-to-sleep", "", []map[string]any{{"state": "running", "run": "1", "tag": "soon", "sleep_in": 50}}},
	{"asleep", "", []map[string]any{asleepPage}},
	{"waking", "", []map[string]any{asleepPage, {"state": "waking", "tag": "waking"}}},
	{"failed", "", []map[string]any{asleepPage, {"state": "failed", "tag": "failed"}}},
}

var asleepPage = map[string]any{"state": "asleep", "since": 900, "tag": "asleep"}

// workspacePage is a page of a workspace, with placeholders for its language and the script tag.
const workspacePage = `<!doctype html>
<html lang=%q><head>%s<meta name="color-scheme" content="light dark"><title>A page of a workspace</title></head>
<body><main><h1>A page of a workspace</h1></main></body></html>
`

// noticePages returns a workspace's page with the script that the gateway inserts.
func noticePages() (list []*entry) {
	for _, s := range noticeStates {
		e := &entry{Group: "notice", Name: s.name, Hint: s.hint}
		e.Covers = []string{"stage " + string(progress.StageReady)}
		e.show = func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			lang := site.Language(r)
			script := pagescript.Tag(e.Path()+"/"+noticeOwn, lang, "", 24*time.Hour, false, false)
			_, err := fmt.Fprintf(w, workspacePage, lang, script)
			return err
		}
		list = append(list, e)
	}
	return list
}

// notice answers the requests of the script.
func (p *Preview) notice(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.PathValue("path") == pagescript.ScriptName:
		pagescript.ServeScript(w, r)
		return
	case r.Method != http.MethodGet:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	for _, s := range noticeStates {
		if s.name != r.PathValue("name") {
			continue
		}
		last := len(s.answers) - 1
		tag := r.URL.Query().Get("seen")
		seen := slices.IndexFunc(s.answers, func(a map[string]any) bool { return a["tag"] == tag })
		if seen == last {
			hold(r)
		}
		sendJSON(w, http.StatusOK, s.answers[min(seen+1, last)])
		return
	}
	answered(w, web.ShowNotFound(w, r))
}
