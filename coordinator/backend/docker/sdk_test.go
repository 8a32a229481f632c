package docker

import (
	"os/exec"
	"strings"
	"testing"
)

// TestOnlyTheseImportTheSDK: Docker's SDK is frozen and will be replaced. Few packages
// may know it.
func TestOnlyTheseImportTheSDK(t *testing.T) {
	const module, sdk = "github.com/codehub/gateway/", "github.com/docker/docker/"
	allowed := []string{
		module + "coordinator/backend/docker",
		module + "coordinator/devenv",
		module + "caddymodule/e2e", // tests that look at containers from outside
	}
	list := exec.CommandContext(t.Context(), "go", "list", "-f",
		`{{.ImportPath}}: {{join .Imports " "}} {{join .TestImports " "}} {{join .XTestImports " "}}`, module+"...")
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		pkg, imports, _ := strings.Cut(line, ": ")
		if !strings.Contains(imports, sdk) {
			continue
		}
		found++
		ok := false
		for _, a := range allowed {
			ok = ok || pkg == a || strings.HasPrefix(pkg, a+"/")
		}
		if !ok {
			t.Errorf("%s imports Docker's SDK", pkg)
		}
	}
	if found == 0 {
		t.Error("no package imports the SDK: this test does not see imports")
	}
}
