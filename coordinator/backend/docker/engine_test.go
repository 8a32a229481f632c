package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

func newID() workspace.ID { return workspace.ID(uuid.NewString()) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func start(t testing.TB, b backend.Backend, spec backend.StartSpec) string {
	t.Helper()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: spec.ID, OpID: "op"}))
	must(t, b.Start(t.Context(), spec))
	return backendtest.Ready(t, b, spec.ID)
}

func get(t *testing.T, endpoint, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + endpoint + path)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(b)
}

// TestConfinement checks a workspace's limits from inside and at the engine.
func TestConfinement(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.change = func(o *docker.Options) { o.MemoryBytes, o.PidsLimit, o.NanoCPUs = 128<<20, 99, 5e8 }
	b, id := e.New(t, backendtest.Installation()), newID()
	endpoint := start(t, b, backend.StartSpec{ID: id})

	_, status := get(t, endpoint, "/status")
	for _, line := range []string{"NoNewPrivs:\t1", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "Uid:\t1000\t",
		"Hostname:\t" + id.ContainerName(), "PPid:\t1\n"} { // its parent is the init
		if !strings.Contains(status, line) {
			t.Errorf("%q is not in the workspace's status:\n%s", line, status)
		}
	}
	c, err := e.api.ContainerInspect(t.Context(), id.ContainerName())
	must(t, err)
	h := c.HostConfig
	if h.Memory != 128<<20 || h.PidsLimit == nil || *h.PidsLimit != 99 || h.NanoCPUs != 5e8 {
		t.Errorf("limits: %+v", h.Resources)
	}
	if h.RestartPolicy.Name != "" && h.RestartPolicy.Name != container.RestartPolicyDisabled {
		t.Errorf("restart policy %q: the coordinator decides what runs", h.RestartPolicy.Name)
	}
	if h.LogConfig.Config["max-size"] == "" {
		t.Errorf("its output is not bounded: %+v", h.LogConfig)
	}
}

func TestWorkspacesCannotReachOneAnother(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	one := start(t, b, backend.StartSpec{ID: newID()})
	two := start(t, b, backend.StartSpec{ID: newID()})
	wait.For(t, "a workspace reaches itself", func() error { // it gives up after a second
		if code, body := get(t, one, "/get?url=http://localhost:8080/"); code != http.StatusOK || body != "hello" {
			return fmt.Errorf("%d %s", code, body)
		}
		return nil
	})
	if code, body := get(t, one, "/get?url=http://"+two+"/"); code != http.StatusBadGateway {
		t.Errorf("a workspace reaches another one: %d %s", code, body)
	}
	e.change = nil
	elsewhere := start(t, e.New(t, backendtest.Installation()), backend.StartSpec{ID: newID()})
	if code, body := get(t, one, "/get?url=http://"+elsewhere+"/"); code != http.StatusBadGateway {
		t.Errorf("a workspace reaches one of another installation: %d %s", code, body)
	}
}

func TestPublishLoopback(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.change = func(o *docker.Options) { o.Publish = spec.PublishLoopback }
	b := e.New(t, backendtest.Installation())
	endpoint := start(t, b, backend.StartSpec{ID: newID()})
	if !strings.HasPrefix(endpoint, "127.0.0.1:") || endpoint == "127.0.0.1:8080" {
		t.Errorf("endpoint %s, want some port of 127.0.0.1", endpoint)
	}
}

