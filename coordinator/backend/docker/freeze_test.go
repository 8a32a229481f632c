package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	backendcheck "github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/doctor"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// variant returns the suite's image with that configuration added. It is removed at the end of the test, after the
// containers of backends that were created later.
func (e *engine) variant(t *testing.T, with container.Config) string {
	t.Helper()
	made, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image}, nil, nil, nil, "")
	must(t, err)
	committed, err := e.api.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Config: &with})
	must(t, err)
	must(t, e.api.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{}))
	t.Cleanup(func() {
		_, err := e.api.ImageRemove(context.Background(), committed.ID, image.RemoveOptions{})
		check(t, err)
	})
	return committed.ID
}

// TestHealthAfterThaw: the engine calls a paused container unhealthy. It still does so after a thaw, until the
// container's next probe. Freezing does not change the results of the probes.
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
			ref := e.variant(t, container.Config{Healthcheck: &c.check})
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
				wait.Until(t, "it shows as paused", func() bool { return seen().Health == workspace.HealthPaused })
				must(t, b.Freezer.Thaw(ctx, id))
				// For a moment, the container may still show as paused. After that, exactly the previous state must be reported.
				var now workspace.Container
				wait.Until(t, "it shows as thawed", func() bool { now = seen(); return now.Health != workspace.HealthPaused })
				if now != was {
					t.Errorf("thawed: %+v, before it was frozen %+v", now, was)
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

// TestRestartedByHand: an administrator restarts a container behind this program's back. Decisions from before the
// restart do not freeze the container, and the listings become right again.
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
	// If no call fails, the events show it.
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

// TestFrozenMeanwhile: another process changes the container between the requests of one call.
func TestFrozenMeanwhile(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	ref := e.variant(t, container.Config{Labels: map[string]string{work.BusyLabel: "true"}})
	ctx := t.Context()
	type calls struct {
		b       backend.Backend
		id      workspace.ID
		started time.Time
	}
	pause := func(id workspace.ID) error { return e.api.ContainerPause(ctx, id.ContainerName()) }
	unpause := func(id workspace.ID) error { return e.api.ContainerUnpause(ctx, id.ContainerName()) }
	remove := func(id workspace.ID) error {
		return e.api.ContainerRemove(ctx, id.ContainerName(), container.RemoveOptions{Force: true})
	}
	exec := func(c calls) error {
		_, err := c.b.Exec(ctx, c.id, backend.Command{Words: []string{"/testworkspace", "exec", "0"}}, io.Discard, io.Discard)
		return err
	}
	look := func(c calls) error { _, err := c.b.Look(ctx, c.id); return err }
	stats := func(c calls) error {
		s, err := c.b.Stats(ctx, c.id)
		if err == nil && s.Processes != -1 {
			err = fmt.Errorf("it has %d processes", s.Processes)
		}
		return err
	}
	freeze := func(c calls) error { return c.b.Freezer.Freeze(ctx, c.id, c.started) }
	thaw := func(c calls) error { return c.b.Freezer.Thaw(ctx, c.id) }
	for name, c := range map[string]struct {
		frozen bool   // before the call
		at     string // the end of the request's path
		after  bool   // after the answer
		other  func(workspace.ID) error
		call   func(calls) error
		want   error
	}{
		"a command, before it is created":       {false, "/exec", false, pause, exec, backend.ErrFrozen},
		"a command, before it is started":       {false, "/exec", true, pause, exec, backend.ErrFrozen},
		"a look, before the image is asked":     {false, "/exec", false, pause, look, backend.ErrFrozen},
		"a look, before the image answers":      {false, "/exec", true, pause, look, backend.ErrFrozen},
		"stats":                                 {false, "/exec", false, pause, stats, nil},
		"freezing what another has frozen":      {false, "/pause", false, pause, freeze, nil},
		"freezing what another has removed":     {false, "/pause", false, remove, freeze, nil},
		"thawing what another has thawed":       {true, "/unpause", false, unpause, thaw, nil},
		"thawing what another has removed":      {true, "/unpause", false, remove, thaw, nil},
		"looking at what another has removed":   {false, "/exec", false, remove, look, errAny},
		"a command in what another has removed": {false, "/exec", false, remove, exec, errAny},
	} {
		t.Run(name, func(t *testing.T) {
			installation, id, armed := backendtest.Installation(), newID(), false
			_ = e.New(t, installation) // it is swept
			o := e.options(installation)
			o.Transport = func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					due := armed && r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, c.at)
					armed = armed && !due
					if due && !c.after {
						must(t, c.other(id))
					}
					resp, err := next.RoundTrip(r)
					if due && c.after {
						must(t, c.other(id))
					}
					return resp, err
				})
			}
			b, err := docker.New(o)
			must(t, err)
			defer b.Close()
			must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: ref}))
			all, err := b.Containers(ctx)
			must(t, err)
			if c.frozen {
				must(t, b.Freezer.Freeze(ctx, id, all[id].StartedAt))
			}
			armed = true
			err = c.call(calls{b, id, all[id].StartedAt})
			if armed {
				t.Fatal("the request was not made")
			}
			switch {
			case c.want == errAny && (err == nil || errors.Is(err, backend.ErrFrozen)), c.want != errAny && !errors.Is(err, c.want):
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// errAny stands for any error that does not report a frozen container.
var errAny = errors.New("any error")

// TestTheEngineCannotFreeze: the error is the engine's, and the container keeps running.
func TestTheEngineCannotFreeze(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	start(t, b, backend.StartSpec{ID: id})
	all, err := b.Containers(ctx)
	must(t, err)
	repair := e.faults.add(failing(http.MethodPost, "/pause", http.StatusInternalServerError, "unable to freeze"))
	err = b.Freezer.Freeze(ctx, id, all[id].StartedAt)
	if err == nil || !strings.Contains(err.Error(), "unable to freeze") || workspace.ReasonOf(err) != workspace.ReasonActionFailed {
		t.Errorf("%v, want what the engine says", err)
	}
	repair()
	backendtest.Ready(t, b, id)
}

// TestTheDoctorLooksAtAFrozenWorkspace: the doctor neither waits for a thaw nor leaves the workspace out.
func TestTheDoctorLooksAtAFrozenWorkspace(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id, ctx := e.New(t, installation), newID(), t.Context()
	start(t, b, backend.StartSpec{ID: id})
	all, err := b.Containers(ctx)
	must(t, err)
	must(t, b.Freezer.Freeze(ctx, id, all[id].StartedAt))
	d, err := doctor.New(e.options(installation))
	must(t, err)
	defer d.Close()
	if found, looked, err := d.Strangers(ctx, 5); err != nil || looked != 1 || len(found) != 0 {
		t.Errorf("it has looked at %d workspaces and found %+v, %v", looked, found, err)
	}
}

// TestTheDoctorTriesToFreeze: the doctor finds that the tests' engine can freeze containers, and its attempt leaves
// nothing behind. The error of an engine that cannot is passed on.
func TestTheDoctorTriesToFreeze(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	o := e.options(backendtest.Installation())
	d, err := doctor.New(o)
	must(t, err)
	defer d.Close()
	if refused, err := d.Freezes(t.Context()); refused != nil || err != nil {
		t.Errorf("%v, %v", refused, err)
	}
	left, err := e.api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", spec.LabelInstallation+"="+o.Installation))})
	if err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}

	const words = "cannot pause container c: OCI runtime pause failed: no freezer cgroup"
	fake := newFakeEngine(t, "a", "1.47")
	removed := false
	maps.Copy(fake.answers, map[string]http.HandlerFunc{
		"GET /images/job:1/json":    answer(map[string]string{"Architecture": "amd64"}),
		"POST /containers/create":   answer(map[string]string{"Id": "c"}),
		"PUT /containers/c/archive": answer(""),
		"POST /containers/c/start":  answer(""),
		"POST /containers/c/pause":  refuse(http.StatusInternalServerError, words),
		"DELETE /containers/c":      func(http.ResponseWriter, *http.Request) { removed = true },
	})
	cannot, err := doctor.New(spec.Options{Host: fake.host, Installation: "x", Image: "workspace:1", JobImage: "job:1"})
	must(t, err)
	defer cannot.Close()
	for _, row := range cannot.Checks(doctor.Expected{Dozes: true}) {
		if row.Name != "freezing" {
			continue
		}
		found, err := row.Run(t.Context())
		if err != nil || len(found) != 1 || found[0].Level != backendcheck.LevelWarning || !strings.Contains(found[0].Text, words) || !removed {
			t.Errorf("%+v, %v, removed: %v", found, err, removed)
		}
		return
	}
	t.Error("it is no check")
}
