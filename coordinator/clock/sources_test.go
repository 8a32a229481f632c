package clock_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// judging are the folders whose packages make decisions by time, including their subfolders.
var judging = []string{"workspace", "control/reconcile", "control/ttl", "control/gc", "control/scrub", "store",
	"control/orphan", "dataplane/service", "dataplane/explain",
	"control/leader", "dataplane/activity", "control/pressure", "control/scarcity", "dataplane/auth", "identity", "archive",
	"dataplane/activator",
	"backend/docker", "backend/kubernetes", "backend/internal/peer"}

// Why a function may read the clock of this process.
const (
	paces   = "the pace of a loop, or how long something took: the monotonic clock, in this process only"
	skews   = "how far a server's clock differs from this one, for a person"
	follows = "the store's clock: this one, corrected by the dates of the store's answers"
	shows   = "when something was measured, for a person to look at"
	ages    = "how old an engine's object is, in hours: where the clocks differ a start takes longer, or a name server is older"
	rests   = "how long an engine's object exists, in hours: what is listed is removed only on a person's command"
)

// readers are the functions that may read this process's clock, each with the reason.
var readers = map[string]string{
	"dataplane/activator.(*Activator).InProgress":            paces,
	"dataplane/activator.(*Activator).begin":                 paces,
	"dataplane/activator.(*WakeUp).endLocked":                paces,
	"dataplane/activator.(*WakeUp).expired":                  paces,
	"dataplane/activator.(*WakeUp).follow":                   paces,
	"dataplane/activator.(*WakeUp).late":                     paces,
	"dataplane/activator.(*WakeUp).mayWake":                  paces,
	"dataplane/activator.(*WakeUp).wait":                     paces,
	"archive.(*Store).now":                                   follows,
	"archive.skewOf":                                         follows,
	"backend/docker/doctor.checks.checkEngine":               skews,
	"backend/docker.(*Docker).Stats":                         shows,
	"backend/docker/internal/ending.Ender.Ask":               paces,
	"backend/docker/internal/hostmemory.(*Host).known":       paces,
	"backend/docker/internal/hostmemory.(*Host).learn":       paces,
	"backend/docker/internal/network.New":                    paces,
	"backend/docker/internal/home.(*diskProbe).known":        paces,
	"backend/docker/internal/home.(*diskProbe).learn":        paces,
	"backend/docker/internal/sampler.(*Sampler).Sample":      paces,
	"backend/docker/internal/sandbox.Sandbox.Fits":           ages,
	"backend/kubernetes.(*Backend).Disk":                     paces,
	"backend/kubernetes.(*Backend).whyNoPod":                 paces,
	"backend/kubernetes/cluster.newCache":                    paces,
	"backend/kubernetes/cluster.ctxClock.After":              paces,
	"backend/kubernetes/internal/sampler.Sample":             paces,
	"backend/kubernetes/internal/sampler.Stats":              shows,
	"backend/internal/peer.New":                              paces,
	"control/reconcile/internal/readiness.(*Watch).Run":      paces,
	"control/leader.(*Elector).Run":                          paces,
	"control/leader.(*heartbeat).deadline":                   paces,
	"control/leader.(*session).begin":                        paces,
	"control/orphan.(*Finder).judge":                         rests,
	"control/pressure.New":                                   paces,
	"archive.countingClient.Do":                              paces,
	"control/reconcile.(*loop).reconcile":                    paces,
	"control/reconcile.(*loop).addPull":                      paces,
	"control/reconcile.(*loop).taskFailed":                   paces,
	"control/reconcile/internal/trail.Begin":                 shows,
	"control/reconcile/internal/trail.(*Operation).Done":     paces,
	"control/reconcile/internal/trail.(*Operation).traceJob": shows,
	"control/reconcile.(*loop).decide":                       paces,
	"control/reconcile.(*loop).enqueue":                      paces,
	"control/reconcile.(*loop).follow":                       paces,
	"control/reconcile.(*loop).observe":                      paces,
	"control/reconcile.(*loop).run":                          paces,
	"control/reconcile.(*loop).untilNext":                    paces,
	"control/reconcile.(*state).backingOff":                  paces,
	"control/reconcile.(*state).retryIn":                     paces,
	"control/reconcile/internal/observation.(*Tracker).Add":  paces,
	"control/reconcile/internal/observation.Store.Ask":       paces,
	"control/reconcile/internal/schedule.(*Executor).Next":   paces,
	"control/reconcile/internal/prepull.(*Puller).look":      shows,
	"control/reconcile/internal/pull.(*Pool).run":            paces,
	"control/scrub.(*Runner).check":                          paces,
	"control/scrub.(*Runner).lookAtHealth":                   paces,
	"control/ttl.(*Runner).sync":                             paces,
	"control/reconcile.(*loop).isolate":                      paces,
	"control/reconcile.(*loop).setAside":                     paces,
	"store/postgres.(*DB).untilUnlocked":                     paces,
}

// TestNothingIsJudgedByThisProcessesClock: compared times are the database's (SPEC 12.13). A function that needs
// another clock is listed with the reason.
func TestNothingIsJudgedByThisProcessesClock(t *testing.T) {
	found := make(map[string]bool)
	for _, folder := range judging {
		err := filepath.WalkDir(filepath.Join("..", folder), func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() && strings.HasSuffix(path, "test") {
				return filepath.SkipDir // the support of tests
			}
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			for _, declared := range file.Decls {
				ast.Inspect(declared, func(n ast.Node) bool {
					if readsClock(n) {
						found[filepath.ToSlash(filepath.Dir(path))[len("../"):]+"."+name(declared)] = true
					}
					return true
				})
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for f := range found {
		if readers[f] == "" {
			t.Errorf("%s reads this process's clock: take the time from clock.Database, or from now() in the statement",
				f)
		}
	}
	for f := range readers {
		if !found[f] {
			t.Errorf("%s does not read this process's clock any more: take it from the list", f)
		}
	}
}

// readsClock reports whether n is a function of package time that reads the clock.
func readsClock(n ast.Node) bool {
	s, ok := n.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := s.X.(*ast.Ident)
	return ok && pkg.Name == "time" && slices.Contains([]string{"Now", "Since", "Until"}, s.Sel.Name)
}

// name returns the name of a function with its receiver, or "var" for anything else.
func name(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	switch {
	case !ok:
		return "var"
	case f.Recv == nil:
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		return fmt.Sprintf("(*%s).%s", star.X, f.Name.Name)
	}
	return fmt.Sprintf("%s.%s", receiver, f.Name.Name)
}
