package docker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestKernelMemory(t *testing.T) {
	const meminfo = "MemTotal:       4096 kB\nMemFree:         100 kB\nMemAvailable:   1024 kB\nSwapTotal: 0 kB\n"
	for name, c := range map[string]struct {
		meminfo, pressure string
		want              backend.Memory
		wrong             bool
	}{
		"with PSI": {meminfo, "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\nfull avg10=99.00 avg60=0.00 avg300=0.00 total=1\n",
			backend.Memory{Total: 4 << 20, Available: 1 << 20, Stalled: 0.125}, false},
		"all stalled":    {meminfo, "some avg10=100.00 avg60=1.00\n", backend.Memory{Total: 4 << 20, Available: 1 << 20, Stalled: 1}, false},
		"without PSI":    {meminfo, "", backend.Memory{Total: 4 << 20, Available: 1 << 20}, false},
		"another format": {meminfo, "some avg10=? avg60=1.00\nsome\n", backend.Memory{Total: 4 << 20, Available: 1 << 20}, false},
		"an old kernel":  {"MemTotal: 4096 kB\nMemFree: 100 kB\n", "", backend.Memory{}, true},
		"no number":      {"MemTotal: 4096 kB\nMemAvailable: much kB\n", "", backend.Memory{}, true},
		"another system": {"", "", backend.Memory{}, true},
	} {
		proc := t.TempDir()
		for file, text := range map[string]string{"meminfo": c.meminfo, "pressure/memory": c.pressure} {
			if text == "" {
				continue
			}
			file = filepath.Join(proc, file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := kernelMemory(proc)
		if (err != nil) != c.wrong || err == nil && got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
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

// TestProbed: what the engine says of one that was paused, and what its probes have found.
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
		got := probed(&container.InspectResponse{
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

// TestWhatOthersHaveEnded: a program that ends with a code or runs into its own limit of memory has
// ended by itself. One that was killed, stopped, chosen by a host without memory, or that has ended before its
// engine was started has not.
func TestWhatOthersHaveEnded(t *testing.T) {
	minute := func(n int) time.Time { return time.Date(2026, 11, 26, 9, n, 0, 0, time.UTC) }
	for name, c := range map[string]struct {
		code  int
		oom   bool
		limit int64
		since int // the minute in which the engine was started; the container has ended in the second
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
		if got := disrupted(r, since); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAddressesArePartOfTheBackend where the coordinator chooses them: not on a network of the
// operator's, unless it says which part of that is free.
func TestAddressesArePartOfTheBackend(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want bool
	}{
		"the default":               {Options{}, true},
		"a network of the operator": {Options{Network: "theirs"}, false},
		"a part of it":              {Options{Network: "theirs", Subnet: "10.9.0.0/24"}, true},
		"ports of the loopback":     {Options{Network: "theirs", Publish: spec.PublishLoopback}, true},
	} {
		c.o.Host, c.o.Installation, c.o.Image = "unix:///nonexistent/docker.sock", "test", "x"
		b, err := New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.Addresses != nil; got != c.want {
			t.Errorf("%s: addresses are a part: %v, want %v", name, got, c.want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestAddressesInUse: what the engine says when something else answers at an address, so that another
// one is taken.
func TestAddressesInUse(t *testing.T) {
	for text, used := range map[string]bool{
		"Error response from daemon: Address already in use":                              true,
		"Bind for 127.0.0.1:42000 failed: port is already allocated":                      true,
		"Error response from daemon: task 39e6b4166ec2677df48c3f35: already exists":       true,
		"Error response from daemon: id already in use":                                   true,
		"failed to add interface: adding interface veth1 to bridge failed: exchange full": false,
		"Conflict. The container name \"/ws-1\" already exists":                           false,
	} {
		if err := explainAddress(errors.New(text)); errors.Is(err, backend.ErrAddressInUse) != used || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
