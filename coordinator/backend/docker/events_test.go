package docker_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAnEventThatPrecedesItsListing: the engine sends an event while it still works on the container. Until it is done,
// it does not answer questions about the container, and its listing shows the old state. The event is passed on once
// the listing shows the change.
func TestAnEventThatPrecedesItsListing(t *testing.T) {
	for _, c := range []struct {
		action      events.Action
		before, now container.ContainerState
		want        workspace.Health
	}{
		{events.ActionPause, container.StateRunning, container.StatePaused, workspace.HealthPaused},
		{events.ActionUnPause, container.StatePaused, container.StateRunning, ""},
	} {
		t.Run(string(c.action), func(t *testing.T) {
			t.Parallel()
			f := newFakeEngine(t, "a", "1.47")
			installation, id := backendtest.Installation(), newID()
			var mu sync.Mutex
			state, asked, done := c.before, make(chan struct{}), make(chan struct{})
			summary := container.Summary{ID: "c", Names: []string{"/" + id.ContainerName()}, Labels: map[string]string{
				spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: spec.KindWorkspace,
			}}
			f.answers["GET /containers/json"] = func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				s := summary
				s.State = state
				answer([]container.Summary{s})(w, r)
			}
			var once sync.Once
			f.answers["GET /containers/c/json"] = func(w http.ResponseWriter, r *http.Request) {
				once.Do(func() { close(asked) })
				select {
				case <-done: // the engine has let go of the container
				case <-r.Context().Done():
					return
				}
				answer(container.InspectResponse{ContainerJSONBase: &container.ContainerJSONBase{ID: "c", State: &container.State{
					Status: c.now, Running: true, StartedAt: time.Now().Format(time.RFC3339Nano)}}})(w, r)
			}
			f.answers["GET /events"] = func(w http.ResponseWriter, r *http.Request) {
				_ = json.NewEncoder(w).Encode(events.Message{Type: events.ContainerEventType, Action: c.action,
					Actor: events.Actor{ID: "c", Attributes: map[string]string{spec.LabelWorkspace: string(id)}}})
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
			b, err := docker.New(docker.Options{Host: f.host, Installation: installation, Image: "workspace:1", JobImage: "job:1"})
			must(t, err)
			defer b.Close()
			hints, err := b.Events(t.Context())
			must(t, err)
			select {
			case <-hints:
				t.Fatal("the event is passed on before the listing shows the change")
			case <-asked:
			case <-time.After(wait.Timeout):
				t.Fatal("no event")
			}
			mu.Lock()
			state = c.now
			mu.Unlock()
			close(done)
			select {
			case got := <-hints:
				all, err := b.Containers(t.Context(), got)
				must(t, err)
				if got != id || all[id].Health != c.want {
					t.Errorf("after the event for %s: %s", got, fmt.Sprintf("%+v", all))
				}
			case <-time.After(wait.Timeout):
				t.Fatal("the event is not passed on")
			}
		})
	}
}
