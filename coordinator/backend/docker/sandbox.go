package docker

import (
	"context"
	"errors"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/sandbox"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/status"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// sandboxGone reports whether a container could not join a sandbox because that does not run any more.
func (d *Docker) sandboxGone(ctx context.Context, id workspace.ID, box *sandbox.Sandbox) bool {
	now, err := d.sandboxes.Find(ctx, id)
	return err == nil && (now == nil || now.ID != box.ID)
}

// vacated reports whether the engine has refused a container what a workspace that sleeps had, and has it no more: its
// address, its port, or a place in the network. A workspace that runs has the first right to them.
func (d *Docker) vacated(ctx context.Context, c spec.Container, refused error) bool {
	full := status.NetworkFull(refused)
	if !full && !errors.Is(status.ExplainAddress(refused), backend.ErrAddressInUse) {
		return false
	}
	removed, err := d.sandboxes.Vacate(ctx, c, full)
	return err == nil && removed
}

// DeleteVolume implements [backend.Core]. A workspace without a home does not wake soon, so its network goes too.
func (d *Docker) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	if d.opts.Warm > 0 { // else the next one that sleeps removes what was left by another setting
		if err := d.sandboxes.Release(ctx, id); err != nil {
			return err
		}
	}
	return d.homes.DeleteVolume(ctx, id, opID)
}

// sandboxNetworks are the sandboxes that run, by their ids.
type sandboxNetworks map[string]container.Summary

func (d *Docker) sandboxNetworks(list []container.Summary) sandboxNetworks {
	found := sandboxNetworks{}
	for _, s := range list {
		id, err := workspace.ParseID(s.Labels[spec.LabelWorkspace])
		if err == nil && s.State == container.StateRunning && d.opts.Owns(s.Labels, id, spec.KindSandbox) {
			found[s.ID] = s
		}
	}
	return found
}

// of returns the container that has the network of a workspace's container. lost says that this one runs and the
// sandbox that it has joined does not: it cannot be reached, and will never be again.
func (n sandboxNetworks) of(s container.Summary) (network container.Summary, lost bool) {
	joined := sandbox.Joins(container.NetworkMode(s.HostConfig.NetworkMode))
	if joined == "" {
		return s, false
	}
	network, ok := n[joined]
	return network, !ok && (s.State == container.StateRunning || s.State == container.StatePaused)
}
