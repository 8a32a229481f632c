package docker

import (
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestValidateReportsEverything(t *testing.T) {
	err := Options{Installation: "Not Good", Host: "nowhere", Image: "A B", Port: 70000, Network: "host", JobNetwork: "none",
		Publish: "world", MemoryBytes: 1, PidsLimit: -1}.Validate()
	if err == nil {
		t.Fatal("the options were accepted")
	}
	for _, setting := range []string{"installation", "host", "workspace image", "workspace port", "network", "job network", "publish", "memory", "pids"} {
		if !strings.Contains(err.Error(), "docker "+setting+":") && !strings.Contains(err.Error(), "docker "+setting+" and") {
			t.Errorf("%q is not named in:\n%v", setting, err)
		}
	}
	for _, o := range []Options{
		{Installation: "codehub", Image: "codercom/code-server:4.139.1"},
		{Installation: "a", Host: "tcp://10.0.0.1:2375", Image: "x", JobNetwork: "host", Publish: PublishLoopback, Network: "mine"},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

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
