package backendtest

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// testWorkspaceLife takes a workspace through its whole life, each step twice.
func testWorkspaceLife(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	twice := func(what string, f func() error) {
		t.Helper()
		for range 2 {
			if err := f(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	twice("deleting a container that does not exist", func() error { return b.Delete(ctx, id) })
	twice("deleting a volume that does not exist", func() error { return b.DeleteVolume(ctx, id, "op") })
	twice("deleting jobs that do not exist", func() error { return b.DeleteJobs(ctx, id) })

	twice("provisioning", func() error { return b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}) })
	volumes, err := b.Volumes(ctx)
	must(t, err)
	if _, ok := volumes[id]; !ok || len(volumes) != 1 {
		t.Fatalf("volumes: %v, want the one provisioned", volumes)
	}
	if _, ok := containerOf(t, b, id); ok {
		t.Fatal("a container is listed before the start")
	}

	twice("starting", func() error { return b.Start(ctx, backend.StartSpec{ID: id}) })
	endpoint := Ready(t, b, id)
	c, _ := containerOf(t, b, id)
	if !c.Running || !c.Ready || !c.Volume {
		t.Fatalf("running container: %+v", c)
	}
	request(t, http.MethodPut, endpoint, "/file?name=note", []byte("remember me"))

	twice("deleting", func() error { return b.Delete(ctx, id) })
	if _, ok := containerOf(t, b, id); ok || f.ContainerExists(t, id) {
		t.Fatal("the container exists after Delete")
	}
	twice("starting again", func() error { return b.Start(ctx, backend.StartSpec{ID: id}) })
	if got := request(t, http.MethodGet, Ready(t, b, id), "/file?name=note", nil); got != "remember me" {
		t.Fatalf("the file holds %q after Delete and Start", got)
	}
	must(t, b.Delete(ctx, id))
	twice("deleting the volume", func() error { return b.DeleteVolume(ctx, id, "op") })
	if f.VolumeExists(t, id) {
		t.Fatal("the volume exists after DeleteVolume")
	}
	volumes, err = b.Volumes(ctx)
	must(t, err)
	if len(volumes) != 0 {
		t.Fatalf("volumes: %v, want none", volumes)
	}
}

func testStartWithoutVolume(t *testing.T, f Fixture) {
	b, id := f.New(t, Installation()), newID()
	refused(t, b.Start(Context(t), backend.StartSpec{ID: id}), workspace.ReasonContainerWithoutVolume)
	if f.VolumeExists(t, id) {
		t.Error("the refused start created the volume")
	}
	if f.ContainerExists(t, id) {
		t.Error("the refused start left a container")
	}
}

func testStartReplacesExited(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	before := time.Now()
	exitWith(t, started(t, b, id), 42)
	var c workspace.Container
	wait.Until(t, "container exited", func() bool {
		var ok bool
		c, ok = containerOf(t, b, id)
		return ok && !c.Running
	})
	if c.ExitCode != 42 || c.Ready || c.Endpoint != "" || !c.Volume {
		t.Errorf("exited container: %+v, want exit code 42, not ready, with its volume", c)
	}
	const skew = time.Second // the engine's clock may have a resolution of a second
	if c.StartedAt.Before(before.Add(-skew)) || c.FinishedAt.Before(c.StartedAt) ||
		c.FinishedAt.After(time.Now().Add(skew)) {
		t.Errorf("started %s, finished %s, test began %s", c.StartedAt, c.FinishedAt, before)
	}
	all, err := b.Containers(ctx)
	must(t, err)
	if all[id] != c || len(all) != 1 {
		t.Errorf("the bulk listing says %+v, the one by id %+v", all, c)
	}
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	exitWith(t, Ready(t, b, id), 7)
	wait.Until(t, "second exit", func() bool {
		c, _ = containerOf(t, b, id)
		return !c.Running && c.ExitCode == 7
	})
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}

func testStartConcurrently(t *testing.T, f Fixture) {
	installation, id := Installation(), newID()
	backends := []backend.Backend{f.New(t, installation), f.New(t, installation)}
	ctx := Context(t)
	must(t, backends[0].Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = backends[i%2].Start(ctx, backend.StartSpec{ID: id}) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	Ready(t, backends[0], id)
	all, err := backends[1].Containers(ctx)
	must(t, err)
	if len(all) != 1 || !all[id].Running {
		t.Fatalf("containers: %+v, want the one", all)
	}
}

// missing fails the test unless err reports that this image must be pulled.
func missing(t *testing.T, err error, image string) {
	t.Helper()
	var m *backend.MissingImageError
	if !errors.As(err, &m) || m.Image != image {
		t.Fatalf("%v, want that image %q is missing", err, image)
	}
}

func testImageMissing(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	if b.Images == nil {
		testImageNotPulled(t, f, b)
		return
	}
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	absent := f.MissingImage(t)
	missing(t, b.Images.Check(ctx, absent), absent)
	must(t, b.Images.Check(ctx, ""))
	_, err := b.Images.Size(ctx, absent)
	missing(t, err, absent)
	if size, err := b.Images.Size(ctx, ""); err != nil || size < 1 {
		t.Errorf("the default image takes up %d bytes, %v", size, err)
	}
	missing(t, b.Start(ctx, backend.StartSpec{ID: id, Image: absent}), absent)
	begin := time.Now()
	ignore := func(int64, int64) {}
	refused(t, b.Images.Pull(ctx, absent, ignore), workspace.ReasonImagePullFailed)
	if d := time.Since(begin); d > wait.Timeout {
		t.Errorf("the failure took %s", d)
	}
	refused(t, b.Start(ctx, backend.StartSpec{ID: id, Image: "Not A Reference"}), workspace.ReasonImagePullFailed)
	refused(t, b.Images.Pull(ctx, "Not A Reference", ignore), workspace.ReasonImagePullFailed)
	if f.ContainerExists(t, id) {
		t.Error("a container is left")
	}
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
}

// testImageNotPulled checks that Start does not fail if the image cannot be pulled. The listing reports what the
// container waits for, and that an invalid name will never be pulled. A container that waits can be deleted.
func testImageNotPulled(t *testing.T, f Fixture, b backend.Backend) {
	id, ctx := newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	for image, failure := range map[string]workspace.ErrorReason{
		f.MissingImage(t): "", "Not A Reference": workspace.ReasonImagePullFailed,
	} {
		must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: image}))
		wait.Until(t, "the listing tells that the image cannot be pulled", func() bool {
			c, ok := containerOf(t, b, id)
			if !ok || !c.Running || c.Ready || c.Health != workspace.HealthStarting || c.Endpoint != "" || !c.Volume {
				t.Fatalf("a container without its image: %+v", c)
			}
			return c.Pending != nil && c.Pending.Reason == workspace.WaitPullingImage &&
				c.Pending.Failure == failure && strings.Contains(c.Pending.Message, image)
		})
		must(t, b.Delete(ctx, id))
	}
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	Ready(t, b, id)
	if c, _ := containerOf(t, b, id); c.Pending != nil {
		t.Errorf("a container that is ready waits: %+v", c.Pending)
	}
}

