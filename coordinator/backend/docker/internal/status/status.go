// Package status interprets an engine's description of a container: its health, the cause of its end, its use of
// resources, and the reason why it cannot start at its address.
//
// It owns the meaning of the engine's answers. It must not ask the engine anything.
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

// Health returns why a running container is not ready, or "". A listing shows the result of a health check only at the
// end of its status text.
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

// Probed returns the health of a container that the engine calls unhealthy, according to the container's probes. The
// engine does not probe a paused container, and calls it unhealthy. It still does so after a thaw, until the next
// probe: by default for half a minute. The results from before the pause stay valid, so that no probe fails because of
// the pause.
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

// defaultRetries is the number of consecutive failed probes that make a container unhealthy by default.
const defaultRetries = 3

// Disrupted reports whether a container was ended from outside: an administrator killed or stopped it, the engine was
// stopped, or the host ran out of memory. A container that exceeds its own limit of memory ends by itself. If the
// engine was started after the container had ended, the container may have ended because the engine was stopped:
// programs that are asked to stop may exit with any code.
func Disrupted(c *container.InspectResponse, engineSince time.Time) bool {
	limited := c.HostConfig == nil || c.HostConfig.Memory > 0
	if c.State.OOMKilled && limited {
		return false
	}
	return backend.Signalled(c.State.ExitCode) || engine.Time(c.State.FinishedAt).Before(engineSince)
}

// Cores returns how many processors a container may use at a time, or 0 without a limit.
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

// InUse returns the memory that a container uses, except for memory that the kernel may drop. Docker's command line
// shows the same value.
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

// ExplainAddress explains the engine's errors about addresses at the start of a container.
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
