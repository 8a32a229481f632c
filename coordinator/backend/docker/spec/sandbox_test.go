package spec_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

const sleeper workspace.ID = "11111111-1111-4111-8111-111111111111"

// described returns the container of a workspace at an address or, with published ports, at a port.
func described(t *testing.T, publish string, s backend.StartSpec) spec.Container {
	t.Helper()
	o := spec.Options{Installation: "test", Image: "image", Publish: publish}.WithDefaults()
	subnet := netip.MustParsePrefix("10.9.0.0/16")
	at, err := o.Address(s.Slot, subnet)
	if err != nil {
		t.Fatal(err)
	}
	s.ID, s.Term = sleeper, "term"
	return spec.Workspace(o, s, "net", at, 0)
}

// TestWhatASandboxFits: the whole network must be the same, and nothing else.
func TestWhatASandboxFits(t *testing.T) {
	slot := spec.Number(netip.MustParseAddr("10.9.0.5"))
	base := spec.NetworkHash(described(t, spec.PublishNone, backend.StartSpec{Slot: slot}))
	for name, c := range map[string]struct {
		publish string
		spec    backend.StartSpec
		fits    bool
	}{
		"the same":        {spec.PublishNone, backend.StartSpec{Slot: slot}, true},
		"another image":   {spec.PublishNone, backend.StartSpec{Slot: slot, Image: "other", Env: []string{"A=b"}, Port: 9090}, true},
		"another address": {spec.PublishNone, backend.StartSpec{Slot: slot + 1}, false},
		"no address":      {spec.PublishNone, backend.StartSpec{}, false},
		"another name":    {spec.PublishNone, backend.StartSpec{Slot: slot, Hostname: "other"}, false},
		"published":       {spec.PublishLoopback, backend.StartSpec{Slot: 42000}, false},
	} {
		if got := spec.NetworkHash(described(t, c.publish, c.spec)) == base; got != c.fits {
			t.Errorf("%s: it fits: %v", name, got)
		}
	}
}

// TestSandboxHasWhatTheContainerHad: a sandbox made from the engine's inspection of one container fits the description
// of the next one.
func TestSandboxHasWhatTheContainerHad(t *testing.T) {
	o := spec.Options{Installation: "test", JobImage: "job"}.WithDefaults()
	plain := described(t, spec.PublishNone, backend.StartSpec{Slot: spec.Number(netip.MustParseAddr("10.9.0.5")), Owner: "owner"})
	told := &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{HostConfig: plain.Host}, Config: plain.Config,
		NetworkSettings: &container.NetworkSettings{Networks: map[string]*network.EndpointSettings{
			"its name": plain.Network.EndpointsConfig["net"],
		}},
	}
	box := spec.Sandbox(o, sleeper, spec.Inspected(told))
	if box.Config.Labels[spec.LabelSpec] != spec.NetworkHash(plain) || box.Address() != plain.Address() || box.Config.Hostname != plain.Config.Hostname {
		t.Errorf("%+v in place of %+v", box, plain)
	}
	if !o.Owns(box.Config.Labels, sleeper, spec.KindSandbox) || o.Owns(box.Config.Labels, sleeper, spec.KindWorkspace) || box.Config.Labels[spec.LabelOwner] != "owner" {
		t.Errorf("labels %v", box.Config.Labels)
	}
}

// TestJoining: the engine refuses a description with settings of the sandbox.
func TestJoining(t *testing.T) {
	plain := described(t, spec.PublishLoopback, backend.StartSpec{Slot: 42000, Hostname: "mine"})
	before := plain.Config.Labels[spec.LabelSpec]
	joined := plain.In("id")
	if joined.Host.NetworkMode != "container:id" || joined.Config.Hostname != "" || joined.Host.PortBindings != nil ||
		joined.Config.ExposedPorts != nil || joined.Network != nil {
		t.Errorf("%+v, %+v", joined.Config, joined.Host)
	}
	if len(joined.Host.CapDrop) == 0 || len(joined.Host.Mounts) == 0 || joined.Config.Labels[spec.LabelTerm] != "term" ||
		joined.Config.Labels[spec.LabelSpec] == before || plain.In("other").Config.Labels[spec.LabelSpec] == joined.Config.Labels[spec.LabelSpec] {
		t.Errorf("%+v, %+v", joined.Config, joined.Host)
	}
	if plain.Config.Labels[spec.LabelSpec] != before || plain.Config.Hostname == "" || plain.Host.PortBindings == nil {
		t.Error("the description of the container alone was changed")
	}
}

func TestSandboxName(t *testing.T) {
	at := time.UnixMilli(1_795_712_345_678)
	if got, ok := spec.SandboxSlept(sleeper, spec.SandboxName(sleeper, at)); !ok || !got.Equal(at) {
		t.Errorf("%s, %v", got, ok)
	}
	for _, other := range []string{"", sleeper.ContainerName(), spec.SandboxPrefix(sleeper), spec.SandboxPrefix(sleeper) + "x"} {
		if _, ok := spec.SandboxSlept(sleeper, other); ok {
			t.Errorf("%q is taken for a sandbox's name", other)
		}
	}
}