// testImagePulled lets two workspaces wait for the same image.
func testImagePulled(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	if b.Images == nil {
		t.Skip("this engine pulls images itself when something starts")
	}
	image := f.PullableImage(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	spec := backend.StartSpec{ID: id, Image: image}
	missing(t, b.Start(ctx, spec), image)
	missing(t, b.Start(ctx, spec), image) // it is not pulled in the background
	type step struct{ done, total int64 }
	var wg sync.WaitGroup
	var errs [2]error
	var last [2]step
	for i := range errs {
		wg.Go(func() {
			errs[i] = b.Images.Pull(ctx, image, func(done, total int64) {
				if done < last[i].done || total < last[i].total || done > total {
					t.Errorf("after %+v: %d of %d bytes", last[i], done, total)
				}
				last[i] = step{done, total}
			})
		})
	}
	wg.Wait()
	must(t, errors.Join(errs[:]...))
	if total := max(last[0].total, last[1].total); total == 0 || max(last[0].done, last[1].done) != total {
		t.Errorf("at the end: %+v, want all of some bytes", last)
	}
	must(t, b.Images.Pull(ctx, image, func(int64, int64) {})) // the image already exists
	must(t, b.Start(ctx, spec))
	Ready(t, b, id)
}

// testUnhealthy checks that the address of an unhealthy container is reported: the caller decides whether requests go
// there.
func testUnhealthy(t *testing.T, f Fixture) {
	image := f.SickImage(t)
	if image == "" {
		t.Skip("this engine does not run the health checks of images")
	}
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: image}))
	wait.Until(t, "unhealthy", func() bool {
		c, _ := containerOf(t, b, id)
		if !c.Running || c.Ready || c.Endpoint == "" || c.Health != workspace.HealthStarting &&
			c.Health != workspace.HealthUnhealthy {
			t.Fatalf("a container whose health check does not pass: %+v", c)
		}
		return c.Health == workspace.HealthUnhealthy
	})
}

