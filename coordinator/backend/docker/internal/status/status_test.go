package status

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
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
		if got := Health(c.state, c.status); got != c.want {
			t.Errorf("%s, %q: %q, want %q", c.state, c.status, got, c.want)
		}
	}
}

// TestProbed has containers that were paused. It checks that their health follows from what their probes have found,
// and not from what the engine says.
func TestProbed(t *testing.T) {
	passed, failed := &container.HealthcheckResult{}, &container.HealthcheckResult{ExitCode: 1}
	for name, c := range map[string]struct {
		retries, streak int
		log             []*container.HealthcheckResult
		want            workspace.Health
	}{
		"it has passed":                             {0, 0, []*container.HealthcheckResult{failed, passed}, ""},
		"it has begun to fail":                      {0, 2, []*container.HealthcheckResult{passed, failed, failed}, ""},
		"it fails":                                  {0, 3, []*container.HealthcheckResult{passed, failed, failed, failed}, workspace.HealthUnhealthy},
		"it fails sooner, as the image says":        {1, 1, []*container.HealthcheckResult{passed, failed}, workspace.HealthUnhealthy},
		"it fails later, as the image says":         {9, 4, []*container.HealthcheckResult{passed, failed, failed, failed, failed}, ""},
		"there was no probe yet":                    {0, 0, nil, workspace.HealthStarting},
		"it has failed in its start period":         {0, 0, []*container.HealthcheckResult{failed, nil}, workspace.HealthStarting},
		"it has failed after that and never passed": {3, 1, []*container.HealthcheckResult{failed}, workspace.HealthStarting},
	} {
		got := Probed(&container.InspectResponse{
			Config: &container.Config{Healthcheck: &container.HealthConfig{Retries: c.retries}},
			ContainerJSONBase: &container.ContainerJSONBase{State: &container.State{
				Health: &container.Health{Status: container.Unhealthy, FailingStreak: c.streak, Log: c.log},
			}},
		})
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestWhatOthersHaveEnded: a program that exits with a code or exceeds its own limit of memory has ended by itself. One
// that was killed, stopped, chosen by a host without memory, or ended before its engine started has not.
func TestWhatOthersHaveEnded(t *testing.T) {
	minute := func(n int) time.Time { return time.Date(2026, 11, 26, 9, n, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		code  int
		oom   bool
		limit int64
		since int // the minute in which the engine was started; the container ended in the second minute
		want  bool
	}{
		"done":                               {0, false, 0, 1, false},
		"done, and the engine was restarted": {0, false, 0, 3, true},
		"done, by an engine that does not say since when it runs": {0, false, 0, 0, false},
		"failed":                            {1, false, 0, 1, false},
		"crashed":                           {139, false, 0, 1, false},
		"killed, or its engine was stopped": {137, false, 0, 1, true},
		"the same, with a limit":            {137, false, 1 << 30, 1, true},
		"stopped":                           {143, false, 0, 1, true},
		"its own limit of memory":           {137, true, 1 << 30, 1, false},
		"the same, and a restart":           {137, true, 1 << 30, 3, false},
		"its host has no memory left":       {137, true, 0, 1, true},
		"a part of it was out of memory":    {1, true, 0, 1, false},
	} {
		r := &container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{
			State: &container.State{ExitCode: c.code, OOMKilled: c.oom, FinishedAt: minute(2).Format(time.RFC3339Nano)}, HostConfig: &container.HostConfig{Resources: container.Resources{Memory: c.limit}},
		}}
		var since time.Time
		if c.since > 0 {
			since = minute(c.since)
		}
		if got := Disrupted(r, since); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAddressesInUse: the engine's errors about an address in use are recognised, so that another address is chosen.
func TestAddressesInUse(t *testing.T) {
	for text, used := range map[string]bool{
		"Error response from daemon: Address already in use":                              true,
		"Bind for 127.0.0.1:42000 failed: port is already allocated":                      true,
		"Error response from daemon: task 39e6b4166ec2677df48c3f35: already exists":       true,
		"Error response from daemon: id already in use":                                   true,
		"failed to add interface: adding interface veth1 to bridge failed: exchange full": false,
		"Conflict. The container name \"/ws-1\" already exists":                           false,
	} {
		if err := ExplainAddress(errors.New(text)); errors.Is(err, backend.ErrAddressInUse) != used || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
