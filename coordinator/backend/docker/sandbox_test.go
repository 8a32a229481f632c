package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// warmed is a backend whose containers have all joined a sandbox: each workspace sleeps once before it runs.
type warmed struct {
	backend.Core
	engine *engine
	t      testing.TB
}

func (w warmed) Start(ctx context.Context, s backend.StartSpec) error {
	// If several calls start the same workspace at once, one of them first takes it through its sleep, and the others
	// wait. After that, all of them start it at the same time.
	box, err, _ := w.engine.warming.Do(string(s.ID), func() (any, error) { return w.sleepFirst(ctx, s) })
	if err != nil {
		return err
	}
	if err := w.Core.Start(ctx, s); err != nil || box == "" {
		return err
	}
	if got := w.engine.joined(w.t, s.ID); got != box {
		w.t.Errorf("the container of %s has the network of %q, want that of its sandbox %s", s.ID, got, box)
	}
	return nil
}

// sleepFirst starts the workspace if it is not running. If its container has not joined a sandbox, sleepFirst then puts
// the workspace to sleep, and returns the id of the new sandbox. Otherwise it returns "".
func (w warmed) sleepFirst(ctx context.Context, s backend.StartSpec) (box string, err error) {
	before, err := w.Core.Containers(ctx, s.ID)
	if err != nil || before[s.ID].Running {
		return "", nil // Start returns the error
	}
	if err := w.Core.Start(ctx, s); err != nil {
		return "", err
	}
	at := w.engine.sandboxes(w.t, s.ID)
	if len(at) == 1 && w.engine.joined(w.t, s.ID) == at[0].ID {
		return "", nil
	}
	if err := w.Core.Delete(ctx, s.ID); err != nil {
		return "", err
	}
	return w.engine.asleep(w.t, s.ID).ID, nil
}

// Objects omits the objects that only this wrapper creates.
func (w warmed) Objects(ctx context.Context) ([]backend.Object, error) {
	all, err := w.Core.Objects(ctx)
	return slices.DeleteFunc(all, func(o backend.Object) bool { return o.Kind == backend.ObjectSandbox }), err
}

