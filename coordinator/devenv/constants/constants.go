// Package constants reads the constants of a package from its source, so that tests can check that a table contains all
// of them. It is for tests and for the preview of the pages. The product must not import it.
package constants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Read returns the sorted values of some text constants of the package in dir: those of the type typeName and, if
// prefix is not empty, those whose name begins with it.
func Read[T ~string](dir, typeName, prefix string) ([]T, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", dir, err)
	}
	var values []T
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return nil, err
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
				if kind != nil && kind.Name == typeName || prefix != "" &&
					strings.HasPrefix(spec.Names[i].Name, prefix) {
					if value, err := strconv.Unquote(text.Value); err == nil { // the parser has read it
						values = append(values, T(value))
					}
				}
			}
			return false
		})
	}
	if len(values) < 2 {
		return nil, fmt.Errorf("%s has %d constants of type %s", dir, len(values), typeName)
	}
	slices.Sort(values)
	return values, nil
}
