package doctor

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
)

// TestChecksOfBackends: no row of a table needs a check that is not there, and each backend has
// its own and none of the other's.
func TestChecksOfBackends(t *testing.T) {
	for backend, o := range map[string]coordinator.Options{
		"engine":  {Docker: docker.Options{Host: "unix:///nonexistent/docker.sock", Installation: "test", Image: "x"}},
		"cluster": {Kubernetes: &kubernetes.Options{Options: cluster.Options{Kubeconfig: "testdata/kubeconfig"}}},
	} {
		settings := command.Settings{Options: o}
		rows, done, err := checksOfBackend(settings)
		if err != nil {
			t.Fatal(err)
		}
		there := make(map[string]bool)
		table := patient{settings}.checks(rows)
		for _, c := range table {
			if c.Needs != "" && !there[c.Needs] || there[c.Name] {
				t.Errorf("%s: %s is there twice, or needs %q, which is not before it", backend, c.Name, c.Needs)
			}
			there[c.Name] = true
		}
		if there["engine"] == there["cluster"] || !there[backend] || !there["database"] || !there["hosts"] {
			t.Errorf("%s: checks %v", backend, there)
		}
		if err := done(); err != nil {
			t.Error(err)
		}
	}
}
