package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"go.uber.org/goleak"
	"golang.org/x/sync/singleflight"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// engine is the [backendtest.Fixture] of a Docker engine.
type engine struct {
	host  string
	api   *client.Client
	image string
	// faults apply to every backend that New returns.
	faults faults
	// change edits the options of every backend that New returns.
	change func(*docker.Options)
	// warm makes every container join a sandbox: see warmed.
	warm    bool
	warming singleflight.Group
}

func newEngine(t testing.TB) *engine {
	t.Helper()
	e := &engine{host: devenv.Docker(t), warm: strings.HasPrefix(t.Name(), "TestInSandboxes/")}
	var err error
	e.api, err = client.NewClientWithOpts(client.FromEnv, client.WithHost(e.host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.api.Close() })
	e.image = suiteImage(t, e.api)
	return e
}

func (e *engine) options(installation string) docker.Options {
	o := docker.Options{Host: e.host, Installation: installation, Image: e.image, JobImage: e.image, Transport: e.faults.wrap}
	if e.warm {
		o.Warm = spec.DefaultWarm
	}
	if e.change != nil {
		e.change(&o)
	}
	return o
}

func (e *engine) New(t *testing.T, installation string) backend.Backend {
	t.Helper()
	return e.open(t, installation)
}

// open does the work of New, for benchmarks as well.
func (e *engine) open(t testing.TB, installation string) backend.Backend {
	t.Helper()
	t.Cleanup(func() { e.sweep(t, installation) })
	b, err := docker.New(e.options(installation))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	if e.warm {
		b.Core = warmed{b.Core, e, t}
	}
	return b
}

// sweep removes everything with the installation's label. The test fails if something cannot be removed.
func (e *engine) sweep(t testing.TB, installation string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), wait.Timeout)
	defer cancel()
	label := filters.NewArgs(filters.Arg("label", spec.LabelInstallation+"="+installation))
	containers, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: label})
	check(t, err)
	for _, c := range containers {
		check(t, ignoreGone(e.api.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true})))
	}
	volumes, err := e.api.VolumeList(ctx, volume.ListOptions{Filters: label})
	check(t, err)
	for _, v := range volumes.Volumes {
		check(t, ignoreGone(e.api.VolumeRemove(ctx, v.Name, false)))
	}
	networks, err := e.api.NetworkList(ctx, network.ListOptions{Filters: label})
	check(t, err)
	for _, n := range networks {
		check(t, ignoreGone(e.api.NetworkRemove(ctx, n.ID)))
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func ignoreGone(err error) error {
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

func (e *engine) UnlabeledContainer(t *testing.T, id workspace.ID) {
	t.Helper()
	c, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image}, nil, nil, nil, id.ContainerName())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		check(t, e.api.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true}))
	})
}

func (e *engine) UnlabeledVolume(t *testing.T, id workspace.ID) {
	t.Helper()
	if _, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: id.VolumeName()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { check(t, e.api.VolumeRemove(context.Background(), id.VolumeName(), false)) })
}

func (e *engine) ContainerExists(t *testing.T, id workspace.ID) bool {
	t.Helper()
	_, err := e.api.ContainerInspect(t.Context(), id.ContainerName())
	check(t, ignoreGone(err))
	return err == nil
}

func (e *engine) VolumeExists(t *testing.T, id workspace.ID) bool {
	t.Helper()
	_, err := e.api.VolumeInspect(t.Context(), id.VolumeName())
	check(t, ignoreGone(err))
	return err == nil
}

func (e *engine) JobCount(t *testing.T, id workspace.ID) int {
	t.Helper()
	list, err := e.api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("name", id.ContainerName()+"-"))})
	check(t, err)
	return len(list)
}

func (e *engine) JobName(s backend.JobSpec) string { return s.Name() }

