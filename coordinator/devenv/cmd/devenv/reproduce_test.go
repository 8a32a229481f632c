package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestTwoBuildsAreCompared: different content, a different mode, and a file that only one build has are found.
func TestTwoBuildsAreCompared(t *testing.T) {
	build := func(mode os.FileMode, files ...string) map[string]string {
		dir := t.TempDir()
		for _, name := range files {
			name, text, _ := strings.Cut(name, "=")
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
				t.Fatal(err)
			}
		}
		sums, err := checksums(dir)
		if err != nil {
			t.Fatal(err)
		}
		return sums
	}
	one := build(0o644, "bin/caddy=program", "deb=package")
	for _, c := range []struct {
		other map[string]string
		want  string
	}{
		{build(0o644, "bin/caddy=program", "deb=package"), ""},
		{build(0o644, "bin/caddy=another", "deb=package"), "two builds of bin/caddy differ"},
		{build(0o755, "bin/caddy=program", "deb=package"), "two builds of bin/caddy differ"},
		{build(0o644, "bin/caddy=program"), "two builds of deb differ"},
		{build(0o644, "bin/caddy=program", "deb=package", "more="), "two builds of more differ"},
	} {
		var out strings.Builder
		err := compare(&out, one, c.other)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("the comparison says %v, not %q", err, c.want)
		}
		if c.want == "" && !strings.Contains(out.String(), "bin/caddy\n") {
			t.Errorf("the files are %q", out.String())
		}
	}
}
