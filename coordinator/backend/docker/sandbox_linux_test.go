package docker_test

import (
	"testing"

	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/seed"
)

// TestInSandboxes repeats tests with containers that have joined a sandbox: the tests of what a workspace's container
// is, and of what it can reach. The tests of the isolation of workspaces always run. Of the others, a random third
// runs, or all with [seed.All].
func TestInSandboxes(t *testing.T) {
	type sandboxed struct {
		name string
		test func(*testing.T)
	}
	t.Run("conformance", func(t *testing.T) { backendtest.RunThird(t, newEngine(t)) })
	for _, tt := range append(seed.Third(t, []sandboxed{
		{"published", TestPublishLoopback},
		{"network race", TestNetworkRace},
		{"home owner", TestHomeOwner},
		{"names of servers", TestAWorkspaceTakesNoNameOfAServer},
	}), sandboxed{"confinement", TestConfinement}, sandboxed{"from one another", TestWorkspacesCannotReachOneAnother},
		sandboxed{"egress", TestEgress}) {
		t.Run(tt.name, tt.test)
	}
}