func (e *engine) MissingImage(t *testing.T) string {
	return registryThat(t, http.StatusNotFound, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`)
}

func (e *engine) SickImage(t *testing.T) string { return sickImage(t, e.api) }

func (e *engine) ShellImage(t *testing.T) string { return devenv.TestWorkspaceImage(t) }

func (e *engine) Pause(t *testing.T, id workspace.ID) bool {
	t.Helper()
	// If a busy kernel takes too long to freeze a container, the engine gives up, and the container keeps running.
	wait.For(t, "the engine pauses it", func() error { return e.api.ContainerPause(t.Context(), id.ContainerName()) })
	return true
}

func (e *engine) LegacyVolume(t *testing.T, installation string, id workspace.ID) {
	t.Helper()
	if _, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: id.VolumeName(), Labels: map[string]string{
		spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: spec.KindHome}}); err != nil {
		t.Fatal(err)
	}
}

// containersOf lists the workspace's container and jobs.
func (e *engine) containersOf(t *testing.T, id workspace.ID) []container.Summary {
	t.Helper()
	list, err := e.api.ContainerList(t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", spec.LabelWorkspace+"="+string(id)))})
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list, func(c container.Summary) bool { return c.Labels[spec.LabelKind] == spec.KindSandbox })
}

func (e *engine) Break(t *testing.T, id workspace.ID) (ends bool, repair func()) {
	t.Helper()
	var repairs []func()
	for _, c := range e.containersOf(t, id) {
		repairs = append(repairs, e.faults.add(failing(http.MethodGet, "/containers/"+c.ID+"/json", http.StatusInternalServerError, "it is broken")))
	}
	return true, func() {
		for _, r := range repairs {
			r()
		}
	}
}

func (e *engine) Hold(t *testing.T, installation string) (backend.Backend, <-chan struct{}, func()) {
	t.Helper()
	return e.hold(t, installation, func(r *http.Request) bool {
		return strings.HasSuffix(r.URL.Path, "/volumes/prune") || r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/volumes/")
	})
}

// hold returns a backend that holds back such requests.
func (e *engine) hold(t *testing.T, installation string, such func(*http.Request) bool) (backend.Backend, <-chan struct{}, func()) {
	t.Helper()
	held, released := make(chan struct{}), make(chan struct{})
	o := e.options(installation)
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if such(r) {
				select {
				case held <- struct{}{}:
					<-released
				case <-released: // it is sent again
				}
			}
			return next.RoundTrip(r)
		})
	}
	b, err := docker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b, held, func() { close(released) }
}

func (e *engine) JobReport(t *testing.T, id workspace.ID) string {
	t.Helper()
	var all strings.Builder
	for _, c := range e.containersOf(t, id) {
		told, raw, err := e.api.ContainerInspectWithRaw(t.Context(), c.ID, true)
		check(t, err)
		all.Write(raw)
		for _, m := range told.Mounts {
			v, err := e.api.VolumeInspect(t.Context(), m.Name)
			check(t, err)
			text, err := json.Marshal(v)
			check(t, err)
			all.Write(text)
		}
		logs, err := e.api.ContainerLogs(t.Context(), c.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
		check(t, err)
		if err != nil {
			continue
		}
		_, err = io.Copy(&all, logs)
		check(t, errors.Join(err, logs.Close()))
		top, err := e.api.ContainerTop(t.Context(), c.ID, nil)
		if told.State.Running && err == nil {
			fmt.Fprint(&all, top.Processes)
		}
	}
	return all.String()
}

func (e *engine) Terms(t *testing.T, id workspace.ID) (terms []string) {
	t.Helper()
	for _, c := range e.containersOf(t, id) {
		terms = append(terms, c.Labels[spec.LabelTerm])
	}
	return terms
}

func (e *engine) Owners(t *testing.T, id workspace.ID) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for _, c := range e.containersOf(t, id) {
		owners[c.Labels[spec.LabelKind]] = c.Labels[spec.LabelOwner]
	}
	v, err := e.api.VolumeInspect(t.Context(), id.VolumeName())
	if err != nil {
		t.Fatal(err)
	}
	owners[v.Labels[spec.LabelKind]] = v.Labels[spec.LabelOwner]
	return owners
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, newEngine(t))
}

func TestMain(m *testing.M) {
	wait.Main(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"))
}

func TestUnreachable(t *testing.T) {
	b, err := docker.New(docker.Options{Host: "unix:///nonexistent/docker.sock", Installation: "test", Image: "x"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ctx, id := t.Context(), workspace.ID("00000000-0000-4000-8000-000000000000")
	_, containers := b.Containers(ctx)
	_, volumes := b.Volumes(ctx)
	_, jobs := b.Jobs(ctx)
	_, events := b.Events(ctx)
	_, logs := b.Logs(ctx, id, 1)
	for what, err := range map[string]error{"Containers": containers, "Volumes": volumes, "Jobs": jobs, "Events": events, "Logs": logs,
		"Start": b.Start(ctx, backend.StartSpec{ID: id}), "Delete": b.Delete(ctx, id), "Provision": b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}),
		"DeleteVolume": b.DeleteVolume(ctx, id, "op"), "DeleteJobs": b.DeleteJobs(ctx, id),
		"StartJob": b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"}),
	} {
		var f *workspace.Failure
		if !errors.As(err, &f) || f.Reason != workspace.ReasonUnreachable {
			t.Errorf("%s: %v, want reason %s", what, err, workspace.ReasonUnreachable)
		}
	}
}
