package problem_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
)

// TestDatabaseErrors checks that an error of the database that may be temporary becomes 503, and that a wrong statement
// of this program becomes 500.
func TestDatabaseErrors(t *testing.T) {
	for code, want := range map[string]int{
		"57P03": 503, // starting up
		"57P01": 503, // being shut down
		"53300": 503, // too many connections
		"55000": 503, // not accepting connections
		"25006": 503, // read-only, as a replica is
		"53100": 503, // its disk is full
		"58030": 503, // its disk fails
		"08006": 503, // the connection failed
		"42601": 500, // syntax error
		"":      500,
	} {
		err := fmt.Errorf("reading: %w", &pgconn.PgError{Code: code})
		if got := problem.Of(err).Status; got != want {
			t.Errorf("SQLSTATE %q: %d, want %d", code, got, want)
		}
	}
}

// If the workspace of a recovery choice is deleted, the problem offers no choices.
func TestAChoiceForADeletedWorkspaceOffersNone(t *testing.T) {
	p := problem.Of(fmt.Errorf("recovering: %w", service.ErrDeleted))
	if p.Status != 409 || p.Type != problem.Deleted.Type || p.Recovery != nil {
		t.Errorf("%+v", p)
	}
}

// Every type has a title, and every title a type. The types are read from the source.
func TestEveryTypeHasATitle(t *testing.T) {
	types := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, found := range regexp.MustCompile(`= (?:problem\.)?New\("([a-z-]+)", `).FindAllSubmatch(source, -1) {
			types[string(found[1])] = true
		}
		return err
	})
	if err != nil || len(types) < 30 {
		t.Fatalf("%d types, %v", len(types), err)
	}
	for slug := range types {
		if !words.Has("problem.title." + slug) {
			t.Errorf("the type %s has no title", slug)
		}
	}
	var titles map[string]map[string]string
	if err := json.Unmarshal(words.Section("problem.title"), &titles); err != nil {
		t.Fatal(err)
	}
	for slug := range titles[words.Default] {
		if !types[slug] {
			t.Errorf("there is no type %s", slug)
		}
	}
}

// A problem is in the language for which the request asks. Clients that ask for none get English alone.
func TestAProblemSpeaksTheLanguageOfTheRequest(t *testing.T) {
	tooLong := problem.Of(&service.InvalidError{Field: "name", Problem: words.Of("problem.rule.length", words.Values{"Max": 255, "Given": 300})})
	const (
		english = "name must have 1 to 255 characters, not 300"
		korean  = "이름: 1~255자로 입력하세요(현재 300자)"
		help    = `"help":{"en":"Name must have 1 to 255 characters, not 300","ko":"` + korean + `"},`
	)
	body := func(title, detail, help string) string {
		return `{"type":"urn:codehub:problem:invalid-field","title":"` + title + `","status":400,"detail":"` + detail + `",` + help + `"field":"name"}`
	}
	for header, want := range map[string]string{
		"":                                      body("A value is not acceptable", english, ""),
		"Accept-Language: en":                   body("A value is not acceptable", english, help),
		"Accept-Language: ko-KR,ko;q=0.9":       body("입력한 값을 사용할 수 없습니다", korean, help),
		"Cookie: codehub_lang=ko":               body("입력한 값을 사용할 수 없습니다", korean, help),
		"Cookie: codehub_lang=of-no-file; a=b":  body("A value is not acceptable", english, ""),
		"Accept-Language: of, no;q=0.9, file=1": body("A value is not acceptable", english, help),
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("POST", "/", nil)
		if name, value, ok := strings.Cut(header, ": "); ok {
			r.Header.Set(name, value)
		}
		tooLong.Write(w, r)
		if got := strings.TrimSpace(w.Body.String()); inEnglishAndKorean(t, got) != want {
			t.Errorf("%q: %s\nwant %s", header, got, want)
		}
	}
}

// inEnglishAndKorean removes all languages but English and Korean from the help of a problem.
func inEnglishAndKorean(t *testing.T, body string) string {
	t.Helper()
	for _, l := range words.Languages() {
		if l.Code == "en" || l.Code == "ko" {
			continue
		}
		text := regexp.MustCompile(`,?"` + l.Code + `":"[^"]+"`)
		body = strings.Replace(text.ReplaceAllString(body, ""), "{,", "{", 1)
	}
	return body
}
