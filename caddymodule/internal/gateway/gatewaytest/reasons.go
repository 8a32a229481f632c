package gatewaytest

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// waitReason is a line of package workspace that names a reason for waiting.
var waitReason = regexp.MustCompile(`(?m)^\tWait\w+\s+= "(\w+)"$`)

// WaitReasons returns every reason for which a workspace waits, from the source of the
// coordinator below root.
func WaitReasons(t testing.TB, root string) []string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, "coordinator/workspace/waiting.go"))
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, m := range waitReason.FindAllStringSubmatch(string(source), -1) {
		reasons = append(reasons, m[1])
	}
	if len(reasons) < 20 {
		t.Fatalf("only %d reasons", len(reasons))
	}
	return reasons
}
