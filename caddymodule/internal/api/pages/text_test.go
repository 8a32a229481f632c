package pages

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Both languages have the same texts.
func TestTextsAreTranslated(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("static/text.js")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n  en: {")
	english, rest, _ := strings.Cut(rest, "\n  ko: {")
	korean, _, _ := strings.Cut(rest, "\n};")
	key := regexp.MustCompile(`(?m)(?:^\s+|[{,] )"?([a-zA-Z_-]+)"?:`)
	names := func(s string) (out []string) {
		for _, m := range key.FindAllStringSubmatch(s, -1) {
			out = append(out, m[1])
		}
		return out
	}
	if a, b := strings.Join(names(english), " "), strings.Join(names(korean), " "); a != b || len(names(english)) < 60 {
		t.Errorf("English has\n%s\nKorean has\n%s", a, b)
	}
}
