package spec

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend"
)

// The names of the pools. The schema's trigger distinguishes them by the form of an endpoint. The slot of an IPv4
// address is its number, and the slot of a port of 127.0.0.1 is the port.
const (
	poolIPv4     = "ipv4"
	poolLoopback = "loopback"
)

// Address is the address of a container's slot. The zero value lets the engine choose.
type Address struct {
	ip   netip.Addr // in the workspaces' network
	port string     // of 127.0.0.1, with [PublishLoopback]
}

// Addresses returns the addresses of workspaces in a network with that subnet, or none if the subnet is invalid. With
// [PublishLoopback] they are ports, on any network.
func (o Options) Addresses(subnet netip.Prefix) (backend.Pool, error) {
	switch {
	case o.Publish == PublishLoopback:
		return o.ports()
	case !subnet.IsValid():
		return backend.Pool{}, nil
	}
	first, size := Range(subnet)
	return backend.Pool{Name: poolIPv4, First: Number(first), Size: size}, nil
}

// Address returns the address of a slot in a network with that subnet. The network may have been replaced since the
// slot was taken.
func (o Options) Address(slot int64, subnet netip.Prefix) (Address, error) {
	switch {
	case slot == 0:
		return Address{}, nil
	case o.Publish == PublishLoopback:
		return Address{port: strconv.FormatInt(slot, 10)}, nil
	}
	ip := IPv4(slot)
	if !subnet.IsValid() || !subnet.Contains(ip) {
		return Address{}, fmt.Errorf("address %s is not in the workspaces' network any more", ip)
	}
	return Address{ip: ip}, nil
}

// network returns the configuration that gives a container the address in that network.
func (a Address) network(netID string) *network.NetworkingConfig {
	if !a.ip.IsValid() {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		netID: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: a.ip.String()}},
	}}
}

// Endpoint returns the address, host:port, at which the gateway reaches a running container, or "" while the engine
// reports none. network is the container that has its network: itself, or the sandbox that it has joined.
func (o Options) Endpoint(s, network container.Summary) string {
	port := cmp.Or(s.Labels[LabelPort], strconv.Itoa(o.Port))
	if o.Publish == PublishLoopback {
		for _, p := range network.Ports {
			if strconv.Itoa(int(p.PrivatePort)) == port && p.Type == "tcp" && p.PublicPort != 0 {
				return net.JoinHostPort(loopback, strconv.Itoa(int(p.PublicPort)))
			}
		}
		return ""
	}
	if network.NetworkSettings == nil {
		return ""
	}
	for _, n := range network.NetworkSettings.Networks { // there is exactly one
		if n != nil && n.IPAddress != "" {
			return net.JoinHostPort(n.IPAddress, port)
		}
	}
	return ""
}

// ports parses [Options.PublishPorts].
func (o Options) ports() (backend.Pool, error) {
	from, to, _ := strings.Cut(o.PublishPorts, "-")
	first, err1 := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	if errors.Join(err1, err2) != nil || first < 1024 || last < first {
		return backend.Pool{}, fmt.Errorf("%q must be a range of ports from 1024 on, such as %s", o.PublishPorts,
			DefaultPublishPorts)
	}
	return backend.Pool{Name: poolLoopback, First: int64(first), Size: int64(last - first + 1)}, nil
}
