package caddybuild

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
)

// The description of this repository names this repository, by an absolute path.
func TestLoadOwnDescription(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Load(root)
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Plugins) != 1 || b.Plugins[0].PackagePath != "github.com/codehub/gateway/caddymodule" {
		t.Errorf("plugins: %+v", b.Plugins)
	}
	if len(b.Replacements) != 1 || string(b.Replacements[0].New) != root {
		t.Errorf("replacements: %+v; want this repository, %s", b.Replacements, root)
	}
	// The version must be the one that go.mod tests with.
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(mod), "github.com/caddyserver/caddy/v2 "+b.CaddyVersion+"\n") {
		t.Errorf("%s builds Caddy %s; go.mod has another version", Description, b.CaddyVersion)
	}
}

func TestLoadRefuses(t *testing.T) {
	const plugins = `"plugins":[{"module_path":"m"}]`
	for name, text := range map[string]string{
		"unknown field":      `{"caddy_version":"v2.11.9","plugin":[{"module_path":"m"}]}`,
		"version not pinned": `{"caddy_version":"latest",` + plugins + `}`,
		"no version":         `{` + plugins + `}`,
		"no plugin":          `{"caddy_version":"v2.11.9"}`,
		"second value":       `{"caddy_version":"v2.11.9",` + plugins + `} {}`,
		"not JSON":           `caddy_version: v2`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, Description), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if b, err := Load(dir); err == nil {
				t.Fatalf("accepted as %+v", b)
			} else if !strings.Contains(err.Error(), Description) {
				t.Errorf("the error does not name the file: %v", err)
			}
		})
	}
}

// What the program is made from decides whether it is built; tests do not.
func TestInputsAreSourcesOnly(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := hashInputs(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	for _, name := range []string{Description, "go.mod", "go.sum", "caddymodule/a.go"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	last := write("coordinator/a.go", "1")
	for _, c := range []struct {
		name, text string
		counts     bool
	}{
		{"coordinator/a.go", "2", true},
		{"coordinator/store/migrations/1.sql", "1", true},
		{"caddymodule/page.html", "1", true},
		{"go.sum", "1", true},
		{"coordinator/a_test.go", "1", false},
		{"caddymodule/testdata/x", "1", false},
		{"coordinator/devenv/x.go", "1", false},
		{"README.md", "1", false},
	} {
		next := write(c.name, c.text)
		if changed := next != last; changed != c.counts {
			t.Errorf("changing %s changes the inputs: %v, want %v", c.name, changed, c.counts)
		}
		last = next
	}
}
