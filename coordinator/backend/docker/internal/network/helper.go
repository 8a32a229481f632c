package network

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"

	"github.com/codehub/gateway/coordinator/backend/docker/internal/image"
	"github.com/codehub/gateway/storagejob/contract"
)

// helperLimit bounds the life of a helper. Its own work takes a few milliseconds.
const helperLimit = 30 * time.Second

// runner runs the program for the rules.
type runner struct{ image.Helper }

// onHost runs the program in the network namespace of the engine's host. There the program may change the network's
// rules. It gets no other right, no volume and no secret.
func (h runner) onHost(ctx context.Context, action string, rules contract.EgressRules) (contract.EgressResult, error) {
	text, err := json.Marshal(rules)
	if err != nil {
		return contract.EgressResult{}, fmt.Errorf("writing the egress rules: %w", err)
	}
	config := container.Config{
		Cmd: []string{contract.Egress, action}, Env: []string{contract.EnvEgressRules + "=" + string(text)},
	}
	host := container.HostConfig{
		NetworkMode: "host",
		UsernsMode:  "host", // otherwise an engine with user namespaces refuses its host's network
		CapAdd:      []string{"NET_ADMIN"},
		// If the host uses systemd-resolved, the engine reads its name servers from this file.
		Mounts: []mount.Mount{{
			Type: mount.TypeBind, Source: contract.ResolvedPath, Target: contract.ResolvedPath, ReadOnly: true,
		}},
	}
	// An error about the image reveals nothing about the host's network.
	if err := h.Check(ctx); err != nil {
		return contract.EgressResult{}, err
	}
	result, err := h.run(ctx, config, host)
	if errdefs.IsInvalidArgument(err) { // the folder does not exist
		host.Mounts = nil
		result, err = h.run(ctx, config, host)
	}
	if forbids(err) {
		err = fmt.Errorf("%w: %w", contract.ErrUnable, err)
	}
	return result, err
}

// forbids reports whether the engine refuses containers in its host's network, by design or because of its
// administrator's settings.
func forbids(err error) bool {
	return errdefs.IsPermissionDenied(err) || errdefs.IsUnauthorized(err) || errdefs.IsInvalidArgument(err) ||
		errdefs.IsNotImplemented(err)
}

// probe returns the addresses (host:port) to which a container on that network can connect.
func (h runner) probe(ctx context.Context, network string, addresses []string) ([]string, error) {
	result, err := h.run(ctx, container.Config{
		Cmd: append([]string{contract.Egress, contract.EgressProbe}, addresses...),
	},
		container.HostConfig{NetworkMode: container.NetworkMode(network)})
	return result.Reached, err
}

// run runs the program once and reads its result.
func (h runner) run(ctx context.Context, config container.Config, host container.HostConfig) (
	contract.EgressResult, error) {
	ctx, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	output, err := h.Run(ctx, "the egress rules", config, host)
	if err != nil {
		return contract.EgressResult{}, err
	}
	return contract.ParseEgressResult(output)
}