func testPaused(t *testing.T, f Fixture) {
	b, id := f.New(t, Installation()), newID()
	endpoint := started(t, b, id)
	if !f.Pause(t, id) {
		t.Skip("this engine cannot pause a container")
	}
	if c, _ := containerOf(t, b, id); !c.Running || c.Ready || c.Health != workspace.HealthPaused ||
		c.Endpoint != endpoint {
		t.Errorf("paused container: %+v, want it running at %s and not ready", c, endpoint)
	}
	must(t, b.Start(Context(t), backend.StartSpec{ID: id}))
	shows(t, b, id, func(c workspace.Container) bool { return c.Ready && c.Health == "" })
	Ready(t, b, id)
	if b.Freezer != nil {
		f.Pause(t, id)
		must(t, b.Freezer.Thaw(Context(t), id))
		Ready(t, b, id)
	}
}

// testOneObjectUnknown checks that the listings still include all other workspaces if the engine fails to describe one
// of them (SPEC 2).
func testOneObjectUnknown(t *testing.T, f Fixture) {
	installation, ctx := Installation(), Context(t)
	b := f.New(t, installation)
	broken, other, working := newID(), newID(), newID()
	for _, id := range []workspace.ID{broken, other} {
		exitWith(t, started(t, b, id), 3)
		wait.Until(t, "container exited", func() bool { c, _ := containerOf(t, b, id); return !c.Running })
	}
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: working, OpID: "op"}))
	must(t, b.StartJob(ctx, jobSpec(working, workspace.JobArchive, "TEST_SIZE=5")))
	ended(t, b, working)

	ends, repairContainer := f.Break(t, broken)
	_, repairJob := f.Break(t, working)
	fresh := f.New(t, installation) // it has never asked how these ended
	all, err := fresh.Containers(ctx)
	must(t, err)
	if len(all) != 2 || (all[broken].Unknown != "") != ends || all[other].Unknown != "" || all[other].ExitCode != 3 {
		t.Errorf("containers: %+v, want only %s unknown", all, broken)
	}
	if got := jobs(t, fresh, working); len(got) != 1 || got[0].Unknown == "" || got[0].State != "" {
		t.Errorf("jobs: %+v, want one unknown", got)
	}
	repairContainer()
	repairJob()
	if c, _ := containerOf(t, fresh, broken); c.Unknown != "" || c.ExitCode != 3 {
		t.Errorf("after the repair: %+v", c)
	}
	if got := jobs(t, fresh, working); len(got) != 1 || got[0].Unknown != "" || got[0].Size != 5 {
		t.Errorf("after the repair: %+v", got)
	}
}

