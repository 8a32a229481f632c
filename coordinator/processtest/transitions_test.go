package processtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
)

// transitionsOnDocker are the transitions that only a run on Docker carries out. The keys are their names in the
// messages of [checkTransitions].
var transitionsOnDocker = map[string]exception{
	"action freeze": {byEngine, "control/reconcile TestNothingStaysFrozen"},
	"action thaw":   {byEngine, "control/reconcile TestNothingStaysFrozen"},
}

// checkTransitions parses the planner. It looks at every action, operation and kind of job, and at every entry in the
// planner's tables of next operations. It fails the test for each of them that no scenario carries out and that is no
// exception. points are the recorded points, each preceded by its scenario's name.
func checkTransitions(t *testing.T, points, actions []string) {
	planner, rows := sourcesOf(t, "../workspace/planner"), sourcesOf(t, "../workspace")
	phases, desired := constants(rows, "Phase"), constants(rows, "DesiredState")
	operations, kinds := constants(rows, "Operation"), constants(rows, "JobKind")
	known := constants(planner, "Action")
	table, deletion := nextOperations(planner), deletionSteps(planner)
	for what, n := range map[string]int{
		"phases": len(phases), "desired states": len(desired), "operations": len(operations), "kinds of jobs": len(kinds),
		"actions": len(known), "next operations": len(table), "steps of a deletion": len(deletion),
	} {
		if n < 2 {
			t.Fatalf("%d %s were found in the source: is this test still reading it?", n, what)
		}
	}
	done := map[string]bool{}
	for _, value := range known {
		if value != "" {
			done["action "+value] = slices.Contains(actions, value)
		}
	}
	for _, kind := range kinds {
		done["job "+kind] = slices.ContainsFunc(points, func(p string) bool { return strings.Contains(p, "-"+kind+"-*") })
	}
	begun := beginnings(points)
	for _, op := range operations {
		if op != operations["OpNone"] {
			done["operation "+op] = slices.ContainsFunc(begun, func(b beginning) bool { return b.operation == op })
		}
	}
	for _, e := range table {
		want := beginning{desired[e.desired], phases[e.phase], operations[e.operation]}
		if want.desired == "" || want.phase == "" || want.operation == "" {
			t.Fatalf("the table of the next operation has %+v, of which not all are known", e)
		}
		if e.operation != "OpNone" {
			done["from "+want.phase+" to "+want.desired+" by "+want.operation] = slices.Contains(begun, want)
		}
	}
	for _, name := range deletion {
		if name == "OpNone" {
			continue
		}
		done["deletion by "+operations[name]] = slices.ContainsFunc(begun, func(b beginning) bool {
			return b.desired == desired["DesiredDeleted"] && b.operation == operations[name]
		})
	}
	for _, what := range slices.Sorted(maps.Keys(done)) {
		_, excepted := transitionsOnDocker[what]
		switch excepted = excepted && devenv.OnKubernetes(); {
		case !done[what] && !excepted:
			t.Errorf("no scenario carries out the %q: extend one, or say in transitionsOnDocker why only Docker does", what)
		case done[what] && excepted:
			t.Errorf("%q is carried out on Kubernetes: remove it from transitionsOnDocker", what)
		}
	}
	for what := range transitionsOnDocker {
		if _, ok := done[what]; !ok {
			t.Errorf("%q is in transitionsOnDocker, but the source has nothing of this name", what)
		}
	}
}

// beginning is an operation that was begun.
type beginning struct{ desired, phase, operation string }

// beginnings are the operations that the recorded saves have begun.
func beginnings(points []string) (begun []beginning) {
	for _, p := range points {
		_, save, ok := strings.Cut(p, ": database store Save ")
		// Operation, desired state, phase; phase, operation.
		if f := strings.Fields(save); ok && len(f) == 5 && f[0] == "NONE" && f[4] != "NONE" {
			begun = append(begun, beginning{f[1], f[2], f[4]})
		}
	}
	return begun
}

// sourcesOf parses a package without its tests.
func sourcesOf(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// constants maps the names of a text type's constants to their values.
func constants(files []*ast.File, typ string) map[string]string {
	values := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			if of, ok := spec.Type.(*ast.Ident); !ok || of.Name != typ {
				return true
			}
			for i, v := range spec.Values {
				if text, ok := v.(*ast.BasicLit); ok {
					values[spec.Names[i].Name], _ = strconv.Unquote(text.Value)
				}
			}
			return true
		})
	}
	return values
}

// nextOperations returns the planner's table of that name. Its entries are the names of constants.
func nextOperations(files []*ast.File) (entries []beginning) {
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || spec.Names[0].Name != "nextOperations" {
				return true
			}
			for _, row := range spec.Values[0].(*ast.CompositeLit).Elts {
				row := row.(*ast.KeyValueExpr)
				for _, e := range row.Value.(*ast.CompositeLit).Elts {
					e := e.(*ast.KeyValueExpr)
					entries = append(entries, beginning{selected(e.Key), selected(row.Key), selected(e.Value)})
				}
			}
			return false
		})
	}
	return entries
}

// deletionSteps returns the names of the operations that nextDeletion returns.
func deletionSteps(files []*ast.File) (names []string) {
	for _, file := range files {
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); !ok || f.Name.Name != "nextDeletion" {
				continue
			}
			ast.Inspect(d, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok {
					names = append(names, selected(r.Results[0]))
				}
				return true
			})
		}
	}
	return names
}

// selected is the name that is selected from a package: OpNone of workspace.OpNone.
func selected(e ast.Expr) string {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return s.Sel.Name
	}
	return ""
}