// TestNetworkRace starts the first workspaces of an installation from several processes.
func TestNetworkRace(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	backends := make([]backend.Backend, 4)
	for i := range backends {
		backends[i] = e.New(t, installation)
	}
	var wg sync.WaitGroup
	for _, b := range backends {
		wg.Go(func() {
			id := newID()
			if err := b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}); err != nil {
				t.Error(err)
			} else if err := b.Start(t.Context(), backend.StartSpec{ID: id}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := e.networks(t, installation); len(n) != 1 {
		t.Errorf("%d networks, want one: %v", len(n), n)
	}
	all, err := backends[0].Containers(t.Context())
	must(t, err)
	if len(all) != len(backends) {
		t.Errorf("containers: %+v", all)
	}
}

func (e *engine) networks(t *testing.T, installation string) []network.Summary {
	t.Helper()
	n, err := e.api.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", spec.LabelInstallation+"="+installation))})
	must(t, err)
	return n
}

// TestNetworkRemoved: the network that a running process remembers was removed.
func TestNetworkRemoved(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	start(t, b, backend.StartSpec{ID: id})
	must(t, b.Delete(t.Context(), id))
	must(t, e.api.NetworkRemove(t.Context(), e.networks(t, installation)[0].ID))
	must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
	backendtest.Ready(t, b, id)
}

func TestUnlabeledNetwork(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	name := "codehub-" + installation
	made, err := e.api.NetworkCreate(t.Context(), name, network.CreateOptions{})
	must(t, err)
	t.Cleanup(func() { check(t, e.api.NetworkRemove(context.Background(), made.ID)) })
	if err := b.Start(t.Context(), backend.StartSpec{ID: id}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("with a network of that name without labels: %v, want an error that names it", err)
	}
	e.change = func(o *docker.Options) { o.Network = name } // the operator chose it
	chosen := e.New(t, installation)
	must(t, chosen.Start(t.Context(), backend.StartSpec{ID: id}))
	backendtest.Ready(t, chosen, id)
	must(t, chosen.Delete(t.Context(), id))
}

// TestLeftBetweenCreateAndStart: a process died after it had created a container.
func TestLeftBetweenCreateAndStart(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	labels := map[string]string{spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: spec.KindWorkspace}
	_, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image, Labels: labels}, nil, nil, nil, id.ContainerName())
	must(t, err)
	all, err := b.Containers(t.Context())
	must(t, err)
	if c, ok := all[id]; !ok || c.Running || c.Ready || c.Volume {
		t.Errorf("a container without a volume that was never started: %+v", c)
	}
	must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
	backendtest.Ready(t, b, id)
	all, err = b.Containers(t.Context())
	must(t, err)
	if !all[id].Volume {
		t.Error("the leftover was started, although it has no volume, and not replaced")
	}
	must(t, b.Delete(t.Context(), id))

	// A process has died before it started the job, perhaps while it was writing the grant. The next process writes
	// another grant.
	job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: uuid.NewString(), Env: []string{"TEST_SIZE=1"}, Grant: []byte("new")}
	labels[spec.LabelKind], labels[spec.LabelOp], labels[spec.LabelJob] = spec.KindJob, job.OpID, string(job.Kind)
	made, err := e.api.ContainerCreate(t.Context(), &container.Config{
		Image: e.image, User: "0:0", Labels: labels, Cmd: []string{"archive"}, Env: []string{"TEST_WAIT=1", fmt.Sprintf("TEST_GRANT=%x", sha256.Sum256(job.Grant))},
	}, &container.HostConfig{ReadonlyRootfs: true, Mounts: []mount.Mount{{Type: mount.TypeVolume, Target: contract.ScratchPath}}},
		nil, nil, fmt.Sprintf("%s-archive-%s", id.ContainerName(), job.OpID))
	must(t, err)
	var half bytes.Buffer
	w := tar.NewWriter(&half)
	must(t, w.WriteHeader(&tar.Header{Name: contract.GrantName, Size: 7, Mode: 0o400}))
	_, err = w.Write([]byte("{\"half\""))
	must(t, errors.Join(err, w.Close()))
	must(t, e.api.CopyToContainer(t.Context(), made.ID, contract.ScratchPath, &half, container.CopyToContainerOptions{}))
	if jobs, err := b.Jobs(t.Context(), id); err != nil || len(jobs) != 0 {
		t.Errorf("a job that was never started is listed: %v %v", jobs, err)
	}
	must(t, b.StartJob(t.Context(), job))
	if jobs, err := b.Jobs(t.Context(), id); err != nil || len(jobs[id]) != 1 || jobs[id][0].State != workspace.JobRunning {
		t.Errorf("the leftover job was not started: %v %v", jobs, err)
	}
}

