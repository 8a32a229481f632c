package docker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// before calls f before each request with that method whose URL contains part, until the returned function is called.
func (e *engine) before(method, part string, f func(r *http.Request)) (remove func()) {
	return e.faults.add(func(r *http.Request) (*http.Response, error) {
		if r.Method == method && strings.Contains(r.URL.String(), part) {
			f(r)
		}
		return nil, nil
	})
}

// aged makes sandboxes look older to the backends than they are, by the duration that the test stores in the returned
// value.
func (e *engine) aged() *atomic.Int64 {
	var by atomic.Int64
	was := e.change
	e.change = func(o *docker.Options) {
		was(o)
		inner := o.Transport
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return inner(roundTripper(func(r *http.Request) (*http.Response, error) {
				answer, err := next.RoundTrip(r)
				if err != nil || !strings.HasSuffix(r.URL.Path, "/containers/json") || answer.StatusCode != http.StatusOK {
					return answer, err
				}
				defer answer.Body.Close()
				var list []map[string]any
				d := json.NewDecoder(answer.Body)
				d.UseNumber()
				if err := d.Decode(&list); err != nil {
					return nil, err
				}
				for _, c := range list {
					created, _ := c["Created"].(json.Number).Int64()
					if labels, _ := c["Labels"].(map[string]any); labels[spec.LabelKind] == spec.KindSandbox {
						c["Created"] = json.Number(strconv.FormatInt(created-by.Load()/int64(time.Second), 10))
					}
				}
				body, err := json.Marshal(list)
				answer.Body, answer.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				answer.Header.Del("Content-Length")
				return answer, err
			}))
		}
	}
	return &by
}

// TestSandboxesTakeTurns: one sandbox is created at a time, and the one for the workspace that went to sleep last comes
// first. A sandbox whose turn would come too late is not created. A start waits while the sandbox of its own workspace
// is being created, but not for other sandboxes.
func TestSandboxesTakeTurns(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, 2)
	b := e.New(t, backendtest.Installation())
	var ids [5]workspace.ID
	for i := range ids {
		ids[i] = newID()
		start(t, b, backend.StartSpec{ID: ids[i]})
	}
	first, held := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	var made []int
	defer e.before(http.MethodPost, "/containers/create?name=sandbox-", func(r *http.Request) {
		mu.Lock()
		made = append(made, slices.IndexFunc(ids[:], func(id workspace.ID) bool {
			return strings.HasPrefix(r.URL.Query().Get("name"), spec.SandboxPrefix(id))
		}))
		n := len(made)
		mu.Unlock()
		if n == 1 {
			close(first)
			<-held
		}
	})()
	must(t, b.Delete(t.Context(), ids[0]))
	<-first
	for _, id := range ids[1:] {
		must(t, b.Delete(t.Context(), id))
	}
	must(t, b.Start(t.Context(), backend.StartSpec{ID: ids[4]})) // although the first sandbox is not ready
	if e.joined(t, ids[4]) != "" {
		t.Error("it has joined a sandbox that was not made")
	}
	started := make(chan error, 1)
	go func() { started <- b.Start(t.Context(), backend.StartSpec{ID: ids[0]}) }()
	close(held)
	must(t, <-started)
	if e.joined(t, ids[0]) != e.asleep(t, ids[0]).ID {
		t.Error("a start has not waited for its sandbox, which was being made")
	}
	e.asleep(t, ids[3])
	wait.Until(t, "all who have a turn had it", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(made) == 2
	})
	must(t, b.Delete(t.Context(), ids[4]))
	e.asleep(t, ids[4])
	mu.Lock()
	defer mu.Unlock()
	if want := []int{0, 3, 4}; !slices.Equal(made, want) {
		t.Errorf("sandboxes were made in the order %v, want %v", made, want)
	}
}

// TestSandboxIsRenewed: no container joins an old sandbox. If a sandbox becomes old while its workspace runs, it is
// replaced when the workspace goes to sleep.
func TestSandboxIsRenewed(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	age := e.aged()
	b, id := e.New(t, backendtest.Installation()), newID()
	s := backend.StartSpec{ID: id, Slot: slot(t, b, 6)}
	at := start(t, b, s)
	sleep := func() container.Summary {
		t.Helper()
		must(t, b.Delete(t.Context(), id))
		return e.asleep(t, id)
	}
	sleep()
	age.Store(int64(13 * time.Hour))
	must(t, b.Start(t.Context(), s))
	if again := backendtest.Ready(t, b, id); again != at || e.joined(t, id) != "" || len(e.sandboxes(t, id)) != 0 {
		t.Errorf("it is at %s and has joined %q, want %s and none; its sandboxes: %v", again, e.joined(t, id), at, e.sandboxes(t, id))
	}
	age.Store(0)
	old := sleep()
	must(t, b.Start(t.Context(), s))
	if e.joined(t, id) != old.ID {
		t.Fatal("it has not joined its sandbox")
	}
	age.Store(int64(13 * time.Hour))
	must(t, b.Delete(t.Context(), id))
	wait.Until(t, "the sandbox is made anew", func() bool {
		list := e.sandboxes(t, id)
		return len(list) == 1 && list[0].ID != old.ID && list[0].State == container.StateRunning
	})
	age.Store(0)
	must(t, b.Start(t.Context(), s))
	if again := backendtest.Ready(t, b, id); again != at || e.joined(t, id) != e.asleep(t, id).ID {
		t.Errorf("it is at %s and has joined %q, want %s and the new one", again, e.joined(t, id), at)
	}
}