// testTerms checks that a container is not replaced because of another term.
func testTerms(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Term: "coordinator/3:17"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id, Term: "coordinator/3:18"}))
	if got := f.Terms(t, id); !slices.Equal(got, []string{"coordinator/3:17"}) {
		t.Errorf("terms %q, want that of the leader that made the container", got)
	}
	must(t, b.Delete(ctx, id))
	job := jobSpec(id, workspace.JobArchive)
	job.Term = "coordinator:4"
	must(t, b.StartJob(ctx, job))
	if got := f.Terms(t, id); !slices.Equal(got, []string{job.Term}) {
		t.Errorf("terms %q, want %q", got, job.Term)
	}
}

// testDeleteIsQuick checks that Delete is quick although the main process of a container ignores SIGTERM by default:
// Delete must not wait for a grace period.
func testDeleteIsQuick(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	wait.Quick(t, "Delete", 8*time.Second, func() time.Duration { // a grace period is 10 s or more
		must(t, b.Start(ctx, backend.StartSpec{ID: id}))
		Ready(t, b, id)
		begin := time.Now()
		must(t, b.Delete(ctx, id))
		return time.Since(begin)
	})
}

func testVolumeInUse(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	started(t, b, id)
	if err := b.DeleteVolume(ctx, id, "op"); !errors.Is(err, backend.ErrVolumeInUse) {
		t.Fatalf("deleting a volume in use: %v, want %v", err, backend.ErrVolumeInUse)
	}
	if volumes, err := b.Volumes(ctx, id); err != nil || len(volumes) != 1 {
		t.Fatalf("volumes: %v, %v", volumes, err)
	}
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}

// testUnlabeledObjects creates an object that has the name of the workspace's own object, but no labels. Its owner is
// unknown, so it must be neither used nor removed.
func testUnlabeledObjects(t *testing.T, f Fixture) {
	b, ctx := f.New(t, Installation()), Context(t)
	wantNamed := func(what, name string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names %s", what, err, name)
		}
	}

	id := newID()
	f.UnlabeledContainer(t, id)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	wantNamed("Start", id.ContainerName(), b.Start(ctx, backend.StartSpec{ID: id}))
	wantNamed("Delete", id.ContainerName(), b.Delete(ctx, id))
	wantNamed("StartJob", id.ContainerName(), b.StartJob(ctx, jobSpec(id, workspace.JobArchive)))
	must(t, b.DeleteJobs(ctx, id))
	if _, err := b.Logs(ctx, id, 1); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Logs: %v, want %v", err, backend.ErrNotFound)
	}
	if !f.ContainerExists(t, id) {
		t.Error("the container without labels was removed")
	}

	other := newID()
	f.UnlabeledVolume(t, other)
	wantNamed("Provision", other.VolumeName(), b.Provision(ctx, backend.VolumeSpec{ID: other, OpID: "op"}))
	wantNamed("Start", other.VolumeName(), b.Start(ctx, backend.StartSpec{ID: other}))
	wantNamed("StartJob", other.VolumeName(), b.StartJob(ctx, jobSpec(other, workspace.JobRestore)))
	wantNamed("DeleteVolume", other.VolumeName(), b.DeleteVolume(ctx, other, "op"))
	if !f.VolumeExists(t, other) {
		t.Error("the volume without labels was removed")
	}

	containers, err := b.Containers(ctx)
	must(t, err)
	volumes, err := b.Volumes(ctx)
	must(t, err)
	if len(containers) != 0 || len(volumes) != 1 {
		t.Errorf("listed: containers %v and volumes %v, want only the volume of %s", containers, volumes, id)
	}
	for _, ask := range []workspace.ID{id, other} {
		if _, ok := containerOf(t, b, ask); ok {
			t.Errorf("container of %s is listed", ask)
		}
	}
}

