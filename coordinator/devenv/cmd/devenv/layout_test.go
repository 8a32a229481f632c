package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
)

func TestOwnLayout(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	if err := checkLayout(root); err != nil {
		t.Error(err)
	}
}

func TestLayoutNamesWhatIsStrange(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"caddymodule", "README.md", ".gitignore", ".ci"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkLayout(dir); err != nil {
		t.Fatalf("an allowed layout is refused: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "utils"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := checkLayout(dir); err == nil || !strings.Contains(err.Error(), "utils") {
		t.Errorf("a strange folder is not named: %v", err)
	}
}
