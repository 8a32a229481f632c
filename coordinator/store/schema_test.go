package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// constants returns the values of the constants of the given type in package
// workspace, read from its source so that none can be left out.
func constants(t testing.TB, typeName string) []string {
	t.Helper()
	return constantsOf(t, "../workspace/phase.go", typeName)
}

// constantsOf does the same for the constants of a file.
func constantsOf(t testing.TB, path, typeName string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != typeName {
			return false
		}
		for _, v := range spec.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, text)
		}
		return false
	})
	if len(out) < 2 {
		t.Fatalf("%s has %d constants of type %s", path, len(out), typeName)
	}
	slices.Sort(out)
	return out
}

// TestTheSchemaAllowsExactlyTheConstantsOfGo compares the CHECK constraints with the
// constants of package workspace.
func TestTheSchemaAllowsExactlyTheConstantsOfGo(t *testing.T) {
	s := open(t)
	for column, typeName := range map[string]string{"phase": "Phase", "operation": "Operation", "desired_state": "DesiredState"} {
		check := value[string](t, s, `SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'workspaces_' || $1 || '_check'`, column)
		if got, want := postgrestest.Matches(`'([^']+)'::text`, check), constants(t, typeName); !slices.Equal(got, want) {
			t.Errorf("the schema allows %s %v, Go has %v", column, got, want)
		}
	}
	for _, op := range constants(t, "Operation") {
		if _, ok := planner.DefaultTimeouts()[workspace.Operation(op)]; ok == (op == string(workspace.OpNone)) {
			t.Errorf("operation %s has a default timeout: %v", op, ok)
		}
	}
}