// testTwoInstallations checks two installations on one engine: if one is asked about a workspace of the other, it does
// not touch that workspace.
func testTwoInstallations(t *testing.T, f Fixture) {
	mine, theirs, ctx := f.New(t, Installation()), f.New(t, Installation()), Context(t)
	id, theirsOnly := newID(), newID()
	started(t, mine, id)
	started(t, theirs, theirsOnly)
	for what, err := range map[string]error{
		"Provision":    theirs.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}),
		"Start":        theirs.Start(ctx, backend.StartSpec{ID: id}),
		"Delete":       theirs.Delete(ctx, id),
		"StartJob":     theirs.StartJob(ctx, jobSpec(id, workspace.JobArchive)),
		"DeleteVolume": theirs.DeleteVolume(ctx, id, "op"),
	} {
		if err == nil {
			t.Errorf("%s of the other installation's workspace succeeded", what)
		}
	}
	busy := newID()
	must(t, theirs.Provision(ctx, backend.VolumeSpec{ID: busy, OpID: "op"}))
	must(t, theirs.StartJob(ctx, jobSpec(busy, workspace.JobArchive, "TEST_WAIT=1")))
	must(t, mine.DeleteJobs(ctx, busy))
	if all, err := mine.Jobs(ctx); err != nil || len(all) != 0 || len(jobs(t, mine, busy)) != 0 {
		t.Errorf("jobs of mine: %+v, %v, want none", all, err)
	}
	if got := jobs(t, theirs, busy); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Errorf("jobs of theirs: %+v, want the one that runs", got)
	}
	must(t, theirs.DeleteJobs(ctx, busy))
	must(t, theirs.DeleteVolume(ctx, busy, "op"))
	must(t, theirs.DeleteJobs(ctx, id))
	for name, side := range map[string]struct {
		b   backend.Backend
		own workspace.ID
	}{"mine": {mine, id}, "theirs": {theirs, theirsOnly}} {
		containers, err := side.b.Containers(ctx)
		must(t, err)
		volumes, err := side.b.Volumes(ctx)
		must(t, err)
		if len(containers) != 1 || !containers[side.own].Ready || len(volumes) != 1 {
			t.Errorf("%s: containers %v, volumes %v, want only %s", name, containers, volumes, side.own)
		}
		byID, err := side.b.Volumes(ctx, id, theirsOnly)
		must(t, err)
		if got := slices.Collect(maps.Keys(byID)); !slices.Equal(got, []workspace.ID{side.own}) {
			t.Errorf("%s: volumes by id %v, want only %s", name, got, side.own)
		}
	}
}

func testSensorsByID(t *testing.T, f Fixture) {
	b, ctx := f.New(t, Installation()), Context(t)
	ids := make([]workspace.ID, 20)
	for i := range ids {
		ids[i] = newID()
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: ids[i], OpID: "op"}))
	}
	for _, id := range ids[:2] {
		must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	}
	for _, ask := range [][]workspace.ID{nil, ids[:1], ids[1:2], ids[:3], ids[2:3], ids, {newID()}, {ids[0], newID()}} {
		wantRunning, wantVolumes := map[workspace.ID]bool{}, map[workspace.ID]bool{}
		for i, id := range ids {
			asked := ask == nil || slices.Contains(ask, id)
			if asked && i < 2 {
				wantRunning[id] = true
			}
			if asked {
				wantVolumes[id] = true
			}
		}
		containers, err := b.Containers(ctx, ask...)
		must(t, err)
		volumes, err := b.Volumes(ctx, ask...)
		must(t, err)
		if !sameKeys(containers, wantRunning) || !sameKeys(volumes, wantVolumes) {
			t.Errorf("asked for %d ids: %d containers and %d volumes, want %d and %d",
				len(ask), len(containers), len(volumes), len(wantRunning), len(wantVolumes))
		}
	}
}

