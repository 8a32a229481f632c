package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// unreachable fails the test unless err has that reason and contains that text.
func unreachable(t *testing.T, err error, contains string) {
	t.Helper()
	var f *workspace.Failure
	if !errors.As(err, &f) || f.Reason != workspace.ReasonUnreachable || !strings.Contains(err.Error(), contains) {
		t.Fatalf("%v, want reason %s and %q", err, workspace.ReasonUnreachable, contains)
	}
}

// TestEngineRestartedWithLiveRestore: a client cannot reach the engine for a moment, while the containers keep running.
func TestEngineRestartedWithLiveRestore(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := faulty.NewEngine(t, e.host)
	e.change = func(o *docker.Options) { o.Host = p.Host }
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	start(t, b, backend.StartSpec{ID: id})
	before, err := b.Identity(ctx)
	must(t, err)
	events, err := b.Events(ctx)
	must(t, err)

	p.Lead("unix:///nonexistent/docker.sock")
	p.Cut()
	for range events { // until it ends
	}
	_, err = b.Containers(ctx)
	unreachable(t, err, "listing containers")
	_, err = b.Events(ctx)
	unreachable(t, err, "listening for events")
	unreachable(t, b.Delete(ctx, id), "inspecting container")

	p.Lead(e.host)
	all, err := b.Containers(ctx)
	must(t, err)
	after, err := b.Identity(ctx)
	if err != nil || after != before || !all[id].Ready {
		t.Errorf("after the restart: %+v on engine %s (%v), want it ready on %s", all[id], after, err, before)
	}
	if _, err := b.Events(ctx); err != nil {
		t.Error(err)
	}
}

