package docker

import (
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		state  container.ContainerState
		status string
		want   workspace.Health
	}{
		{container.StateRunning, "Up 3 seconds", ""},
		{container.StateRunning, "Up 3 seconds (healthy)", ""},
		{container.StateRunning, "Up 3 seconds (unhealthy)", workspace.HealthUnhealthy},
		{container.StateRunning, "Up Less than a second (health: starting)", workspace.HealthStarting},
		{container.StatePaused, "Up 3 seconds (Paused)", workspace.HealthPaused},
		{container.StatePaused, "Up 3 seconds (unhealthy)", workspace.HealthPaused},
	} {
		if got := health(c.state, c.status); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.state, c.status, got, c.want)
		}
	}
}

// TestRemovedMeanwhile: a start that another process's removal defeats is tried again.
func TestRemovedMeanwhile(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{errdefs.ErrNotFound.WithMessage("No such container: ws-1"), true},
		{errdefs.ErrConflict.WithMessage("container is marked for removal and cannot be started"), true},
		{errdefs.ErrNotFound.WithMessage("network codehub not found"), false},
		{errdefs.ErrConflict.WithMessage("cannot start a paused container, try unpause instead"), false},
	} {
		if got := removedMeanwhile(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}