// TestSandboxesThatNobodyWillJoin are removed when a workspace goes to sleep: those of a workspace without a home,
// those on another network, and those left half made. A sandbox that another process may be creating stays.
func TestSandboxesThatNobodyWillJoin(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	age := e.aged()
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	start(t, b, backend.StartSpec{ID: id})
	net := e.networks(t, installation)[0].ID
	put := func(home bool, network string, runs bool) workspace.ID {
		t.Helper()
		of := newID()
		if home {
			must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: of, OpID: "op"}))
		}
		c, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image, Labels: map[string]string{
			spec.LabelInstallation: installation, spec.LabelWorkspace: string(of), spec.LabelKind: spec.KindSandbox,
		}}, &container.HostConfig{NetworkMode: container.NetworkMode(network)}, nil, nil, spec.SandboxName(of, time.Now()))
		must(t, err)
		if runs {
			must(t, e.api.ContainerStart(t.Context(), c.ID, container.StartOptions{}))
		}
		return of
	}
	homeless, elsewhere := put(false, net, true), put(true, "none", true)
	fine, half := put(true, net, true), put(true, net, false)
	must(t, b.Delete(t.Context(), id))
	e.gone(t, homeless, "its workspace has no home")
	e.gone(t, elsewhere, "it is on another network")
	e.asleep(t, fine)
	if len(e.sandboxes(t, half)) != 1 {
		t.Error("one that another process may be making was removed")
	}
	must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
	age.Store(int64(6 * time.Minute))
	must(t, b.Delete(t.Context(), id))
	e.gone(t, half, "its process has died")
	e.asleep(t, fine)
}

// TestSandboxThatIsJoinedMeanwhile: one process has a lower limit and therefore removes the sandbox of a sleeping
// workspace. At the same time, another process starts that workspace. In whatever order their requests arrive, the
// workspace runs and keeps its network.
func TestSandboxThatIsJoinedMeanwhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		// While one process makes this request, the other one does all its work.
		method, part string
		after        bool // after the answer
		byRemover    bool // otherwise by the process that starts the workspace
	}{
		"before it is marked":             {http.MethodPost, "/rename?name=sandbox-", false, true},
		"after it was marked":             {http.MethodPost, "/rename?name=sandbox-", true, true},
		"before it is removed":            {http.MethodDelete, "/containers/", false, true},
		"before the container is created": {http.MethodPost, "/containers/create?name=ws-", false, false},
		"after the container was created": {http.MethodPost, "/containers/create?name=ws-", true, false},
		"before the container is started": {http.MethodPost, "/start", false, false},
		"after the container runs":        {http.MethodPost, "/start", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, installation := warmEngine(t, spec.DefaultWarm), backendtest.Installation()
			first, id := e.New(t, installation), newID()
			s := backend.StartSpec{ID: id}
			start(t, first, s)
			must(t, first.Delete(t.Context(), id))
			e.asleep(t, id)

			var armed atomic.Bool
			var meanwhile func()
			told := make(chan error, 1)
			open := func(warm int, hooked bool) backend.Backend {
				e.change = func(o *docker.Options) {
					o.Warm, o.Kept = warm, func(_ context.Context, err error) { told <- err }
					if hooked {
						o.Transport = at(tt.method, tt.part, tt.after, &armed, func() { meanwhile() })
					}
				}
				return e.New(t, installation)
			}
			remover, starter, other := open(0, tt.byRemover), open(spec.DefaultWarm, !tt.byRemover), newID()
			must(t, remover.Provision(t.Context(), backend.VolumeSpec{ID: other, OpID: "op"}))
			must(t, remover.Start(t.Context(), backend.StartSpec{ID: other}))
			var failed error
			starts := func() { failed = starter.Start(t.Context(), s) }
			removes := func() {
				if err := remover.Delete(t.Context(), other); err != nil { // the limit is 0 now
					t.Error(err)
				}
				if err := <-told; err != nil {
					t.Error(err)
				}
			}
			begin := starts
			meanwhile = removes
			if tt.byRemover {
				begin, meanwhile = removes, starts
			}
			armed.Store(true)
			begin()
			if armed.Load() {
				t.Fatal("there was no such request")
			}
			must(t, failed)
			endpoint := backendtest.Ready(t, starter, id)
			if code, _ := get(t, endpoint, "/status"); code != http.StatusOK {
				t.Errorf("it answers with %d", code)
			}
			if at := e.joined(t, id); at != "" && !slices.ContainsFunc(e.sandboxes(t, id), func(c container.Summary) bool { return c.ID == at }) {
				t.Error("its network was removed under it")
			}
		})
	}
}