// TestEngineHangs: connections are made and requests are sent, and nothing comes back.
func TestEngineHangs(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	p := faulty.NewEngine(t, e.host)
	e.change = func(o *docker.Options) { o.Host = p.Host }
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	events, err := b.Events(ctx)
	must(t, err)
	p.Hang(true)
	short := func() context.Context {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	_, err = b.Volumes(short())
	unreachable(t, err, "did not answer in time")
	_, err = b.Containers(short())
	unreachable(t, err, "did not answer in time")
	unreachable(t, b.Delete(short(), id), "did not answer in time")
	if _, err := b.Identity(short()); err != nil {
		t.Errorf("the engine that has answered so far is known: %v", err)
	}
	// The stream is merely silent, so the backend pings the engine.
	deadline := time.After(wait.Timeout)
	for open := true; open; {
		select {
		case _, open = <-events:
		case <-deadline:
			t.Fatal("the event stream does not notice that the engine hangs")
		}
	}
	p.Hang(false)
	if all, err := b.Volumes(ctx); err != nil || len(all) != 1 {
		t.Errorf("volumes after it recovered: %v, %v", all, err)
	}
}

// TestAnotherEngineAnswers: if an empty engine answers at the same address, it is not asked for its containers, and the
// error names both engines.
func TestAnotherEngineAnswers(t *testing.T) {
	t.Parallel()
	e, other := newEngine(t), newFakeEngine(t, "OTHER:ENGINE", "1.41")
	p := faulty.NewEngine(t, e.host)
	e.change = func(o *docker.Options) { o.Host = p.Host }
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	known, err := b.Identity(ctx)
	must(t, err)
	p.Lead(other.host)
	p.Cut()
	_, err = b.Volumes(ctx)
	unreachable(t, err, "OTHER:ENGINE")
	unreachable(t, b.DeleteVolume(ctx, id, "op"), known)
	_, err = b.Identity(ctx)
	unreachable(t, err, "OTHER:ENGINE")
	p.Lead(e.host)
	if all, err := b.Volumes(ctx); err != nil || len(all) != 1 {
		t.Errorf("volumes of the right engine: %v, %v", all, err)
	}
	if id, err := b.Identity(ctx); err != nil || id != known {
		t.Errorf("identity %s, %v, want %s", id, err, known)
	}
}

// TestFirstEngine: a new process accepts the engine that it finds. Its caller must decide whether that is the right
// one.
func TestFirstEngine(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "FAKE", "1.41")
	f.answers["GET /volumes"] = answer(volume.ListResponse{})
	b := f.backend(t)
	if id, err := b.Identity(t.Context()); err != nil || id != "FAKE" {
		t.Errorf("%q, %v", id, err)
	}
	if all, err := b.Volumes(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestPruneByVersion: the request to remove a volume differs between API versions, and never removes more than that one
// volume.
func TestPruneByVersion(t *testing.T) {
	t.Parallel()
	for version, all := range map[string]bool{"1.41": false, "1.42": true, "1.51": true} {
		f, id := newFakeEngine(t, "FAKE", version), newID()
		b := f.backend(t)
		labels := map[string]string{}
		var asked map[string]map[string]bool
		there := true
		f.answers["GET /volumes/"+id.VolumeName()] = func(w http.ResponseWriter, r *http.Request) {
			if !there {
				refuse(http.StatusNotFound, "no such volume")(w, r)
				return
			}
			answer(volume.Volume{Name: id.VolumeName(), Labels: labels})(w, r)
		}
		f.answers["POST /volumes/create"] = func(w http.ResponseWriter, r *http.Request) {
			var o volume.CreateOptions
			_ = json.NewDecoder(r.Body).Decode(&o)
			labels = o.Labels
			answer(volume.Volume{Name: o.Name, Labels: o.Labels})(w, r)
		}
		f.answers["GET /containers/json"] = answer([]container.Summary{}) // it has no sandbox
		running := 3
		f.answers["POST /volumes/prune"] = func(w http.ResponseWriter, r *http.Request) {
			if running--; running >= 0 {
				refuse(http.StatusConflict, "a prune operation is already running")(w, r)
				return
			}
			_ = json.Unmarshal([]byte(r.FormValue("filters")), &asked)
			there = false
			answer(volume.PruneReport{})(w, r)
		}
		must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op-7"}))
		must(t, b.DeleteVolume(t.Context(), id, "op-7"))
		if running >= 0 {
			t.Errorf("API %s: a running prune was not waited for", version)
		}
		for _, label := range []string{spec.LabelWorkspace + "=" + string(id), spec.LabelKind + "=" + spec.KindHome, spec.LabelOp + "=op-7",
			spec.LabelInstallation + "=" + labels[spec.LabelInstallation]} {
			if !asked["label"][label] {
				t.Errorf("API %s: %v does not ask for %s", version, asked, label)
			}
		}
		if len(asked["label"]) != 4 || asked["all"]["true"] != all {
			t.Errorf("API %s: %v", version, asked)
		}
	}
}

// TestVolumeThatStays: the engine's answer to a prune does not show whether it removed anything.
func TestVolumeThatStays(t *testing.T) {
	t.Parallel()
	f, id := newFakeEngine(t, "FAKE", "1.41"), newID()
	b, labels := f.backend(t), map[string]string{}
	f.answers["POST /volumes/create"] = func(w http.ResponseWriter, r *http.Request) {
		var o volume.CreateOptions
		_ = json.NewDecoder(r.Body).Decode(&o)
		labels = o.Labels
		answer(volume.Volume{Name: o.Name, Labels: o.Labels})(w, r)
	}
	f.answers["GET /volumes/"+id.VolumeName()] = func(w http.ResponseWriter, r *http.Request) {
		answer(volume.Volume{Name: id.VolumeName(), Labels: labels})(w, r)
	}
	f.answers["POST /volumes/prune"] = answer(volume.PruneReport{})
	user := []container.Summary{{ID: "1", Names: []string{"/backup"}, Mounts: []container.MountPoint{{Name: id.VolumeName()}}}}
	f.answers["GET /containers/json"] = answer(user)
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	if err := b.DeleteVolume(t.Context(), id, "op"); !errors.Is(err, backend.ErrVolumeInUse) || !strings.Contains(err.Error(), "backup") {
		t.Errorf("%v, want %v and the container that uses it", err, backend.ErrVolumeInUse)
	}
	f.answers["GET /containers/json"] = answer([]container.Summary{})
	if err := b.DeleteVolume(t.Context(), id, "op"); err == nil || errors.Is(err, backend.ErrVolumeInUse) || !strings.Contains(err.Error(), id.VolumeName()) {
		t.Errorf("%v, want that the engine has not removed it", err)
	}
}

// TestLateContainerDelete: a deposed leader's request to remove a container arrives late, when the next leader has
// started another container, for a user or for a job.
func TestLateContainerDelete(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	removes := func(r *http.Request) bool {
		return r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "/containers/")
	}
	installation, ctx := backendtest.Installation(), t.Context()
	b, id := e.New(t, installation), newID()
	start(t, b, backend.StartSpec{ID: id})
	deposed, held, release := e.hold(t, installation, removes)
	late := make(chan error, 1)
	go func() { late <- deposed.Delete(ctx, id) }()
	<-held
	must(t, b.Delete(ctx, id))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	release()
	must(t, <-late)
	backendtest.Ready(t, b, id)
	must(t, b.Delete(ctx, id))

	job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op", Env: []string{"TEST_WAIT=1"}}
	must(t, b.StartJob(ctx, job))
	deposed, held, release = e.hold(t, installation, removes)
	go func() { late <- deposed.DeleteJobs(ctx, id) }()
	<-held
	must(t, b.DeleteJobs(ctx, id))
	must(t, b.StartJob(ctx, job))
	release()
	must(t, <-late)
	if all, err := b.Jobs(ctx, id); err != nil || len(all[id]) != 1 || all[id][0].State != workspace.JobRunning {
		t.Errorf("jobs: %+v, %v, want the one that runs", all, err)
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id := e.New(t, backendtest.Installation()), newID()
	const message = "mkdir /var/lib/docker/x: no space left on device"
	full := e.faults.add(failing(http.MethodPost, "/volumes/create", http.StatusInternalServerError, message))
	err := b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"})
	if err == nil || !strings.Contains(err.Error(), "disk is full") || workspace.ReasonOf(err) != workspace.ReasonActionFailed {
		t.Errorf("%v, want that the disk is full", err)
	}
	full()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	full = e.faults.add(failing(http.MethodPost, "/start", http.StatusInternalServerError, message))
	if err := b.Start(t.Context(), backend.StartSpec{ID: id}); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("%v, want that the disk is full", err)
	}
	if e.ContainerExists(t, id) {
		t.Error("the container that could not start is left")
	}
	full()
	start(t, b, backend.StartSpec{ID: id})
}

// TestListingFails: if the engine answers a listing with an error, nothing is concluded about any workspace.
func TestListingFails(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	defer e.faults.add(failing(http.MethodGet, "/containers/json", http.StatusInternalServerError, "database is locked"))()
	defer e.faults.add(failing(http.MethodGet, "/volumes", http.StatusInternalServerError, "database is locked"))()
	_, containers := b.Containers(t.Context())
	_, jobs := b.Jobs(t.Context())
	_, volumes := b.Volumes(t.Context())
	_, objects := b.Objects(t.Context())
	for what, err := range map[string]error{"Containers": containers, "Jobs": jobs, "Volumes": volumes, "Objects": objects} {
		if err == nil || !strings.Contains(err.Error(), "database is locked") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestProgressIsReadRarely: under load, a listing runs many times a second.
func TestProgressIsReadRarely(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id := e.New(t, backendtest.Installation()), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	var reads atomic.Int64
	e.faults.add(func(r *http.Request) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "/logs") {
			reads.Add(1)
		}
		return nil, nil
	})
	must(t, b.StartJob(t.Context(), backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op", Env: []string{"TEST_PROGRESS=1"}}))
	begin, last, listings := time.Now(), "", 0
	wait.Until(t, "progress", func() bool {
		all, err := b.Jobs(t.Context())
		must(t, err)
		last, listings = all[id][0].Progress, listings+1
		return last != "" && listings >= 20
	})
	if n, most := reads.Load(), 2+int64(time.Since(begin)/time.Second); n > most {
		t.Errorf("%d listings have read the output %d times, want at most %d", listings, n, most)
	}
	// If the output cannot be read, the last known progress stays.
	defer e.faults.add(failing(http.MethodGet, "/logs", http.StatusInternalServerError, "the log is damaged"))()
	seen := reads.Load()
	wait.Until(t, "a reading fails", func() bool {
		all, err := b.Jobs(t.Context())
		must(t, err)
		if all[id][0].Progress == "" || all[id][0].State != workspace.JobRunning {
			t.Fatalf("%+v", all[id][0])
		}
		return reads.Load() > seen+1
	})
}

// TestMissingImages: each error names the image to pass to Pull, even if no workspace names that image.
func TestMissingImages(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.change = func(o *docker.Options) { o.Image, o.JobImage = e.PullableImage(t), e.PullableImage(t) }
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"}
	for name, run := range map[string]func() error{
		"the default image": func() error { return b.Start(ctx, backend.StartSpec{ID: id}) },
		"the job's image":   func() error { return b.StartJob(ctx, job) },
	} {
		var m *backend.MissingImageError
		if err := run(); !errors.As(err, &m) || m.Image == "" {
			t.Fatalf("%s: %v", name, err)
		}
		must(t, b.Images.Pull(ctx, m.Image, func(int64, int64) {}))
		must(t, run())
		must(t, b.DeleteJobs(ctx, id))
		must(t, b.Delete(ctx, id))
	}
}

// TestDefaultImagePulled: for Pull, too, an empty image means the default image.
func TestDefaultImagePulled(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	e.change = func(o *docker.Options) { o.Image = e.PullableImage(t) }
	b, id := e.New(t, backendtest.Installation()), newID()
	must(t, b.Images.Pull(t.Context(), "", func(int64, int64) {}))
	start(t, b, backend.StartSpec{ID: id})
}

// TestPullIsInterrupted: if the engine ends during a pull, the error does not blame the image, which may be fine.
func TestPullIsInterrupted(t *testing.T) {
	t.Parallel()
	f := newFakeEngine(t, "FAKE", "1.41")
	f.answers["POST /images/create"] = func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"status":"Downloading","progressDetail":{"current":1,"total":2},"id":"a"}` + "\n"))
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	unreachable(t, f.backend(t).Images.Pull(t.Context(), "x:1", func(int64, int64) {}), `pulling image "x:1"`)
	f.answers["POST /images/create"] = func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := f.backend(t).Images.Pull(ctx, "x:1", func(int64, int64) {}); err == nil || workspace.ReasonOf(err) == workspace.ReasonImagePullFailed {
		t.Errorf("a pull that was given up: %v", err)
	}
}
