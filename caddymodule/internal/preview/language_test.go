package preview

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/codehub/gateway/caddymodule/internal/preview/previewtest"
)

// TestEverythingSpeaksTheLanguage checks that a language needs nothing but one more file: with it, every page, answer
// and script is in that language.
func TestEverythingSpeaksTheLanguage(t *testing.T) {
	if !previewtest.RunWith(t, source, "TestEverythingSpeaksTheLanguage|TestEveryPageIsShown") {
		return
	}
	p := preview(t)
	assets := map[string]bool{}
	for _, e := range p.entries {
		body := get(t, p, e.Path(), previewtest.MadeUp, "").Body.Bytes()
		doc, err := html.ParseWithOptions(bytes.NewReader(body), html.ParseOptionEnableScripting(false))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		shownTo(&text, doc)
		if other := previewtest.Unspoken(text.String()); e.Group != "notice" && other != "" || text.Len() == 0 { // a notice is on a workspace's own page
			t.Errorf("%s says %q", e.Path(), other)
		}
		for _, m := range regexp.MustCompile(`"(/assets/[^"]+\.js)"`).FindAllSubmatch(body, -1) {
			assets[string(m[1])] = true
		}
		asked := []string{}
		if e.status != nil {
			asked = append(asked, e.Path()+"/status")
		}
		if e.board != nil && e.board.refuse != nil {
			refusesInTheLanguage(t, p, e)
		}
		if e.board != nil {
			asked = append(asked, "/api/v1/workspaces", "/api/v1/workspaces?deleted=true")
			for _, row := range e.board.rows {
				asked = append(asked, "/api/v1/workspaces/"+string(row.ID)+"/explain")
			}
		}
		for _, path := range asked {
			var answer any
			if err := json.Unmarshal(get(t, p, path, previewtest.MadeUp, e.Path()).Body.Bytes(), &answer); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			hear(t, e.Path()+" "+path, answer)
		}
		if e.Group == "notice" {
			assets[e.Path()+"/"+noticeOwn+"presence.js"] = true
		}
	}
	said := 0
	for len(assets) > 0 {
		for path := range assets {
			delete(assets, path)
			w := get(t, p, path, previewtest.MadeUp, "")
			body := w.Body.Bytes()
			if w.Code != http.StatusOK {
				t.Fatalf("%s: %d", path, w.Code)
			}
			for _, m := range regexp.MustCompile(`"(/assets/[^"]+\.js)"`).FindAllSubmatch(body, -1) {
				assets[string(m[1])] = true
			}
			for _, m := range regexp.MustCompile(`texts = (\{.*\});`).FindAllSubmatch(body, -1) {
				var texts map[string]map[string]any
				if err := json.Unmarshal(m[1], &texts); err != nil {
					t.Fatal(err)
				}
				for key, text := range texts[previewtest.MadeUp] {
					plain, err := json.Marshal(text)
					if said++; err != nil || !strings.Contains(string(plain), "⟦") {
						t.Errorf("%s says %s as %v", path, key, text)
					}
				}
				body = bytes.Replace(body, m[1], nil, 1)
			}
			if found := regexp.MustCompile(`[^"]*\p{Hangul}[^"]*`).Find(body); found != nil && !bytes.Contains(found, []byte("한국어")) {
				t.Errorf("%s says %q by itself", path, found)
			}
		}
	}
	if said < 150 {
		t.Errorf("the scripts have only %d texts", said)
	}
}

// refusesInTheLanguage checks the texts in the answer to a change, for programs and for the page's script.
func refusesInTheLanguage(t *testing.T, p *Preview, e *entry) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/workspaces", strings.NewReader(`{"name": "thesis"}`))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept-Language", previewtest.MadeUp)
	r.Header.Set("Referer", "http://"+r.Host+e.Path())
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer["help"] == nil {
		t.Fatalf("%s: %s, %v", e.Path(), w.Body, err)
	}
	for _, field := range []string{"title", "detail"} {
		if said, _ := answer[field].(string); !strings.Contains(said, "⟦") || previewtest.Unspoken(said) != "" {
			t.Errorf("%s refuses with the %s %q", e.Path(), field, said)
		}
	}
	hear(t, e.Path(), answer)
}

// shownTo writes the texts that a page shows to a reader of the language. Names are in <bdi>, words of the API are in
// <code>, and texts that only administrators read are marked as English.
func shownTo(out *strings.Builder, n *html.Node) {
	if n.Type == html.TextNode {
		out.WriteString(n.Data)
	}
	if n.Type == html.ElementNode {
		for _, a := range n.Attr {
			if a.Key == "lang" && a.Val != previewtest.MadeUp {
				return
			}
			if a.Key == "title" || a.Key == "alt" {
				out.WriteString(a.Val)
			}
		}
		if slices.Contains([]string{"script", "style", "bdi", "code"}, n.Data) {
			return
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		shownTo(out, c)
	}
}

// hear reports the texts of an answer that are not in the language.
func hear(t *testing.T, about string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if english, ok := v["en"].(string); ok {
			if own, ok := v[previewtest.MadeUp].(string); !ok || previewtest.Unspoken(own) != "" {
				t.Errorf("%s says %q as %q", about, english, v[previewtest.MadeUp])
			}
		}
		for _, field := range v {
			hear(t, about, field)
		}
	case []any:
		for _, item := range v {
			hear(t, about, item)
		}
	}
}
