package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"

	"github.com/codehub/gateway/coordinator/workspace"
)

// PausePath is the path of a sandbox's program, which is copied there before the sandbox starts.
const PausePath = "/pause"

// nobody is the user of a sandbox's process.
const nobody = "65534:65534"

// SandboxPrefix is the prefix of the names of a workspace's sandboxes.
func SandboxPrefix(id workspace.ID) string { return "sandbox-" + string(id) + "-" }

// SandboxName returns the name of a sandbox whose workspace went to sleep at that time, by the engine's clock. The
// sandbox is renamed when the workspace sleeps again, because labels cannot change.
func SandboxName(id workspace.ID, slept time.Time) string {
	return SandboxPrefix(id) + strconv.FormatInt(slept.UnixMilli(), 10)
}

// RetiredSandbox returns the name of a sandbox that is being removed: nothing joins it any more.
func RetiredSandbox(id workspace.ID, containerID string) string {
	return SandboxPrefix(id) + "retired-" + containerID
}

// SandboxSlept is the inverse of [SandboxName].
func SandboxSlept(id workspace.ID, name string) (slept time.Time, ok bool) {
	text, ok := strings.CutPrefix(name, SandboxPrefix(id))
	n, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(n), ok && err == nil
}

// Sandbox describes the container that keeps the network of a sleeping workspace: the address, the name, the host name
// and the ports of its container. plain is that container's description without a sandbox. The sandbox's program does
// nothing. The engine stops it with SIGKILL, because the first process of a container ignores other signals.
func Sandbox(o Options, id workspace.ID, plain Container) Container {
	c := &container.Config{
		Image: o.JobImage, Entrypoint: []string{PausePath}, User: nobody, WorkingDir: "/", StopSignal: "SIGKILL",
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}}, Hostname: plain.Config.Hostname,
		Labels: Owned(o.Labels(id, KindSandbox), plain.Config.Labels[LabelOwner]),
	}
	c.Labels[LabelSpec] = NetworkHash(plain)
	for port := range plain.Host.PortBindings {
		if c.ExposedPorts == nil {
			c.ExposedPorts = nat.PortSet{}
		}
		c.ExposedPorts[port] = struct{}{}
	}
	netID := string(plain.Host.NetworkMode)
	at := network.EndpointSettings{Aliases: []string{id.ContainerName()}}
	if ip := plain.Address(); ip.IsValid() {
		at.IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: ip.String()}
	}
	return Container{
		Config: c,
		Host: &container.HostConfig{
			NetworkMode: plain.Host.NetworkMode, PortBindings: plain.Host.PortBindings, CapDrop: []string{"ALL"},
			SecurityOpt: []string{"no-new-privileges"}, LogConfig: container.LogConfig{Type: "none"},
		},
		Network: &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{netID: &at}},
	}
}

// Address returns the address that the container asks for. It is invalid if the engine chooses the address.
func (c Container) Address() netip.Addr {
	if c.Network == nil {
		return netip.Addr{}
	}
	for _, n := range c.Network.EndpointsConfig { // there is exactly one
		if n != nil && n.IPAMConfig != nil {
			ip, _ := netip.ParseAddr(n.IPAMConfig.IPv4Address)
			return ip
		}
	}
	return netip.Addr{}
}

// NetworkHash returns a hash of the network in a container's description. A sandbox that has the same hash in its label
// [LabelSpec] has the network that the container would get.
func NetworkHash(c Container) string {
	b, err := json.Marshal([]any{c.Host.NetworkMode, c.Config.Hostname, c.Host.PortBindings, c.Address()})
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// In returns the description of the container that joins a sandbox. The engine takes the whole network from the
// sandbox, and refuses a description that specifies any part of it.
func (c Container) In(sandbox string) Container {
	config, host, labels := *c.Config, *c.Host, maps.Clone(c.Config.Labels)
	term := labels[LabelTerm]
	delete(labels, LabelTerm)
	delete(labels, LabelSpec)
	config.Labels, config.Hostname, config.ExposedPorts = labels, "", nil
	host.NetworkMode, host.PortBindings = container.NetworkMode("container:"+sandbox), nil
	joined := withHash(Container{Config: &config, Host: &host})
	joined.Config.Labels[LabelTerm] = term
	return joined
}

// Inspected returns the parts of the description of a container with its own network that [Sandbox] needs.
func Inspected(c *container.InspectResponse) Container {
	made := Container{
		Config: &container.Config{Hostname: c.Config.Hostname, Labels: c.Config.Labels},
		Host:   &container.HostConfig{NetworkMode: c.HostConfig.NetworkMode, PortBindings: c.HostConfig.PortBindings},
	}
	if c.NetworkSettings == nil {
		return made
	}
	for _, n := range c.NetworkSettings.Networks { // there is exactly one
		if n != nil && n.IPAMConfig != nil {
			ip, _ := netip.ParseAddr(n.IPAMConfig.IPv4Address)
			made.Network = Address{ip: ip}.network(string(c.HostConfig.NetworkMode))
		}
	}
	return made
}