// at is a transport that calls f at the first request with that method whose URL contains part: before the request is
// sent, or after the answer.
func at(method, part string, after bool, armed *atomic.Bool, f func()) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			this := r.Method == method && strings.Contains(r.URL.String(), part) && armed.CompareAndSwap(true, false)
			if this && !after {
				f()
			}
			answer, err := next.RoundTrip(r)
			if this && after {
				f()
			}
			return answer, err
		})
	}
}

// TestSandboxThatIsGoingToBeRemoved: the process that starts a workspace finds its sandbox. Another process then
// renames that sandbox to remove it, and sees that no container has joined it. After that, the workspace's container
// must not join the sandbox.
func TestSandboxThatIsGoingToBeRemoved(t *testing.T) {
	t.Parallel()
	e, installation := warmEngine(t, spec.DefaultWarm), backendtest.Installation()
	first, id, other := e.New(t, installation), newID(), newID()
	start(t, first, backend.StartSpec{ID: other})
	start(t, first, backend.StartSpec{ID: id})
	must(t, first.Delete(t.Context(), id))
	box := e.asleep(t, id)
	looked, started, removed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	var finds, removes atomic.Bool
	finds.Store(true)
	removes.Store(true)
	e.change = func(o *docker.Options) {
		o.Kept = func(_ context.Context, err error) { removed <- err }
		o.Transport = at(http.MethodDelete, "/containers/"+box.ID, false, &removes, func() {
			close(looked)
			<-started
		})
	}
	remover := e.New(t, installation)
	e.change = func(o *docker.Options) {
		o.Warm = spec.DefaultWarm
		o.Transport = at(http.MethodPost, "/containers/create?name=ws-", false, &finds, func() {
			if err := remover.Delete(t.Context(), other); err != nil {
				t.Error(err)
			}
			<-looked
		})
	}
	starter := e.New(t, installation)
	must(t, starter.Start(t.Context(), backend.StartSpec{ID: id}))
	close(started)
	must(t, <-removed)
	if code, _ := get(t, backendtest.Ready(t, starter, id), "/status"); code != http.StatusOK {
		t.Errorf("it answers with %d", code)
	}
}

// TestSandboxGivesItsPort does the same as TestSandboxGivesWay, for ports of the loopback address.
func TestSandboxGivesItsPort(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	e.change = func(o *docker.Options) { o.Warm, o.Publish = spec.DefaultWarm, spec.PublishLoopback }
	b, one, two := e.New(t, backendtest.Installation()), newID(), newID()
	s := slot(t, b, 7)
	at := start(t, b, backend.StartSpec{ID: one, Slot: s})
	must(t, b.Delete(t.Context(), one))
	e.asleep(t, one)
	if again := start(t, b, backend.StartSpec{ID: two, Slot: s}); again != at {
		t.Errorf("the other is at %s, want %s", again, at)
	}
	e.gone(t, one, "its port was needed")
}

// TestSandboxFailureIsTold: the operator sees why no network is kept, and later that networks are kept again. Archiving
// and deletion continue.
func TestSandboxFailureIsTold(t *testing.T) {
	t.Parallel()
	e := warmEngine(t, spec.DefaultWarm)
	told := make(chan error, 10)
	was := e.change
	e.change = func(o *docker.Options) {
		was(o)
		o.Kept = func(_ context.Context, err error) { told <- err }
	}
	b, id := e.New(t, backendtest.Installation()), newID()
	start(t, b, backend.StartSpec{ID: id})
	repair := e.faults.add(failing(http.MethodPut, "/archive", http.StatusInternalServerError, "it is broken"))
	must(t, b.Delete(t.Context(), id))
	if err := <-told; err == nil || !strings.Contains(err.Error(), "it is broken") {
		t.Errorf("told %v", err)
	}
	repair()
	must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
	must(t, b.Delete(t.Context(), id))
	if err := <-told; err != nil {
		t.Errorf("told %v", err)
	}
	e.asleep(t, id)
	repair = e.faults.add(failing(http.MethodPost, "/rename", http.StatusInternalServerError, "device or resource busy"))
	must(t, b.DeleteVolume(t.Context(), id, "op"))
	repair()
	if all, err := b.Volumes(t.Context(), id); err != nil || len(all) != 0 {
		t.Errorf("volumes: %v, %v", all, err)
	}
}