// TestVolumeCreatedByTheEngine: the volume was removed just before a container was created, so the engine created an
// empty one. It must not pass for a home.
func TestVolumeCreatedByTheEngine(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	_, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: id.VolumeName(), Labels: map[string]string{
		spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: "accident"}})
	must(t, err)
	if volumes, err := b.Volumes(t.Context()); err != nil || len(volumes) != 0 {
		t.Errorf("volumes: %v, %v, want none", volumes, err)
	}
	err = b.Start(t.Context(), backend.StartSpec{ID: id})
	if workspace.ReasonOf(err) != workspace.ReasonContainerWithoutVolume {
		t.Errorf("Start: %v, want %s", err, workspace.ReasonContainerWithoutVolume)
	}
	if e.VolumeExists(t, id) {
		t.Error("the engine's volume still exists")
	}
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	if volumes, err := b.Volumes(t.Context(), id); err != nil || len(volumes) != 1 {
		t.Errorf("volumes after Provision: %v, %v", volumes, err)
	}
}

// TestJobContainer checks a storage job's limits at the engine, and that only the home remains after it.
func TestJobContainer(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	archive := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: uuid.NewString(), Env: []string{"TEST_WAIT=1"}}
	must(t, b.StartJob(t.Context(), archive))
	c, err := e.api.ContainerInspect(t.Context(), archive.Name())
	must(t, err)
	if !slices.Equal(c.HostConfig.CapAdd, []string{"CAP_DAC_READ_SEARCH"}) && !slices.Equal(c.HostConfig.CapAdd, []string{"DAC_READ_SEARCH"}) {
		t.Errorf("an archive job has the capabilities %v", c.HostConfig.CapAdd)
	}
	// The job yields to workspaces: the engine has accepted the job's shares of the processors and of the disk, or has
	// reported that it does not support such shares.
	info, err := e.api.Info(t.Context())
	must(t, err)
	if info.CPUShares && (c.HostConfig.CPUShares == 0 || c.HostConfig.CPUShares >= 1024) {
		t.Errorf("an archive job has %d shares of the processors, of which a workspace has 1024", c.HostConfig.CPUShares)
	}
	if w := c.HostConfig.BlkioWeight; w >= 500 || w == 0 && !weightsDiscarded(t, e) {
		t.Errorf("an archive job has the weight %d on the disk, of which a workspace has 500", w)
	}
	for _, m := range c.Mounts {
		if m.Destination == "/data" && m.RW {
			t.Error("an archive job may write to the home")
		}
	}
	must(t, b.DeleteJobs(t.Context(), id))
	spec := backend.JobSpec{ID: id, Kind: workspace.JobRestore, OpID: uuid.NewString(), Env: []string{"TEST_WAIT=1"}}
	must(t, b.StartJob(t.Context(), spec))
	c, err = e.api.ContainerInspect(t.Context(), fmt.Sprintf("ws-%s-restore-%s", id, spec.OpID))
	must(t, err)
	h := c.HostConfig
	if info.CPUShares && h.CPUShares != 1024 {
		t.Errorf("a restore has %d shares of the processors, want those of a workspace", h.CPUShares)
	}
	if !h.ReadonlyRootfs || h.Memory == 0 || !slices.Contains(h.SecurityOpt, "no-new-privileges") ||
		!slices.Equal(h.CapDrop, []string{"ALL"}) || slices.Contains(h.CapAdd, "MKNOD") || h.Privileged {
		t.Errorf("host config: %+v", h)
	}
	scratch := ""
	for _, m := range c.Mounts {
		switch m.Destination {
		case "/data":
			if m.Name != id.VolumeName() {
				t.Errorf("/data is %s", m.Name)
			}
		case "/tmp":
			scratch = m.Name
		default:
			t.Errorf("unexpected mount %+v", m)
		}
	}
	must(t, b.DeleteJobs(t.Context(), id))
	if _, err := e.api.VolumeInspect(t.Context(), scratch); scratch == "" || ignoreGone(err) != nil || err == nil {
		t.Errorf("the scratch volume %q is left behind (%v)", scratch, err)
	}
	if !e.VolumeExists(t, id) {
		t.Error("the home was removed with the job")
	}
}

// weightsDiscarded reports whether the engine does not support weights for the disk: it then ignores the weight, and
// says so when a container is created.
func weightsDiscarded(t *testing.T, e *engine) bool {
	t.Helper()
	c, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image},
		&container.HostConfig{Resources: container.Resources{BlkioWeight: 100}}, nil, nil, "")
	must(t, err)
	must(t, e.api.ContainerRemove(t.Context(), c.ID, container.RemoveOptions{Force: true}))
	return slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, "discarded") })
}