// sandboxes lists the sandboxes of a workspace in any state.
func (e *engine) sandboxes(t testing.TB, id workspace.ID) []container.Summary {
	t.Helper()
	list, err := e.api.ContainerList(context.WithoutCancel(t.Context()), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", spec.LabelWorkspace+"="+string(id)), filters.Arg("label", spec.LabelKind+"="+spec.KindSandbox))})
	must(t, err)
	return list
}

// asleep waits until the workspace's only sandbox runs, and returns it.
func (e *engine) asleep(t testing.TB, id workspace.ID) (box container.Summary) {
	t.Helper()
	wait.For(t, "the sandbox runs", func() error {
		list := e.sandboxes(t, id)
		if len(list) != 1 || list[0].State != container.StateRunning {
			return fmt.Errorf("%+v", list)
		}
		box = list[0]
		return nil
	})
	return box
}

// joined returns the sandbox whose network the workspace's container uses, or "".
func (e *engine) joined(t testing.TB, id workspace.ID) string {
	t.Helper()
	c, err := e.api.ContainerInspect(t.Context(), id.ContainerName())
	must(t, err)
	if !c.HostConfig.NetworkMode.IsContainer() {
		return ""
	}
	return c.HostConfig.NetworkMode.ConnectedContainer()
}

func (e *engine) gone(t *testing.T, id workspace.ID, why string) {
	t.Helper()
	wait.Until(t, "the sandbox is gone: "+why, func() bool { return len(e.sandboxes(t, id)) == 0 })
}

// warmEngine returns an engine whose backends keep that many networks.
func warmEngine(t *testing.T, warm int) *engine {
	t.Helper()
	e := newEngine(t)
	e.change = func(o *docker.Options) { o.Warm = warm }
	return e
}

// slot returns one of the backend's addresses.
func slot(t *testing.T, b backend.Backend, n int64) int64 {
	t.Helper()
	pool, err := b.Addresses(t.Context())
	must(t, err)
	return pool.First + n
}

// TestSandbox: a sleeping workspace keeps its whole network, even for the next process. It takes hardly any memory, and
// is removed with the home.
func TestSandbox(t *testing.T) {
	t.Parallel()
	e, installation, id := warmEngine(t, spec.DefaultWarm), backendtest.Installation(), newID()
	b := e.New(t, installation)
	s := backend.StartSpec{ID: id, Owner: "10000000-0000-4000-8000-000000000000", Hostname: "mine", Slot: slot(t, b, 5)}
	at := start(t, b, s)
	name := func() string { _, status := get(t, at, "/status"); return strings.SplitN(status, "\n", 2)[0] }
	hostname := name()
	if e.joined(t, id) != "" || len(e.sandboxes(t, id)) != 0 {
		t.Error("a workspace that never slept has a sandbox")
	}
	must(t, b.Delete(t.Context(), id))
	box := e.asleep(t, id)
	for label, want := range map[string]string{
		spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: "sandbox", spec.LabelOwner: s.Owner,
	} {
		if got := box.Labels[label]; got != want {
			t.Errorf("the sandbox has the label %s=%q, want %q", label, got, want)
		}
	}
	if all, err := b.Containers(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("while the workspace sleeps its containers are %+v, %v", all, err)
	}
	if all, err := b.Jobs(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("while the workspace sleeps its jobs are %+v, %v", all, err)
	}
	if used := e.memory(t, box.ID); used == 0 || used >= 1<<20 {
		t.Errorf("the sandbox takes %d bytes, want less than 1 MB", used)
	} else {
		t.Logf("the sandbox takes %d bytes", used)
	}

	next := e.New(t, installation)
	must(t, next.Start(t.Context(), s))
	if e.joined(t, id) != box.ID {
		t.Fatal("the next process does not use the sandbox")
	}
	if again := backendtest.Ready(t, next, id); again != at || name() != hostname {
		t.Errorf("it is %q at %s, before %q at %s", name(), again, hostname, at)
	}
	must(t, next.DeleteVolume(t.Context(), newID(), "op")) // another's
	must(t, next.Delete(t.Context(), id))
	wait.Until(t, "the sandbox's name says when the workspace went to sleep", func() bool {
		b := e.asleep(t, id)
		before, _ := spec.SandboxSlept(id, box.Names[0][1:])
		now, ok := spec.SandboxSlept(id, b.Names[0][1:])
		return b.ID == box.ID && ok && now.After(before)
	})
	// A storage job and a sandbox do not disturb each other.
	must(t, next.DeleteVolume(t.Context(), id, "op"))
	e.gone(t, id, "the home was deleted")
}

// memory returns a container's memory, as the engine counts it.
func (e *engine) memory(t *testing.T, id string) uint64 {
	t.Helper()
	answer, err := e.api.ContainerStatsOneShot(t.Context(), id)
	must(t, err)
	defer answer.Body.Close()
	var s container.StatsResponse
	must(t, json.NewDecoder(answer.Body).Decode(&s))
	return s.MemoryStats.Usage
}

// TestSandboxesAreBounded: only the workspaces that went to sleep last keep their sandboxes, regardless of which
// process put them to sleep.
func TestSandboxesAreBounded(t *testing.T) {
	t.Parallel()
	e, installation := warmEngine(t, 2), backendtest.Installation()
	b := e.New(t, installation)
	ids := []workspace.ID{newID(), newID(), newID()}
	sleep := func(b backend.Backend, id workspace.ID) {
		t.Helper()
		must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
		must(t, b.Delete(t.Context(), id))
		e.asleep(t, id)
	}
	for _, id := range ids {
		must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	}
	sleep(b, ids[0])
	sleep(b, ids[1])
	first := e.asleep(t, ids[0])
	sleep(b, ids[0]) // again, so that it is the newest
	wait.Until(t, "it is named anew", func() bool { return e.asleep(t, ids[0]).Names[0] != first.Names[0] })
	sleep(e.New(t, installation), ids[2])
	e.gone(t, ids[1], "two went to sleep later")
	e.asleep(t, ids[0])
	e.asleep(t, ids[2])

	// A running workspace keeps its sandbox, regardless of how many workspaces sleep and of how many sandboxes the setting
	// allows.
	must(t, b.Start(t.Context(), backend.StartSpec{ID: ids[0]}))
	at := backendtest.Ready(t, b, ids[0])
	e.change = func(o *docker.Options) { o.Warm = 0 }
	without := e.New(t, installation)
	must(t, without.Start(t.Context(), backend.StartSpec{ID: ids[1]}))
	must(t, without.Delete(t.Context(), ids[1]))
	e.gone(t, ids[2], "no network is kept any more")
	if len(e.sandboxes(t, ids[1])) != 0 {
		t.Error("a sandbox was made although none shall be kept")
	}
	must(t, without.Start(t.Context(), backend.StartSpec{ID: ids[0]}))
	if again := backendtest.Ready(t, without, ids[0]); again != at || e.joined(t, ids[0]) == "" {
		t.Errorf("the workspace that runs moved from %s to %s", at, again)
	}
	must(t, without.Delete(t.Context(), ids[0]))
	e.gone(t, ids[0], "it sleeps, and no network is kept any more")
}

// TestSandboxGivesWay: a sleeping workspace holds nothing that a starting one needs.
func TestSandboxGivesWay(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	b, one, two := e.New(t, backendtest.Installation()), newID(), newID()
	at := start(t, b, backend.StartSpec{ID: one, Slot: slot(t, b, 7)})
	must(t, b.Delete(t.Context(), one))
	e.asleep(t, one)
	if again := start(t, b, backend.StartSpec{ID: two, Slot: slot(t, b, 7)}); again != at {
		t.Errorf("the other is at %s, want %s", again, at)
	}
	e.gone(t, one, "its address was needed")

	// The sleeping workspace's network no longer matches the request.
	must(t, b.Start(t.Context(), backend.StartSpec{ID: one, Slot: slot(t, b, 8)}))
	must(t, b.Delete(t.Context(), one))
	e.asleep(t, one)
	must(t, b.Start(t.Context(), backend.StartSpec{ID: one, Slot: slot(t, b, 9)}))
	if e.joined(t, one) != "" || len(e.sandboxes(t, one)) != 0 {
		t.Error("it has joined a sandbox with another address, or that is still there")
	}

	// A workspace that runs in its sandbox does not lose its address to another one.
	must(t, b.Delete(t.Context(), one))
	box := e.asleep(t, one)
	must(t, b.Start(t.Context(), backend.StartSpec{ID: one, Slot: slot(t, b, 9)}))
	three := newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: three, OpID: "op"}))
	if err := b.Start(t.Context(), backend.StartSpec{ID: three, Slot: slot(t, b, 9)}); err == nil {
		t.Error("two workspaces run at one address")
	}
	if e.joined(t, one) != box.ID || e.asleep(t, one).ID != box.ID {
		t.Error("it has lost its sandbox")
	}

	// As long as a sleeping workspace has a sandbox, the engine reports that the network has no place left.
	must(t, b.Delete(t.Context(), one))
	must(t, b.Delete(t.Context(), two))
	e.asleep(t, one)
	e.asleep(t, two)
	defer e.faults.add(func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/start") || len(e.sandboxes(t, one))+len(e.sandboxes(t, two)) == 0 {
			return nil, nil
		}
		return failing(http.MethodPost, "/start", http.StatusInternalServerError, "adding interface to bridge failed: exchange full")(r)
	})()
	must(t, b.Start(t.Context(), backend.StartSpec{ID: three}))
	backendtest.Ready(t, b, three)
}

