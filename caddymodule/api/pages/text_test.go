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

// Every reason for waiting has its sentence in Korean; in English the server says it.
func TestReasonsForWaitingAreTranslated(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("../../../coordinator/workspace/waiting.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("static/text.js")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "const waitsInKorean = {")
	table, _, _ = strings.Cut(table, "\n};")
	reasons := regexp.MustCompile(`(?m)^\tWait\w+\s+= "(\w+)"$`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 20 {
		t.Fatalf("only %d reasons", len(reasons))
	}
	for _, r := range reasons {
		if !strings.Contains(table, "\n  "+r[1]+": (") {
			t.Errorf("nothing for %s", r[1])
		}
	}
}
