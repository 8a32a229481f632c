package docs_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// document is a parsed Markdown file.
type document struct {
	path     string
	text     string // without its blocks
	headings []heading
	blocks   []block
}

type heading struct {
	level  int
	anchor string
}

// block is a fenced block.
type block struct{ document, language, text string }

var (
	// fence begins or ends a block. It may be indented below a list item.
	fence     = regexp.MustCompile("^ *```([a-z]*)$")
	isHeading = regexp.MustCompile(`^(#+) (.*)$`)
	isLink    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
)

// read parses a document.
func read(t *testing.T, path string) document {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := document{path: path}
	var open *block
	seen := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		m := fence.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case m != nil && open == nil:
			open = &block{document: path, language: m[1]}
		case m != nil:
			d.blocks = append(d.blocks, *open)
			open = nil
		case open != nil:
			open.text += line
		default:
			d.text += line
			if h := isHeading.FindStringSubmatch(strings.TrimSpace(line)); h != nil {
				anchor := slug(h[2])
				if n := seen[anchor]; n > 0 {
					t.Errorf("%s has two headings %q", path, h[2])
				}
				seen[anchor]++
				d.headings = append(d.headings, heading{len(h[1]), anchor})
			}
		}
	}
	if open != nil {
		t.Errorf("%s: a block does not end", path)
	}
	return d
}

// slug returns the anchor that GitHub gives a heading.
func slug(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// guides returns the documents for users, in all languages.
func guides(t *testing.T) (all []document) {
	t.Helper()
	for _, pattern := range []string{
		"*.md", "../../README.md", "../../README.ko.md", "../../SECURITY.md", "../../CONTRIBUTING.md",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("no %s, %v", pattern, err)
		}
		for _, path := range paths {
			all = append(all, read(t, path))
		}
	}
	return all
}

// everyDocument returns all documents of the repository.
func everyDocument(t *testing.T) (all []document) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".codehub" || d.Name() == "vendor"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			all = append(all, read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestLinks checks every link to a file, a picture or a heading of this repository.
func TestLinks(t *testing.T) {
	followed := 0
	for _, d := range everyDocument(t) {
		for _, m := range isLink.FindAllStringSubmatch(d.text, -1) {
			followed++
			at, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", d.path, err)
				continue
			}
			if at.IsAbs() {
				if at.Scheme != "https" || at.Host == "" {
					t.Errorf("%s links to %s, which is no address of https", d.path, m[1])
				}
				continue
			}
			target := d
			if at.Path != "" {
				path := filepath.Join(filepath.Dir(d.path), at.Path)
				if _, err := os.Stat(path); err != nil {
					t.Errorf("%s: %v", d.path, err)
					continue
				}
				if at.Fragment == "" {
					continue
				}
				target = read(t, path)
			}
			if !slices.ContainsFunc(target.headings, func(h heading) bool { return h.anchor == at.Fragment }) {
				t.Errorf("%s links to %s, which has no such heading", d.path, m[1])
			}
		}
	}
	if followed < 100 {
		t.Errorf("only %d links were found", followed)
	}
}

// TestEveryGuideIsInTheReadme checks that the README of each language links to its guides.
func TestEveryGuideIsInTheReadme(t *testing.T) {
	for _, d := range guides(t) {
		readme := read(t, "../../README.md")
		if isKorean(d.path) {
			readme = read(t, "../../README.ko.md")
		}
		if filepath.Dir(d.path) == "." && !strings.Contains(readme.text, "(caddymodule/docs/"+d.path+")") {
			t.Errorf("%s does not lead to %s", readme.path, d.path)
		}
	}
}

func isKorean(path string) bool { return strings.HasSuffix(path, ".ko.md") }

// onlyEnglish maps each document that has no Korean version to the reason.
var onlyEnglish = map[string]string{
	"settings.md":           "is generated from the documentation of the code",
	"metrics.md":            "is generated from the table of metrics, which Prometheus shows in English",
	"../../SECURITY.md":     "is for people who audit; security.ko.md says what it means",
	"../../CONTRIBUTING.md": "is for people who change the code, whose comments are English",
}

