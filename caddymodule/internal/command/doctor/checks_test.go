package doctor

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
)

// TestWhetherWorkspacesDoze checks that doctor reports whether idle workspaces doze, and that a cluster cannot freeze
// containers.
func TestWhetherWorkspacesDoze(t *testing.T) {
	settings := command.Settings{Live: coordinator.DefaultSettings()}
	never, late, cluster, any := settings, settings, settings, settings
	any.Live.Limits.Dozing.Global = 0
	never.Live.TTL.Doze, late.Live.TTL.Doze = 0, settings.Live.TTL.Standby
	cluster.Options.Kubernetes = new(kubernetes.Options)
	for want, s := range map[string]command.Settings{
		"workspaces doze after 5m0s without use and keep their memory: at most 100 of them, beside those that run": settings,
		"workspaces doze after 5m0s without use and keep their memory: any number of them":                         any,
		"workspaces do not doze (ttl doze 0s, ttl standby 10m0s)":                                                  never,
		"workspaces do not doze (ttl doze 10m0s, ttl standby 10m0s)":                                               late,
		"workspaces do not doze: Kubernetes cannot freeze containers, so ttl doze has no effect":                   cluster,
	} {
		found, err := patient{s}.checkDozing(t.Context())
		if err != nil || len(found) != 1 || found[0].Text != want || found[0].Level != check.LevelOK {
			t.Errorf("%+v, %v, want %q", found, err, want)
		}
	}
}

// TestChecksOfBackends checks that every row of a table refers only to existing checks. It also checks that each
// backend has its own checks, and none of the other backend's.
func TestChecksOfBackends(t *testing.T) {
	for backend, o := range map[string]coordinator.Options{
		"engine":  {Docker: docker.Options{Host: "unix:///nonexistent/docker.sock", Installation: "test", Image: "x"}},
		"cluster": {Kubernetes: &kubernetes.Options{Options: cluster.Options{Kubeconfig: "testdata/kubeconfig"}}},
	} {
		settings := command.Settings{Options: o}
		b, err := backendOf(settings)
		if err != nil {
			t.Fatal(err)
		}
		there := make(map[string]bool)
		table := patient{settings}.checks(b)
		for _, c := range table {
			if c.Needs != "" && !there[c.Needs] || there[c.Name] {
				t.Errorf("%s: %s is there twice, or needs %q, which is not before it", backend, c.Name, c.Needs)
			}
			there[c.Name] = true
		}
		if there["engine"] == there["cluster"] || !there[backend] || !there["database"] || !there["hosts"] {
			t.Errorf("%s: checks %v", backend, there)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAddressesAreChecked: a wrong address is a warning with a remedy.
func TestAddressesAreChecked(t *testing.T) {
	s := command.Settings{PublicURL: "https://codehub.example.com", MainHost: "codehub.example.com", Servers: []site.Server{{Name: "srv0", MaxHeader: site.HeaderRoom, TLS: true}}}
	for _, loose := range []bool{false, true} {
		s.Servers[0].Trusts = loose
		found, err := patient{s}.checkProxies(t.Context())
		if err != nil || len(found) != 1 || (found[0].Level == check.LevelWarning) != loose || (found[0].Remedy != "") != loose {
			t.Errorf("trusted without strict %v: %+v, %v", loose, found, err)
		}
	}
}
