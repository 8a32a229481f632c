package docker

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOnlyTheseImportTheSDK: Docker's SDK is no longer developed and will be replaced. Only a few packages may import
// it.
func TestOnlyTheseImportTheSDK(t *testing.T) {
	const root = "../../.."
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	allowed := []string{
		"coordinator/backend/docker", "coordinator/devenv",
		"caddymodule/e2e", "coordinator/processtest", // tests that inspect containers from outside
	}
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != ".." {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		for _, i := range file.Imports {
			if !strings.HasPrefix(i.Path.Value, `"github.com/docker/docker/`) {
				continue
			}
			found++
			if !slices.ContainsFunc(allowed, func(a string) bool { return strings.HasPrefix(filepath.ToSlash(name), a+"/") }) {
				t.Errorf("%s imports Docker's SDK", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found == 0 {
		t.Error("no file imports the SDK: this test does not see imports")
	}
}
