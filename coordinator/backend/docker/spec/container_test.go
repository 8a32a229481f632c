package spec

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A workspace's host name is never that of a server: it has a domain.
func TestHostnameHasADomain(t *testing.T) {
	const id = workspace.ID("0a1b2c3d-0000-4000-8000-000000000000")
	for name, want := range map[string]string{
		"": id.ContainerName(), "git": "git.ws-0a1b2c3d",
		strings.Repeat("x", 63):             strings.Repeat("x", 52) + ".ws-0a1b2c3d",
		strings.Repeat("x", 51) + "-longer": strings.Repeat("x", 51) + ".ws-0a1b2c3d",
	} {
		c := Workspace(Options{}, backend.StartSpec{ID: id, Hostname: name}, "net", Address{})
		if got := c.Config.Hostname; got != want || len(got) > maxHostname {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