// TestSandboxThatIsLost: somebody else removes or stops the sandbox of a workspace.
func TestSandboxThatIsLost(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	b, id := e.New(t, backendtest.Installation()), newID()
	s := backend.StartSpec{ID: id, Slot: slot(t, b, 3)}
	start(t, b, s)
	must(t, b.Delete(t.Context(), id))
	must(t, e.api.ContainerKill(t.Context(), e.asleep(t, id).ID, "KILL"))
	must(t, b.Start(t.Context(), s)) // as after a restart of the engine
	backendtest.Ready(t, b, id)
	if e.joined(t, id) != "" {
		t.Error("it has joined a sandbox that does not run")
	}

	must(t, b.Delete(t.Context(), id))
	box := e.asleep(t, id)
	must(t, b.Start(t.Context(), s))
	backendtest.Ready(t, b, id)
	must(t, e.api.ContainerRemove(t.Context(), box.ID, container.RemoveOptions{Force: true}))
	all, err := b.Containers(t.Context(), id)
	must(t, err)
	if c := all[id]; c.Running || c.Ready || !c.Disrupted || !c.Volume {
		t.Errorf("a container that has lost its network: %+v", c)
	}
	must(t, b.Start(t.Context(), s))
	backendtest.Ready(t, b, id)

	// A workspace that ends by itself gets a new network, too.
	must(t, b.Delete(t.Context(), id))
	box = e.asleep(t, id)
	must(t, b.Start(t.Context(), s))
	backendtest.Ready(t, b, id)
	must(t, e.api.ContainerKill(t.Context(), id.ContainerName(), "KILL"))
	wait.Until(t, "it has ended", func() bool {
		all, err := b.Containers(t.Context(), id)
		must(t, err)
		return !all[id].Running
	})
	must(t, b.Start(t.Context(), s))
	backendtest.Ready(t, b, id)
	if e.joined(t, id) != "" {
		t.Error("after it ended by itself it has the network that it had")
	}
}

