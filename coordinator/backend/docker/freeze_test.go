package docker_test

import (
	"context"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// checkedImage returns the suite's image with that health check. It goes at the end of the test, after
// the containers of backends that are made later.
func (e *engine) checkedImage(t *testing.T, by container.HealthConfig) string {
	t.Helper()
	made, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image}, nil, nil, nil, "")
	must(t, err)
	committed, err := e.api.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Config: &container.Config{Healthcheck: &by}})
	must(t, err)
	must(t, e.api.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{}))
	t.Cleanup(func() {
		_, err := e.api.ImageRemove(context.Background(), committed.ID, image.RemoveOptions{})
		check(t, err)
	})
	return committed.ID
}

// TestHealthAfterThaw: the engine calls a paused container unhealthy, and goes on to do so until its next
// probe. To be frozen does not change what the probes have found.
func TestHealthAfterThaw(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	pass, fail := []string{"CMD", "/testworkspace", "exec", "0"}, []string{"CMD", "/testworkspace", "sick"}
	for name, c := range map[string]struct {
		check container.HealthConfig
		want  workspace.Health
	}{
		"healthy":   {container.HealthConfig{Test: pass, Interval: 2 * time.Second}, ""},
		"unhealthy": {container.HealthConfig{Test: fail, Interval: time.Second, Retries: 1}, workspace.HealthUnhealthy},
		"starting":  {container.HealthConfig{Test: pass, Interval: time.Hour}, workspace.HealthStarting},
	} {
		t.Run(name, func(t *testing.T) {
			ref := e.checkedImage(t, c.check)
			b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
			must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: ref}))
			seen := func() workspace.Container {
				all, err := b.Containers(ctx)
				must(t, err)
				return all[id]
			}
			wait.Until(t, "its health is known", func() bool { return seen().Health == c.want })
			was := seen()
			for range 2 {
				must(t, b.Freezer.Freeze(ctx, id, was.StartedAt))
				if got := seen(); got.Health != workspace.HealthPaused || got.Ready {
					t.Errorf("frozen: %+v", got)
				}
				must(t, b.Freezer.Thaw(ctx, id))
				if got := seen(); got != was {
					t.Errorf("thawed: %+v, before it was frozen %+v", got, was)
				}
			}
			if c.want == "" {
				wait.Until(t, "the engine has made a probe and calls it healthy", func() bool {
					c, err := e.api.ContainerInspect(ctx, id.ContainerName())
					must(t, err)
					return c.State.Health.Status == container.Healthy
				})
				if got := seen(); got != was {
					t.Errorf("after the next probe: %+v, before %+v", got, was)
				}
			}
		})
	}
}

// TestRestartedByHand: an administrator restarts a container past this program. What was decided about it
// before does not freeze it, and what a listing tells of it is true again.
func TestRestartedByHand(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	start(t, b, backend.StartSpec{ID: id})
	seen := func() workspace.Container {
		all, err := b.Containers(ctx)
		must(t, err)
		return all[id]
	}
	was, timeout := seen(), 0
	must(t, e.api.ContainerRestart(ctx, id.ContainerName(), container.StopOptions{Timeout: &timeout}))
	must(t, b.Freezer.Freeze(ctx, id, was.StartedAt))
	now := seen()
	if now.Health == workspace.HealthPaused || !now.StartedAt.After(was.StartedAt) {
		t.Errorf("after the restart: %+v, before %+v", now, was)
	}
	must(t, b.Freezer.Freeze(ctx, id, now.StartedAt))
	if got := seen(); got.Health != workspace.HealthPaused {
		t.Errorf("frozen: %+v", got)
	}
	// Without a call that fails, the events tell.
	events, err := b.Events(ctx)
	must(t, err)
	must(t, e.api.ContainerRestart(ctx, id.ContainerName(), container.StopOptions{Timeout: &timeout}))
	deadline := time.After(wait.Timeout)
	for seen().StartedAt.Equal(now.StartedAt) {
		select {
		case <-events:
		case <-deadline:
			t.Fatalf("the start is not seen: %+v", seen())
		}
	}
}
