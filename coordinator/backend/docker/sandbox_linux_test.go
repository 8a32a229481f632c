package docker_test

import "testing"

// TestInSandboxes runs the tests of what a container of a workspace is and reaches with containers that have joined
// a sandbox.
func TestInSandboxes(t *testing.T) {
	for _, tt := range []struct {
		name string
		test func(*testing.T)
	}{
		{"conformance", TestConformance},
		{"confinement", TestConfinement},
		{"from one another", TestWorkspacesCannotReachOneAnother},
		{"published", TestPublishLoopback},
		{"network race", TestNetworkRace},
		{"home owner", TestHomeOwner},
		{"egress", TestEgress},
		{"names of servers", TestAWorkspaceTakesNoNameOfAServer},
	} {
		t.Run(tt.name, tt.test)
	}
}
