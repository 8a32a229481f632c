package coordinator

import (
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"
)

// developmentPlaces are the folders with code for the product's development and tests. Every package whose name ends in
// "test" counts as well.
var developmentPlaces = []string{
	"coordinator/devenv",                     // private servers, builds and tools
	"coordinator/control/reconcile/simulate", // the load of a million workspaces, for the guide
	"coordinator/seed",                       // the random numbers of tests
	"coordinator/wait",                       // how tests wait
	"coordinator/testlog",                    // where the product logs in tests
	"caddymodule/internal/preview",           // every page in every state, for `make preview`
	"caddymodule/e2e",                        // the whole product in a browser
	"caddymodule/deploy", "caddymodule/docs", // tests of the chart, the package and the guides
}

func developmentOnly(name string) bool {
	return slices.ContainsFunc(developmentPlaces, func(place string) bool { return name == place || strings.HasPrefix(name, place+"/") }) ||
		slices.ContainsFunc(strings.Split(path.Clean(name), "/"), func(element string) bool { return strings.HasSuffix(element, "test") })
}

// TestWhatShipsImportsNoDevelopmentCode also finds every package that does not ship although it is outside the
// development places. Such a package is dead code, or a tool in the wrong place.
func TestWhatShipsImportsNoDevelopmentCode(t *testing.T) {
	const module = "github.com/codehub/gateway/"
	list := func(args ...string) (names []string) {
		t.Helper()
		cmd := exec.Command("go", append([]string{"list"}, args...)...)
		cmd.Dir = ".."
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		for line := range strings.Lines(string(out)) {
			if name, ours := strings.CutPrefix(strings.TrimSpace(line), module); ours {
				names = append(names, name)
			}
		}
		return names
	}
	shipped := list("-deps", "./caddymodule", "./storagejob")
	for _, name := range list("./...") {
		switch ships := slices.Contains(shipped, name); {
		case ships && developmentOnly(name):
			t.Errorf("%s ships, although it is development code", name)
		case !ships && !developmentOnly(name):
			t.Errorf("%s does not ship: delete it, or move it to a place of development code", name)
		}
	}
	if len(shipped) < 50 {
		t.Errorf("only %d packages ship: does this test still read the list?", len(shipped))
	}
}
