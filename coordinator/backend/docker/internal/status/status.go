// Package status reads what an engine tells about a container: whether it is healthy, who has ended it,
// what it uses, and why it does not start at its address.
//
// It owns what an engine's words mean. It must not ask for anything.
package status

import (
	"fmt"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Health returns why a running container is not ready, or "". A listing shows the result
// of a health check only as the end of its status line.
func Health(state container.ContainerState, status string) workspace.Health {
	switch {
	case state == container.StatePaused:
		return workspace.HealthPaused
	case strings.HasSuffix(status, "(health: starting)"):
		return workspace.HealthStarting
	case strings.HasSuffix(status, "(unhealthy)"):
		return workspace.HealthUnhealthy
	}
	return ""
}

// Probed is the health of a container that the engine calls unhealthy, from what its probes have
// found. The engine makes no probes of a paused container and calls it unhealthy, and goes on to do so
// until the first probe after that, which is half a minute later where the image does not say. What was
// found before the pause stays: no probe counts as failed because of it.
func Probed(c *container.InspectResponse) workspace.Health {
	h := c.State.Health
	if h == nil {
		return ""
	}
	retries := defaultRetries
	if c.Config != nil && c.Config.Healthcheck != nil && c.Config.Healthcheck.Retries > 0 {
		retries = c.Config.Healthcheck.Retries
	}
	if h.FailingStreak >= retries {
		return workspace.HealthUnhealthy
	}
	for _, p := range h.Log {
		if p != nil && p.ExitCode == 0 {
			return ""
		}
	}
	return workspace.HealthStarting
}

// defaultRetries is how many probes in a row must fail where the image does not say.
const defaultRetries = 3

// Disrupted reports whether something else has ended the container. That is an administrator who
// killed or stopped it, an engine that was stopped, or a host that ran out of memory. One that runs
// into its own limit of memory has ended by itself. An engine that runs only since the container has ended
// may have ended it: programs that are asked to stop end with any code.
func Disrupted(c *container.InspectResponse, engineSince time.Time) bool {
	limited := c.HostConfig == nil || c.HostConfig.Memory > 0
	if c.State.OOMKilled && limited {
		return false
	}
	return backend.Signalled(c.State.ExitCode) || engine.Time(c.State.FinishedAt).Before(engineSince)
}

// Cores returns how many processors a container may use at a time, 0 without a limit.
func Cores(h *container.HostConfig) float64 {
	switch {
	case h == nil:
		return 0
	case h.NanoCPUs > 0:
		return float64(h.NanoCPUs) / 1e9
	case h.CPUQuota > 0 && h.CPUPeriod > 0:
		return float64(h.CPUQuota) / float64(h.CPUPeriod)
	}
	return 0
}

// InUse returns the memory of a container without what the kernel may drop, as the engine's own command
// line shows it.
func InUse(m container.MemoryStats) int64 {
	dropped, ok := m.Stats["total_inactive_file"] // cgroup v1
	if !ok {
		dropped = m.Stats["inactive_file"]
	}
	if dropped > m.Usage {
		dropped = 0
	}
	return int64(m.Usage - dropped)
}

// ExplainAddress translates what the engine says about addresses when it starts a
// container.
func ExplainAddress(err error) error {
	switch {
	case engine.AddressTaken.Is(err):
		return fmt.Errorf("%w: %w", backend.ErrAddressInUse, err)
	case engine.ContainerLost.Is(err):
		return fmt.Errorf("%w: a container runs there that the engine has lost: %w", backend.ErrAddressInUse, err)
	case engine.NetworkFull.Is(err):
		return fmt.Errorf("the network of the workspaces is full: a Linux bridge holds 1,023 containers at once; "+
			"put some workspaces to sleep, or lower the limit of running workspaces: %w", err)
	}
	return err
}
