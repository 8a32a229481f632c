package preview

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/workspacetest"
)

// source is the root of the repository.
const source = "../../.."

func preview(t *testing.T) *Preview {
	t.Helper()
	p, err := New(source)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// get sends a request as a browser would: for a page, or as the script of the page from.
func get(t *testing.T, p *Preview, path, lang, from string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept-Language", lang)
	r.Header.Set("Accept", "text/html")
	if from != "" {
		r.Header.Set("Referer", "http://"+r.Host+from)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// broken matches the output of formatting and templates for values that they cannot render.
var broken = regexp.MustCompile(`%!|ZgotmplZ|<no value>`)

// shown reports whether a page came with a status of the product's own pages. A page that cannot be rendered has the
// status 500.
func shown(status int) bool {
	return status == http.StatusOK || status >= 400 && status != http.StatusInternalServerError
}

// TestEveryPageIsShown checks that every link of the index leads to a complete page in its language, whose assets
// exist.
func TestEveryPageIsShown(t *testing.T) {
	t.Parallel()
	p := preview(t)
	index := get(t, p, "/", "en", "").Body.String()
	asset := regexp.MustCompile(`"(/assets/[^"]+)"`)
	seen := make(map[string]bool)
	for _, e := range p.entries {
		if seen[e.Path()] {
			t.Errorf("there are two pages %s", e.Path())
		}
		seen[e.Path()] = true
		var first string
		for _, l := range words.Languages() {
			lang := l.Code
			link := e.Path() + "?lang=" + lang
			if !strings.Contains(index, `"`+link+`"`) {
				t.Errorf("the index does not link %s", link)
			}
			w := get(t, p, link, "", "")
			if w.Code != http.StatusSeeOther || !strings.Contains(w.Header().Get("Set-Cookie"), "="+lang) {
				t.Errorf("%s: %d %v", link, w.Code, w.Header())
			}
			w = get(t, p, e.Path(), lang, "")
			body := w.Body.String()
			if !shown(w.Code) || !strings.Contains(body, "</html>") || broken.MatchString(body) {
				t.Errorf("%s in %s: %d %s", e.Path(), lang, w.Code, body)
			}
			for _, m := range asset.FindAllStringSubmatch(body, -1) {
				if w := get(t, p, m[1], lang, e.Path()); w.Code != http.StatusOK {
					t.Errorf("%s needs %s: %d", e.Path(), m[1], w.Code)
				}
			}
			if e.board == nil && e.Group != "notice" && body == first {
				t.Errorf("%s is the same in every language", e.Path())
			}
			first = body
		}
	}
}

// TestWhatPagesAskForIsAnswered checks that the requests of the pages' scripts are answered.
func TestWhatPagesAskForIsAnswered(t *testing.T) {
	t.Parallel()
	p := preview(t)
	for _, e := range p.entries {
		if e.status != nil {
			w := get(t, p, e.Path()+"/status", "en", e.Path())
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"tag"`) {
				t.Errorf("%s polls: %d %s", e.Path(), w.Code, w.Body)
			}
		}
		if e.Group != "dashboard" || e.board.expired {
			continue
		}
		paths := []string{
			"auth/session", "sessions", "tokens", "limits", "images", "workspaces?deleted=true", "report", "me/audit?limit=10",
		}
		if e.board.admin {
			paths = append(paths, "users?limit=100", "workspaces?phase=ERROR&all=true", "admin/overview", "admin/history", "admin/report",
				"admin/audit?limit=100")
		}
		for _, row := range e.board.rows[:min(len(e.board.rows), 40)] {
			paths = append(paths, "workspaces/"+string(row.ID)+"/explain", "workspaces/"+string(row.ID)+"/archives",
				"workspaces/"+string(row.ID)+"/history?limit=100", "workspaces/"+string(row.ID))
		}
		for _, path := range paths {
			w := get(t, p, "/api/v1/"+path, "en", e.Path())
			if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s asks for %s: %d %s", e.Path(), path, w.Code, w.Body)
			}
		}
	}
}

// TestTheStreamIsThatOfThePage checks that the event stream contains every workspace of the requesting page, and only
// these.
func TestTheStreamIsThatOfThePage(t *testing.T) {
	t.Parallel()
	p := preview(t)
	server := httptest.NewServer(p)
	defer server.Close()
	for _, e := range p.entries {
		if e.Group != "dashboard" || e.board.lost || e.board.expired {
			continue
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/api/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Referer", server.URL+e.Path())
		answer, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		piece := make([]byte, 64<<10)
		for !strings.Contains(got.String(), "event: heartbeat\n") {
			n, err := answer.Body.Read(piece)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(piece[:n])
		}
		_ = answer.Body.Close()
		if n := strings.Count(got.String(), "event: workspace_updated\n"); n != len(e.board.rows) {
			t.Errorf("%s gets %d workspaces, want %d", e.Path(), n, len(e.board.rows))
		}
	}
}

// TestEveryStateIsCovered checks that every state of the product is on some page, and that the dashboard has a name for
// it.
func TestEveryStateIsCovered(t *testing.T) {
	t.Parallel()
	covered := make(map[string]bool)
	for _, e := range preview(t).entries {
		for _, c := range e.Covers {
			covered[c] = true
		}
	}
	workspaces := filepath.Join(source, "coordinator/workspace")
	for _, c := range []struct{ kinds, dir, typeName, prefix, named string }{
		{"phase", workspaces, "Phase", "", "dashboard.phase."},
		{"operation", workspaces, "Operation", "", "dashboard.operation."},
		{"error,row error", workspaces, "ErrorReason", "", "dashboard.failed_with."},
		{"wait,row wait", workspaces, "", "Wait", "dashboard.waits_for."},
		{"busy", workspaces, "", "Busy", "dashboard.busy."},
		{"stage", filepath.Join(source, "caddymodule/internal/gateway/progress"), "Stage", "", ""},
		{"step", filepath.Join(source, "storagejob/contract"), "", "Step", ""},
	} {
		for _, value := range workspacetest.Constants[string](t, c.dir, c.typeName, c.prefix) {
			if c.named != "" && value != string(workspace.OpNone) && !words.Has(c.named+value) {
				t.Errorf("the dashboard has no name for %s", value)
			}
			for kind := range strings.SplitSeq(c.kinds, ",") {
				if !covered[kind+" "+value] {
					t.Errorf("no page shows the %s %s", kind, value)
				}
			}
		}
	}
	for _, action := range audit.Actions() {
		if key := "dashboard.audit." + string(action); !words.Has(key) {
			t.Errorf("there is no text %s", key)
		}
	}
	files, err := filepath.Glob(filepath.Join(source, "caddymodule/internal/gateway/pages/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	message := regexp.MustCompile(`(?m)^func ([A-Z]\w*)\(.*\) \*web\.Message `)
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range message.FindAllStringSubmatch(string(text), -1) {
			if !covered["message "+m[1]] {
				t.Errorf("no page shows the message %s", m[1])
			}
		}
	}
}

// TestEveryPageIsConfined checks that a page runs only our own scripts, loads nothing from elsewhere, and cannot be
// framed by another site, even if it contains hostile text of a person, a workspace or a server. No cache stores it.
func TestEveryPageIsConfined(t *testing.T) {
	t.Parallel()
	p := preview(t)
	for _, e := range p.entries {
		if strings.HasPrefix(e.Path(), "/preview/notice/") {
			continue // the page of an application, with our notice
		}
		h := get(t, p, e.Path(), "en", "").Header()
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors '", "form-action "} {
			if !strings.Contains(policy, want) {
				t.Errorf("the policy of %s has no %s: %s", e.Path(), want, policy)
			}
		}
		if strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("the policy of %s is open: %s", e.Path(), policy)
		}
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") == "" {
			t.Errorf("%s: %v", e.Path(), h)
		}
	}
}