// testInvalidIDs checks that a string does not become part of a name if it is not an id.
func testInvalidIDs(t *testing.T, f Fixture) {
	b, ctx := f.New(t, Installation()), Context(t)
	for _, id := range []workspace.ID{"", "x", "../../etc", workspace.ID(strings.ToUpper(string(newID())))} {
		_, logs := b.Logs(ctx, id, 1)
		for what, err := range map[string]error{
			"Provision":    b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}),
			"Start":        b.Start(ctx, backend.StartSpec{ID: id}),
			"Delete":       b.Delete(ctx, id),
			"DeleteVolume": b.DeleteVolume(ctx, id, "op"), "DeleteJobs": b.DeleteJobs(ctx, id), "Logs": logs,
			"StartJob": b.StartJob(ctx, jobSpec(id, workspace.JobArchive)),
		} {
			if !errors.Is(err, workspace.ErrInvalidID) {
				t.Errorf("%s(%q): %v, want %v", what, id, err, workspace.ErrInvalidID)
			}
		}
	}
}

func testLogs(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	if _, err := b.Logs(ctx, id, 10); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Logs without a container: %v, want %v", err, backend.ErrNotFound)
	}
	endpoint := started(t, b, id)
	logged := func(want string) {
		t.Helper()
		wait.Until(t, "log tail", func() bool {
			text, err := b.Logs(ctx, id, 10)
			must(t, err)
			return text == want
		})
	}
	logged("serving\n") // the other line comes on another stream and may overtake this one
	exitWith(t, endpoint, 3)
	logged("serving\nexiting with 3\n")
	if text, err := b.Logs(ctx, id, 1); err != nil || text != "exiting with 3\n" {
		t.Errorf("the last line: %q, %v", text, err)
	}
	if text, err := b.Logs(ctx, id, 0); err != nil || text != "" {
		t.Errorf("no line: %q, %v", text, err)
	}
}

func testEvents(t *testing.T, f Fixture) {
	installation := Installation()
	b, other, id := f.New(t, installation), f.New(t, Installation()), newID()
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	events, err := b.Events(ctx)
	must(t, err)
	// hint waits for an event after which the listing shows the change. An engine may send more than one event for each
	// change, but must send one after which the listing shows it.
	hint := func(what string, shows func() bool) {
		t.Helper()
		for timeout := time.After(wait.Timeout); ; {
			select {
			case got, ok := <-events:
				if !ok || got != id {
					t.Fatalf("%s: event for %q (channel open: %t), want %s", what, got, ok, id)
				}
				if shows() {
					return
				}
			case <-timeout:
				t.Fatalf("%s: no event after which it shows", what)
			}
		}
	}
	started(t, other, newID()) // its events must not arrive here
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	hint("start", func() bool { c, _ := containerOf(t, b, id); return c.Running })
	exitWith(t, Ready(t, b, id), 0)
	hint("die", func() bool { c, _ := containerOf(t, b, id); return !c.Running })
	must(t, b.Delete(ctx, id))
	hint("destroy", func() bool { _, ok := containerOf(t, b, id); return !ok })
	must(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive)))
	hint("job start", func() bool { return len(jobs(t, b, id)) == 1 })
	hint("job end", func() bool {
		all := jobs(t, b, id)
		return len(all) == 1 && all[0].State != workspace.JobRunning
	})
	cancel()
	wait.Until(t, "channel closed", func() bool {
		select {
		case _, ok := <-events:
			return !ok
		default:
			return false
		}
	})
}

func testCancelledContext(t *testing.T, f Fixture) {
	b, id := f.New(t, Installation()), newID()
	must(t, b.Provision(Context(t), backend.VolumeSpec{ID: id, OpID: "op"}))
	ctx, cancel := context.WithCancel(Context(t))
	cancel()
	_, list := b.Containers(ctx)
	_, events := b.Events(ctx)
	for what, err := range map[string]error{
		"Containers": list, "Events": events,
		"Start":     b.Start(ctx, backend.StartSpec{ID: id}),
		"Provision": b.Provision(ctx, backend.VolumeSpec{ID: newID(), OpID: "op"}),
		"Delete":    b.Delete(ctx, id),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", what, err, context.Canceled)
		}
	}
	if f.ContainerExists(t, id) {
		t.Error("a cancelled start left a container")
	}
}
