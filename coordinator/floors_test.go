package coordinator

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// floors are the folders of this tree from the bottom up, as the README draws them. A folder
// that is not listed stands at the bottom.
var floors = [][]string{
	{"backend", "archive", "store", "launch"},
	{"identity"},
	{"dataplane"},
	{"control"},
	{""}, // the package coordinator
}

// TestImportsPointDownwards: each floor imports only lower floors, so that an upper floor can change without any change
// in the lower ones.
func TestImportsPointDownwards(t *testing.T) {
	const module = "github.com/codehub/gateway/coordinator"
	floor := make(map[string]int)
	for i, folders := range floors {
		for _, folder := range folders {
			floor[folder] = i + 1
		}
	}
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		of := top(filepath.ToSlash(filepath.Dir(path)))
		for _, i := range file.Imports {
			name, ours := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), module)
			if !ours || of == "devenv" || of == "processtest" {
				continue
			}
			found++
			if to := top(strings.TrimPrefix(name, "/")); floor[to] > floor[of] {
				t.Errorf("%s imports %s, which stands above it", path, strings.Trim(i.Path.Value, `"`))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if found < 100 {
		t.Errorf("only %d imports were found: is this test still reading the source?", found)
	}
}

// top returns the first folder of a path, "" for this package.
func top(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "."), "/")
	return first
}
