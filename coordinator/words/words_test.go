package words

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nicksnyder/go-i18n/v2/i18n"
)

var variable = regexp.MustCompile(`\{\{\.([A-Z][A-Za-z]*)\}\}`)

// formsOf returns the non-empty forms of a message.
func formsOf(m *i18n.Message) []string {
	all := []string{m.Zero, m.One, m.Two, m.Few, m.Many, m.Other}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// variablesOf returns the sorted variables of a message.
func variablesOf(m *i18n.Message) []string {
	names := map[string]bool{}
	for _, form := range formsOf(m) {
		for _, found := range variable.FindAllStringSubmatch(form, -1) {
			names[found[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// TestLanguagesAgree: every language has the keys of the others, with the same variables and no other markup.
func TestLanguagesAgree(t *testing.T) {
	if len(all.languages) < 2 || all.languages[0].Code != Default {
		t.Fatalf("the languages are %v", all.languages)
	}
	english := all.messages[Default]
	for _, l := range all.languages {
		if l.Name == "" || l.Name == nameKey {
			t.Errorf("the language %s has no name", l.Code)
		}
		for key, m := range all.messages[l.Code] {
			if english[key] == nil {
				t.Errorf("%s: there is no text %q in English", l.Code, key)
				continue
			}
			if a, b := variablesOf(m), variablesOf(english[key]); !slices.Equal(a, b) {
				t.Errorf("%s: %s has the variables %q, in English %q", l.Code, key, a, b)
			}
			if len(formsOf(m)) > 1 && !slices.Contains(variablesOf(m), "Count") {
				t.Errorf("%s: %s has plural forms, and no variable Count", l.Code, key)
			}
			for _, form := range formsOf(m) {
				if rest := variable.ReplaceAllString(form, ""); strings.ContainsAny(rest, "{}<>") || strings.TrimSpace(form) != form {
					t.Errorf("%s: %s holds more than words and variables: %q", l.Code, key, form)
				}
			}
		}
		for key := range english {
			if m := all.messages[l.Code][key]; m == nil || m.Other == "" {
				t.Errorf("%s: nothing for %q", l.Code, key)
			}
		}
	}
}

// sources returns the program's files that may name a key, by their paths from the root of the repository.
func sources(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, tree := range []string{"../../coordinator", "../../caddymodule"} {
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, "_test.go") || !slices.Contains([]string{".go", ".js", ".html"}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			out[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// scripts use their keys without the name of the section.
var scripts = map[string]string{"api/pages/static": "dashboard.", "gateway/pagescript/script.js": "presence."}

// TestEveryKeyIsUsedAndEveryUsedKeyExists: a text whose key no file names is never shown, and a key that has no text
// would be shown instead of one. A file names either the whole key or its beginning up to a dot. Packages that complete
// such a beginning have their own tests, which compare the keys below it with the possible values.
func TestEveryKeyIsUsedAndEveryUsedKeyExists(t *testing.T) {
	literal := regexp.MustCompile("[\"'`]([a-z][A-Za-z0-9_-]*(?:\\.[A-Za-z0-9_-]+)*\\.?)(?:[\"'`]|\\$\\{)")
	named := map[string]bool{nameKey: true}
	for path, text := range sources(t) {
		section := ""
		for part, s := range scripts {
			if strings.Contains(path, part) {
				section = s
			}
		}
		for _, m := range literal.FindAllStringSubmatch(text, -1) {
			named[m[1]], named[section+m[1]] = true, true
		}
		for _, m := range regexp.MustCompile(`words\.Of\("([^"]*[^."])"|say "([^"]*)"|\.Say "([^"]*)"|[^.\w]t\("([a-z_]+)"|data-text="([a-z_]+)"|"(problem\.[a-z0-9_.-]*[a-z0-9_-])"`).FindAllStringSubmatch(text, -1) {
			key := m[1] + m[2] + m[3] + m[6]
			if own := m[4] + m[5]; own != "" {
				key = section + own
			}
			if !Has(key) {
				t.Errorf("%s: there is no text %q", path, key)
			}
		}
	}
	for key := range all.messages[Default] {
		used := named[key]
		for i, c := range key {
			used = used || c == '.' && named[key[:i+1]]
		}
		if !used {
			t.Errorf("%s is not used", key)
		}
	}
}

// TestKorean: Korean is written naturally: without particles after a variable, whose ending is unknown, and with one
// word per concept.
func TestKorean(t *testing.T) {
	particle := regexp.MustCompile(`\}\}[”"’']?(을|를|이|가|은|는|과|와|로|으로|이나|나|\(이\)|\(을\)|\(으\))( |$|\.|,|\()`)
	for key, m := range all.messages["ko"] {
		for _, form := range formsOf(m) {
			if found := particle.FindString(form); found != "" {
				t.Errorf("%s: %q has a particle after a variable", key, form)
			}
			for _, other := range []string{"아카이브", "오브젝트 스토어", "오브젝트 저장소", "객체", "작업공간", "작업 공간", "(을)", "(를)", "(이)", "(가)", "(으)"} {
				if strings.Contains(form, other) {
					t.Errorf("%s: %q says %q", key, form, other)
				}
			}
		}
	}
}

// TestALanguageIsOneFile: a new language is one file; missing texts are in English.
func TestALanguageIsOneFile(t *testing.T) {
	english, err := files.ReadFile("languages/en.json")
	if err != nil {
		t.Fatal(err)
	}
	german := `{"language": {"name": "Deutsch"}, "amount": {"minutes": "{{.Minutes}} Min."}, "presence": {"keep_awake_label": {"one": "Eine Stunde", "other": "{{.Count}} Stunden"}}}`
	c, err := load(fstest.MapFS{"languages/en.json": {Data: english}, "languages/de.json": {Data: []byte(german)}})
	if err != nil {
		t.Fatal(err)
	}
	if want := []Language{{"en", "English"}, {"de", "Deutsch"}}; !slices.Equal(c.languages, want) {
		t.Errorf("the languages are %v", c.languages)
	}
	for _, s := range []struct {
		key    string
		values Values
		want   string
	}{
		{"amount.minutes", Values{"Minutes": 5}, "5 Min."},
		{"presence.keep_awake_label", Values{"Count": 1}, "Eine Stunde"},
		{"presence.keep_awake_label", Values{"Count": 4}, "4 Stunden"},
		{"amount.seconds", Values{"Seconds": 5}, "5 s"},
		{"of.no.file", nil, "of.no.file"},
	} {
		if got := c.text(s.key, s.values)["de"]; got != s.want {
			t.Errorf("%s: %q, want %q", s.key, got, s.want)
		}
	}
	for broken, data := range map[string]string{"en": "{", "de": `{"a": {"other": "x", "b": "y"}}`} {
		if _, err := load(fstest.MapFS{"languages/en.json": {Data: english}, "languages/" + broken + ".json": {Data: []byte(data)}}); err == nil {
			t.Errorf("%s with %s was read", broken, data)
		}
	}
	if _, err := load(fstest.MapFS{"languages/de.json": {Data: []byte(german)}}); err == nil {
		t.Error("texts without the default language were read")
	}
}

func TestWhichLanguageABrowserGets(t *testing.T) {
	for accept, want := range map[string]string{"": "en", "ko": "ko", "ko-KR,ko;q=0.9,en;q=0.8": "ko", "la, ko;q=0.5": "ko", "xx": "en", "en-GB,ko;q=0.1": "en", ";;": "en"} {
		if got := Match(accept); got != want || !Known(got) {
			t.Errorf("%q gets %s, want %s", accept, got, want)
		}
	}
	if Known("xx") || Known("") {
		t.Error("a language without a file is known")
	}
}

func TestTextsAsJSON(t *testing.T) {
	type fields struct {
		Stage string `json:"stage,omitempty"`
	}
	step := Text{"en": "Hello", "ko": "안녕"}
	// with returns the JSON of an object that has its own fields and a field for every language, in English where the
	// text is missing.
	with := func(text Text, own map[string]string) string {
		object := maps.Clone(own)
		for _, l := range Languages() {
			object[l.Code] = text.In(l.Code)
		}
		want, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return string(want)
	}
	for _, text := range []Text{step, nil, {"en": "Hello"}} {
		if got, err := json.Marshal(text); err != nil || string(got) != with(text, map[string]string{}) {
			t.Errorf("%v: %s, %v", text, got, err)
		}
	}
	for object, own := range map[fields]map[string]string{{"now"}: {"stage": "now"}, {}: {}} {
		got, err := Inline(object, step)
		var found map[string]string
		if err == nil {
			err = json.Unmarshal(got, &found)
		}
		if again, _ := json.Marshal(found); err != nil || string(again) != with(step, own) {
			t.Errorf("%v: %s, %v", object, got, err)
		}
	}
}