// TestSandboxHalfMade: while a process makes a sandbox, it dies after one of its requests to the engine, or the engine
// refuses one. The workspace starts without a sandbox, and has one after it has slept again.
func TestSandboxHalfMade(t *testing.T) {
	t.Parallel()
	for name, part := range map[string]string{"created": "/containers/create", "filled": "/archive", "started": "/start"} {
		e := warmEngine(t, spec.DefaultWarm)
		installation, id := backendtest.Installation(), newID()
		b := e.New(t, installation)
		s := backend.StartSpec{ID: id, Slot: slot(t, b, 4)}
		start(t, b, s)
		refused := make(chan struct{}, 1)
		repair := e.faults.add(func(r *http.Request) (*http.Response, error) {
			answer, err := failing(http.MethodPost, part, http.StatusInternalServerError, "it is broken")(r)
			if answer == nil {
				answer, err = failing(http.MethodPut, part, http.StatusInternalServerError, "it is broken")(r)
			}
			if answer != nil {
				refused <- struct{}{}
			}
			return answer, err
		})
		must(t, b.Delete(t.Context(), id))
		<-refused
		repair()
		e.gone(t, id, "it could not be "+name)

		labels := map[string]string{spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: spec.KindSandbox}
		left, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image, Labels: labels}, nil, nil, nil, spec.SandboxPrefix(id)+"1")
		must(t, err)
		must(t, b.Start(t.Context(), s))
		backendtest.Ready(t, b, id)
		if e.joined(t, id) != "" {
			t.Errorf("it has joined a sandbox that was never %s", name)
		}
		must(t, b.Delete(t.Context(), id))
		wait.Until(t, "what was left is replaced", func() bool {
			list := e.sandboxes(t, id)
			return len(list) == 1 && list[0].ID != left.ID && list[0].State == container.StateRunning
		})
	}
}

// TestObjectsKnowsSandboxes: sandboxes that no longer belong to a workspace can be found and removed.
func TestObjectsKnowsSandboxes(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	b, id := e.New(t, backendtest.Installation()), newID()
	start(t, b, backend.StartSpec{ID: id})
	must(t, b.Delete(t.Context(), id))
	box := e.asleep(t, id)
	all, err := b.Objects(t.Context())
	must(t, err)
	i := slices.IndexFunc(all, func(o backend.Object) bool { return o.Kind == backend.ObjectSandbox })
	if i < 0 || all[i].UID != box.ID || all[i].Workspace != id || len(all) != 2 {
		t.Fatalf("objects: %+v", all)
	}
	must(t, b.Remove(t.Context(), all[i]))
	e.gone(t, id, "it was removed")
}
