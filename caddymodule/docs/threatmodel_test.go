package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// isTest matches the beginning of a test in the source.
	isTest = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	// namesTest matches the name of a test in a document.
	namesTest = regexp.MustCompile("`((?:Test|Fuzz)\\w+)`")
)

// TestEveryClaimOfTheThreatModelIsShown checks that each row about an attempt or a secret names existing tests, and
// that both languages name the same tests.
func TestEveryClaimOfTheThreatModelIsShown(t *testing.T) {
	tests := make(map[string]bool)
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == ".git" || d.Name() == ".codehub") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range isTest.FindAllSubmatch(text, -1) {
			tests[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string][]string)
	for path, last := range map[string]string{"threat-model.md": "shown by", "threat-model.ko.md": "보여 주는 테스트"} {
		rows, claims := 0, false
		for line := range strings.Lines(read(t, path).text) {
			line = strings.TrimSpace(line)
			switch {
			case !strings.HasPrefix(line, "|"):
				claims = false
			case strings.HasSuffix(line, "| "+last+" |"):
				claims = true
			case claims && !strings.HasPrefix(line, "|---"):
				rows++
				cells := strings.Split(line, " | ")
				found := namesTest.FindAllStringSubmatch(cells[len(cells)-1], -1)
				if len(found) == 0 {
					t.Errorf("%s: no test shows %s", path, line)
				}
				for _, m := range found {
					named[path] = append(named[path], m[1])
					if !tests[m[1]] {
						t.Errorf("%s: there is no test %s", path, m[1])
					}
				}
			}
		}
		if rows < 50 {
			t.Errorf("%s: only %d claims were found", path, rows)
		}
	}
	if !slices.Equal(named["threat-model.md"], named["threat-model.ko.md"]) {
		t.Error("the languages name different tests")
	}
}
