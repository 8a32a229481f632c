package codehub

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// citation matches a citation of the specification or the design in code and documents.
	citation = regexp.MustCompile(`\b(SPEC|DESIGN) ([0-9]+(?:\.[0-9]+)?)(?:, contract ([0-9]+))?`)
	// numbered matches the heading of a section, or the beginning of a rule in a numbered list.
	numbered = regexp.MustCompile(`^(?:## )?([0-9]+)\. `)
	contract = regexp.MustCompile(`^\| ([0-9]+) \|`)
)

// sections returns the citable parts of a document: "3", "12.9", "1, contract 4".
func sections(t *testing.T, path string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	known, section := make(map[string]bool), ""
	for line := range strings.Lines(string(text)) {
		if m := contract.FindStringSubmatch(line); m != nil {
			known[section+", contract "+m[1]] = true
		}
		m := numbered.FindStringSubmatch(line)
		switch {
		case m == nil:
		case strings.HasPrefix(line, "## "):
			section = m[1]
			known[section] = true
		case section == "":
			known[m[1]] = true // a document without sections
		default:
			known[section+"."+m[1]] = true
		}
	}
	return known
}

// TestCitationsLeadSomewhere checks the citations in every file that people write.
func TestCitationsLeadSomewhere(t *testing.T) {
	t.Parallel()
	known := map[string]map[string]bool{"SPEC": sections(t, "../coordinator/SPEC.md"), "DESIGN": sections(t, "../coordinator/DESIGN.md")}
	cited := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == ".codehub" || d.Name() == "vendor"):
			return filepath.SkipDir
		case d.IsDir() || d.Name() == "citations_test.go":
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".md", ".sql", ".js", ".html", ".yaml", ".tpl", ".example", "":
		default:
			return nil
		}
		info, err := d.Info()
		if err != nil || info.Size() > 1<<20 {
			return err // a program
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range citation.FindAllStringSubmatch(string(text), -1) {
			cited++
			if at := m[2] + strings.TrimSuffix(", contract "+m[3], ", contract "); !known[m[1]][at] {
				t.Errorf("%s cites %s, which does not exist", path, m[0])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if cited < 200 {
		t.Errorf("only %d citations were found", cited)
	}
}
