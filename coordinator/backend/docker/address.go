package docker

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/network"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/bridge"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
)

// The names of the pools. The schema's trigger tells them by the form of an endpoint: an
// address of IPv4 has its number as a slot, a port of 127.0.0.1 its own.
const (
	poolIPv4     = "ipv4"
	poolLoopback = "loopback"
)

// address is what a container's slot means; the zero value lets the engine choose.
type address struct {
	ip   netip.Addr // in the workspaces' network
	port string     // of 127.0.0.1, with [PublishLoopback]
}

// Addresses implements [backend.Backend]. It creates the network if it does not exist.
func (d *Docker) Addresses(ctx context.Context) (backend.Pool, error) {
	if d.opts.Publish == PublishLoopback {
		return d.opts.ports()
	}
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	_, subnet, err := d.net.Ensure(ctx)
	if err != nil || !subnet.IsValid() {
		return backend.Pool{}, err
	}
	first, size := bridge.Range(subnet)
	return backend.Pool{Name: poolIPv4, First: bridge.Number(first), Size: size}, nil
}

// address returns what a slot means in a network with that subnet. The network may have
// become another one since the slot was taken.
func (d *Docker) address(slot int64, subnet netip.Prefix) (address, error) {
	switch {
	case slot == 0:
		return address{}, nil
	case d.opts.Publish == PublishLoopback:
		return address{port: strconv.FormatInt(slot, 10)}, nil
	}
	ip := bridge.Address(slot)
	if !subnet.IsValid() || !subnet.Contains(ip) {
		return address{}, fmt.Errorf("address %s is not in the workspaces' network any more", ip)
	}
	return address{ip: ip}, nil
}

// network returns the configuration that gives a container the address in that network.
func (a address) network(netID string) *network.NetworkingConfig {
	if !a.ip.IsValid() {
		return nil
	}
	return &network.NetworkingConfig{EndpointsConfig: map[string]*network.EndpointSettings{
		netID: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: a.ip.String()}},
	}}
}

// explainAddress translates what the engine says about addresses when it starts a
// container.
func explainAddress(err error) error {
	switch text := strings.ToLower(err.Error()); {
	case strings.Contains(text, "address already in use"), strings.Contains(text, "port is already allocated"),
		strings.Contains(text, "failed to bind host port"):
		return fmt.Errorf("%w: %w", backend.ErrAddressInUse, err)
	case strings.Contains(text, "exchange full"):
		return fmt.Errorf("the network of the workspaces is full: a Linux bridge holds 1,023 containers at once; "+
			"put some workspaces to sleep, or lower the limit of running workspaces: %w", err)
	}
	return err
}

// ports parses [Options.PublishPorts].
func (o Options) ports() (backend.Pool, error) {
	from, to, _ := strings.Cut(o.PublishPorts, "-")
	first, err1 := strconv.ParseUint(from, 10, 16)
	last, err2 := strconv.ParseUint(to, 10, 16)
	if errors.Join(err1, err2) != nil || first < 1024 || last < first {
		return backend.Pool{}, fmt.Errorf("%q must be a range of ports from 1024 on, such as %s", o.PublishPorts, DefaultPublishPorts)
	}
	return backend.Pool{Name: poolLoopback, First: int64(first), Size: int64(last - first + 1)}, nil
}