// TestTheLanguagesAgree checks that both languages have the same headings and the same blocks, apart from comments and
// drawings.
func TestTheLanguagesAgree(t *testing.T) {
	for _, d := range guides(t) {
		if isKorean(d.path) || onlyEnglish[d.path] != "" {
			continue
		}
		other := read(t, strings.TrimSuffix(d.path, ".md")+".ko.md")
		levels := func(d document) (all []int) {
			for _, h := range d.headings {
				all = append(all, h.level)
			}
			return all
		}
		if !slices.Equal(levels(d), levels(other)) {
			t.Errorf("%s has the headings %v, %s %v", d.path, levels(d), other.path, levels(other))
		}
		if rows(d) != rows(other) {
			t.Errorf("%s has %d rows of tables, %s %d", d.path, rows(d), other.path, rows(other))
		}
		if len(d.blocks) != len(other.blocks) {
			t.Errorf("%s has %d blocks, %s %d", d.path, len(d.blocks), other.path, len(other.blocks))
			continue
		}
		for i, b := range d.blocks {
			theirs := other.blocks[i]
			if b.language != theirs.language || b.language != "" && withoutComments(b) != withoutComments(theirs) {
				t.Errorf("%s and %s differ:\n%s\n%s", d.path, other.path, b.text, theirs.text)
			}
		}
	}
}

func rows(d document) int { return strings.Count(d.text, "\n|") }

var comment = regexp.MustCompile(`(?m)(^|\s)\s*#.*$`)

// withoutComments returns the text of a block without comments.
func withoutComments(b block) string {
	text := comment.ReplaceAllString(b.text, "$1")
	return regexp.MustCompile(`(?m)\s+$`).ReplaceAllString(text, "")
}

// TestEveryReasonIsExplained checks that the guide explains every reason why a workspace may wait or be in ERROR.
func TestEveryReasonIsExplained(t *testing.T) {
	guide, found := read(t, "troubleshooting.md"), 0
	for file, reasons := range map[string]string{
		"waiting.go": `Wait\w+ += "(\w+)"`, "phase.go": `Reason\w+ +ErrorReason = "(\w+)"`,
	} {
		text, err := os.ReadFile(filepath.Join("../../coordinator/workspace", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(reasons).FindAllStringSubmatch(string(text), -1) {
			found++
			if !strings.Contains(guide.text, "`"+m[1]+"`") {
				t.Errorf("%s does not explain %s", guide.path, m[1])
			}
		}
	}
	if found < 30 {
		t.Errorf("only %d reasons were found", found)
	}
}

// TestTheLabels checks that the guides call buttons and other parts of the dashboard by the labels that the dashboard
// shows.
func TestTheLabels(t *testing.T) {
	keys := []string{
		"new_workspace", "create", "open", "details", "account", "archive_restore", "sessions_title", "phase.RUNNING",
	}
	for language, korean := range map[string]bool{"en": false, "ko": true} {
		var said strings.Builder
		for _, d := range guides(t) {
			if isKorean(d.path) == korean {
				said.WriteString(d.text)
			}
		}
		text, err := os.ReadFile("../../coordinator/words/languages/" + language + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var words struct{ Dashboard map[string]any }
		if err := json.Unmarshal(text, &words); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			at := any(words.Dashboard)
			for part := range strings.SplitSeq(key, ".") {
				at = at.(map[string]any)[part]
			}
			if label, _ := at.(string); label == "" || !strings.Contains(said.String(), "**"+label+"**") {
				t.Errorf("%s: the guides do not have **%v** (%s)", language, at, key)
			}
		}
	}
}

// TestPictures checks that each picture is used and small. `make screenshots` makes them from the preview's pages
// dashboard/tour and wake/job-unpack-0, in the light theme, 1280 wide and with a palette.
func TestPictures(t *testing.T) {
	files, err := filepath.Glob("*.png")
	if err != nil || len(files) != 4 {
		t.Errorf("%d pictures, %v", len(files), err)
	}
	for _, file := range files {
		if info, err := os.Stat(file); err != nil || info.Size() > 80_000 {
			t.Errorf("%s has %d bytes, %v", file, info.Size(), err)
		}
		if !slices.ContainsFunc(guides(t), func(d document) bool { return strings.Contains(d.text, file+")") }) {
			t.Errorf("no document shows %s", file)
		}
	}
}
