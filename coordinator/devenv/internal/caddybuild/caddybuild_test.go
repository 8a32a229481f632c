package caddybuild_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
)

// The description of this repository names this repository, by an absolute path.
func TestLoadOwnDescription(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	b, err := caddybuild.Load(root)
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
		t.Errorf("%s builds Caddy %s; go.mod has another version", caddybuild.Description, b.CaddyVersion)
	}
}

func TestLoadRefuses(t *testing.T) {
	const plugins = `"plugins":[{"module_path":"m"}]`
	for name, text := range map[string]string{
		"unknown field":      `{"caddy_version":"v2.11.9","plugin":[{"module_path":"m"}]}`,
		"version not pinned": `{"caddy_version":"latest",` + plugins + `}`,
		"no version":         `{` + plugins + `}`,
		"no plugin":          `{"caddy_version":"v2.11.9"}`,
		"not JSON":           `caddy_version: v2`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, caddybuild.Description), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if b, err := caddybuild.Load(dir); err == nil {
				t.Fatalf("accepted as %+v", b)
			} else if !strings.Contains(err.Error(), caddybuild.Description) {
				t.Errorf("the error does not name the file: %v", err)
			}
		})
	}
}
