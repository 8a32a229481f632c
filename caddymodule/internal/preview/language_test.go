package preview

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"golang.org/x/net/html"

	"github.com/codehub/gateway/coordinator/words"
)

// The made-up language: English, each text between marks. Its tag is that of artificial languages.
const (
	madeUp   = "art"
	language = "coordinator/words/languages/"
)

// wrap puts every text below v between marks.
func wrap(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wrap(v[key])
		}
		return v
	default:
		return "⟦" + v.(string) + "⟧"
	}
}

// A language is one more file: with it, and no other change, every page, answer and script speaks it.
// The file is added as the compiler sees the source, so that it is embedded like the others.
func TestALanguageIsOneFile(t *testing.T) {
	if words.Known(madeUp) {
		t.Skip("this is the run with the language")
	}
	english, err := os.ReadFile(filepath.Join(source, language, "en.json"))
	if err != nil {
		t.Fatal(err)
	}
	var texts map[string]any
	if err := json.Unmarshal(english, &texts); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	file, overlay := filepath.Join(t.TempDir(), "art.json"), filepath.Join(t.TempDir(), "overlay.json")
	write := func(path string, v any) {
		b, err := json.Marshal(v)
		if err == nil {
			err = os.WriteFile(path, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(file, wrap(texts))
	write(overlay, map[string]any{"Replace": map[string]string{filepath.Join(root, language, madeUp+".json"): file}})
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-run", "TestEverythingSpeaksTheLanguage|TestEveryPageIsShown", "-v", ".").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestEverythingSpeaksTheLanguage")) {
		t.Errorf("with one more language: %v\n%s", err, out)
	}
}

// marked is what the made-up language says, and neutral what is the same in every language: names.
var (
	marked  = regexp.MustCompile(`⟦[^⟦⟧]*⟧`)
	neutral = regexp.MustCompile(`CodeHub|English|한국어|` + ownerName)
)

// spoken returns the words of a text that the made-up language has not said.
func spoken(text string) string {
	for marked.MatchString(text) {
		text = marked.ReplaceAllString(text, "")
	}
	if text = neutral.ReplaceAllString(text, ""); strings.ContainsFunc(text, unicode.IsLetter) {
		return strings.TrimSpace(text)
	}
	return ""
}

func TestEverythingSpeaksTheLanguage(t *testing.T) {
	if !words.Known(madeUp) {
		t.Skip("TestALanguageIsOneFile runs this with the language")
	}
	p := preview(t)
	assets := map[string]bool{}
	for _, e := range p.entries {
		body := get(t, p, e.Path(), madeUp, "").Body.Bytes()
		doc, err := html.ParseWithOptions(bytes.NewReader(body), html.ParseOptionEnableScripting(false))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		shownTo(&text, doc)
		if other := spoken(text.String()); e.Group != "notice" && other != "" || text.Len() == 0 { // that is a workspace's own page
			t.Errorf("%s says %q", e.Path(), other)
		}
		for _, m := range regexp.MustCompile(`"(/assets/[^"]+\.js)"`).FindAllSubmatch(body, -1) {
			assets[string(m[1])] = true
		}
		asked := []string{}
		if e.status != nil {
			asked = append(asked, e.Path()+"/status")
		}
		if e.board != nil {
			asked = append(asked, "/api/v1/workspaces", "/api/v1/workspaces?deleted=true")
			for _, row := range e.board.rows {
				asked = append(asked, "/api/v1/workspaces/"+string(row.ID)+"/explain")
			}
		}
		for _, path := range asked {
			var answer any
			if err := json.Unmarshal(get(t, p, path, madeUp, e.Path()).Body.Bytes(), &answer); err != nil {
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
			w := get(t, p, path, madeUp, "")
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
				for key, text := range texts[madeUp] {
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

// shownTo writes what a page shows to a reader of the language. Names stand in <bdi>, and what only programs and
// administrators read is marked as English.
func shownTo(out *strings.Builder, n *html.Node) {
	if n.Type == html.TextNode {
		out.WriteString(n.Data)
	}
	if n.Type == html.ElementNode {
		for _, a := range n.Attr {
			if a.Key == "lang" && a.Val != madeUp {
				return
			}
			if a.Key == "title" || a.Key == "alt" {
				out.WriteString(a.Val)
			}
		}
		if slices.Contains([]string{"script", "style", "bdi"}, n.Data) {
			return
		}
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		shownTo(out, c)
	}
}

// hear reports texts of an answer that lack the language.
func hear(t *testing.T, about string, v any) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		if english, ok := v["en"].(string); ok {
			if own, ok := v[madeUp].(string); !ok || spoken(own) != "" {
				t.Errorf("%s says %q as %q", about, english, v[madeUp])
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
