package coordinator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unguarded maps each function that starts a goroutine which needs no guard to the reason. A function is named by its
// folder and its name.
var unguarded = map[string]string{
	"caddymodule.Handle":                                          "it cancels a context",
	"caddymodule.untilExit":                                       "it asks Caddy for a flag",
	"caddymodule/internal/api.listen":                             "it ends the input of a command",
	"coordinator.lead":                                            "it cancels a context",
	"coordinator/backend/docker.exec":                             "it closes a connection",
	"coordinator/backend/docker/internal/ending.endOtherSessions": "it closes a connection",
	"coordinator/backend/docker/internal/sandbox.do":              "it cancels a context",
	"coordinator/backend/internal/peer.question":                  "it sets the deadline of a connection",
	"coordinator/backend/kubernetes/cluster.After":                "it sends one time",
	"coordinator/backend/kubernetes/cluster.Changes":              "it cancels a context",
	"coordinator/backend/kubernetes/cluster.RoundTrip":            "it cancels a context",
	"coordinator/backend/kubernetes/cluster.tunnel":               "it sets the deadline of a connection",
	"coordinator/control/gc.Run":                                  "it wakes a loop",
	"coordinator/control/gc.cycle":                                "it wakes a loop",
	"coordinator/control/leader.hold":                             "it wakes a loop",
	"coordinator/control/reconcile.enqueue":                       "it sends one result",
	"coordinator/control/reconcile/internal/pull.run":             "it cancels a context",
	"coordinator/control/ttl.Tick":                                "it wakes a loop",
	"coordinator/dataplane/activator.awaitAnswer":                 "it waits for a channel and cancels a context",
	"coordinator/dataplane/activator.endLocked":                   "it deletes an entry of a map",
	"coordinator/guard.Go":                                        "it calls Call, of its own package",
}

// TestGoroutinesAreGuarded: a panic in a goroutine without a guard ends the process, and with it every workspace's connections.
// Each function that a go statement, a method Go of a group, or an AfterFunc starts calls package guard, or is listed above.
func TestGoroutinesAreGuarded(t *testing.T) {
	started := 0
	exempt := make(map[string]int)
	for _, tree := range []string{".", "../caddymodule"} {
		packages := make(map[string][]*ast.File)
		files := token.NewFileSet()
		err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || developmentOnly(filepath.ToSlash(filepath.Join("coordinator", path)))) {
				return fs.SkipDir
			}
			if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return nil
			}
			file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], file)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for folder, of := range packages {
			name := strings.TrimPrefix(filepath.ToSlash(filepath.Join("coordinator", folder)), "../")
			guards := guarding(of)
			for _, file := range of {
				for _, declared := range file.Decls {
					f, is := declared.(*ast.FuncDecl)
					if !is || f.Body == nil {
						continue
					}
					ast.Inspect(f.Body, func(n ast.Node) bool {
						run := goroutine(n)
						if run == nil {
							return true
						}
						started++
						key := name + "." + f.Name.Name
						switch {
						case isGuarded(run, guards):
						case unguarded[key] != "" && exempt[key] == 0:
							exempt[key]++
						default:
							t.Errorf("%s: %s starts a goroutine that is not guarded: use package guard, or say in unguarded why it "+
								"cannot panic", files.Position(n.Pos()), key)
						}
						return true
					})
				}
			}
		}
	}
	if started < 50 {
		t.Errorf("only %d goroutines were found: is this test still reading the source?", started)
	}
	for key := range unguarded {
		if exempt[key] == 0 {
			t.Errorf("%s starts no goroutine without a guard any more", key)
		}
	}
}

// goroutine returns the function that n starts in a new goroutine, or nil.
func goroutine(n ast.Node) ast.Expr {
	switch n := n.(type) {
	case *ast.GoStmt:
		if len(n.Call.Args) > 0 { // such as go guard.Run(…)
			return n.Call
		}
		return n.Call.Fun
	case *ast.CallExpr:
		called, is := n.Fun.(*ast.SelectorExpr)
		if !is || len(n.Args) == 0 || ofGuard(n) {
			return nil
		}
		switch called.Sel.Name {
		case "Go", "TryGo", "AfterFunc":
			return n.Args[len(n.Args)-1]
		}
	}
	return nil
}

// ofGuard reports whether a call calls a function of package guard. One package imports guard under another name.
func ofGuard(call *ast.CallExpr) bool {
	called, is := call.Fun.(*ast.SelectorExpr)
	if !is {
		return false
	}
	of, is := called.X.(*ast.Ident)
	return is && (of.Name == "guard" || of.Name == "recovery") && slices.Contains([]string{"Call", "Recover", "Run", "Keep", "Go"}, called.Sel.Name)
}

// guarding returns the names of the functions of a package that call guard, including those in package guard.
func guarding(files []*ast.File) map[string]bool {
	found := make(map[string]bool)
	for _, file := range files {
		for _, declared := range file.Decls {
			if f, is := declared.(*ast.FuncDecl); is && f.Body != nil && guards(f.Body) {
				found[f.Name.Name] = true
			}
		}
	}
	return found
}

// guards reports whether something in a node calls guard.
func guards(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if call, is := n.(*ast.CallExpr); is && ofGuard(call) {
			found = true
		}
		return !found
	})
	return found
}

// isGuarded reports whether a function literal, a call, or a function or method of the package calls guard.
func isGuarded(run ast.Expr, guarding map[string]bool) bool {
	switch run := run.(type) {
	case *ast.Ident:
		return guarding[run.Name]
	case *ast.SelectorExpr:
		return guarding[run.Sel.Name]
	case *ast.CallExpr:
		return ofGuard(run) || isGuarded(run.Fun, guarding)
	}
	return guards(run)
}
