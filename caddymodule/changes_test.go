package codehub

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestChangesAreItems checks that every file in .changes consists of list items, as the list of a release needs.
func TestChangesAreItems(t *testing.T) {
	files, err := filepath.Glob("../.changes/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "- ") && !strings.HasPrefix(line, "  ") || !strings.HasSuffix(line, "\n") {
				t.Errorf("%s: %q belongs to no item: begin an item with \"- \", its other lines with two spaces", file, line)
			}
		}
		if filepath.Ext(file) != ".md" || len(text) == 0 {
			t.Errorf("%s is no Markdown, or empty", file)
		}
	}
}

// TestMakeChangelog makes two releases, each from one file.
func TestMakeChangelog(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	makefile, err := filepath.Abs("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, ".changes"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("CHANGELOG.md", "# Changelog\n\n## Unreleased\n\n- Before the files.\n\n## 0.1.0 (2026-11-25)\n\nThe first.\n")
	for _, version := range []string{"0.2.0", "0.3.0"} {
		write(".changes/one.md", "- New in "+version+".\n")
		if out, err := exec.Command("make", "-s", "-C", dir, "-f", makefile, "changelog", "VERSION="+version).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(got)) {
		if head, _, dated := strings.Cut(line, " ("); dated { // the day of the test
			line = head + "\n"
		}
		lines = append(lines, line)
	}
	const want = "# Changelog\n\n## 0.3.0\n\n- New in 0.3.0.\n\n## 0.2.0\n\n- New in 0.2.0.\n- Before the files.\n\n## 0.1.0\n\nThe first.\n"
	if text := strings.Join(lines, ""); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".changes", "*")); len(left) > 0 {
		t.Errorf("these files are left: %v", left)
	}
}
