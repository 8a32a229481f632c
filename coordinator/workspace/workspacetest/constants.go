// Package workspacetest helps tests that compare tables with the constants of package workspace.
package workspacetest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Constants returns the sorted values of the text constants of the package in dir, read from
// its source so that none can be left out: those of a type, and those whose name begins with a
// prefix, if that is not empty. dir is relative to the package that is tested.
func Constants[T ~string](t testing.TB, dir, typeName, prefix string) []T {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var values []T
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			kind, _ := spec.Type.(*ast.Ident)
			for i, v := range spec.Values {
				text, ok := v.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					continue
				}
				if kind != nil && kind.Name == typeName || prefix != "" && strings.HasPrefix(spec.Names[i].Name, prefix) {
					value, err := strconv.Unquote(text.Value)
					if err != nil {
						t.Fatal(err)
					}
					values = append(values, T(value))
				}
			}
			return false
		})
	}
	if len(values) < 2 {
		t.Fatalf("%s has %d constants of type %s", dir, len(values), typeName)
	}
	slices.Sort(values)
	return values
}
