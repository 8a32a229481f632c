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
	"github.com/codehub/gateway/coordinator/workspace"
)

// testWorkspaceLife takes a workspace through everything, each step twice.
func testWorkspaceLife(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	twice := func(what string, f func() error) {
		t.Helper()
		for range 2 {
			if err := f(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	twice("deleting what is not there", func() error { return rt.Delete(ctx, id) })
	twice("deleting the volume that is not there", func() error { return rt.DeleteVolume(ctx, id) })
	twice("deleting jobs that are not there", func() error { return rt.DeleteJobs(ctx, id) })

	twice("provisioning", func() error { return rt.Provision(ctx, id) })
	volumes, err := rt.Volumes(ctx)
	must(t, err)
	if _, ok := volumes[id]; !ok || len(volumes) != 1 {
		t.Fatalf("volumes: %v, want the one provisioned", volumes)
	}
	if _, ok := look(t, rt, id); ok {
		t.Fatal("a container is listed before the start")
	}

	twice("starting", func() error { return rt.Start(ctx, backend.StartSpec{ID: id}) })
	endpoint := Ready(t, rt, id)
	c, _ := look(t, rt, id)
	if !c.Running || !c.Ready || !c.Volume {
		t.Fatalf("running container: %+v", c)
	}
	request(t, http.MethodPut, endpoint, "/file?name=note", []byte("remember me"))

	twice("deleting", func() error { return rt.Delete(ctx, id) })
	if _, ok := look(t, rt, id); ok || b.ContainerExists(t, id) {
		t.Fatal("the container is still there after Delete")
	}
	twice("starting again", func() error { return rt.Start(ctx, backend.StartSpec{ID: id}) })
	if got := request(t, http.MethodGet, Ready(t, rt, id), "/file?name=note", nil); got != "remember me" {
		t.Fatalf("the file holds %q after Delete and Start", got)
	}
	must(t, rt.Delete(ctx, id))
	twice("deleting the volume", func() error { return rt.DeleteVolume(ctx, id) })
	if b.VolumeExists(t, id) {
		t.Fatal("the volume is still there after DeleteVolume")
	}
	volumes, err = rt.Volumes(ctx)
	must(t, err)
	if len(volumes) != 0 {
		t.Fatalf("volumes: %v, want none", volumes)
	}
}

func testStartWithoutVolume(t *testing.T, b Fixture) {
	rt, id := b.New(t, Installation()), newID()
	refused(t, rt.Start(Context(t), backend.StartSpec{ID: id}), workspace.ReasonContainerWithoutVolume)
	if b.VolumeExists(t, id) {
		t.Error("the refused start made the volume")
	}
	if b.ContainerExists(t, id) {
		t.Error("the refused start left a container")
	}
}

func testStartReplacesExited(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	before := time.Now()
	leave(t, started(t, rt, id), 42)
	var c workspace.Container
	Eventually(t, "container exited", func() bool {
		var ok bool
		c, ok = look(t, rt, id)
		return ok && !c.Running
	})
	if c.ExitCode != 42 || c.Ready || c.Endpoint != "" || !c.Volume {
		t.Errorf("exited container: %+v, want exit code 42, not ready, with its volume", c)
	}
	const skew = time.Second // the engine's clock may count seconds only
	if c.StartedAt.Before(before.Add(-skew)) || c.FinishedAt.Before(c.StartedAt) || c.FinishedAt.After(time.Now().Add(skew)) {
		t.Errorf("started %s, finished %s, test began %s", c.StartedAt, c.FinishedAt, before)
	}
	all, err := rt.Containers(ctx)
	must(t, err)
	if all[id] != c || len(all) != 1 {
		t.Errorf("the bulk listing says %+v, the one by id %+v", all, c)
	}
	must(t, rt.Start(ctx, backend.StartSpec{ID: id}))
	leave(t, Ready(t, rt, id), 7)
	Eventually(t, "second exit", func() bool {
		c, _ = look(t, rt, id)
		return !c.Running && c.ExitCode == 7
	})
	must(t, rt.Delete(ctx, id))
	must(t, rt.DeleteVolume(ctx, id))
}

func testStartConcurrently(t *testing.T, b Fixture) {
	installation, id := Installation(), newID()
	runtimes := []backend.Backend{b.New(t, installation), b.New(t, installation)}
	ctx := Context(t)
	must(t, runtimes[0].Provision(ctx, id))
	errs := make([]error, 6)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = runtimes[i%2].Start(ctx, backend.StartSpec{ID: id}) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	Ready(t, runtimes[0], id)
	all, err := runtimes[1].Containers(ctx)
	must(t, err)
	if len(all) != 1 || !all[id].Running {
		t.Fatalf("containers: %+v, want the one", all)
	}
}

func testImageMissing(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	must(t, rt.Provision(ctx, id))
	begin := time.Now()
	refused(t, rt.Start(ctx, backend.StartSpec{ID: id, Image: b.MissingImage()}), workspace.ReasonImagePullFailed)
	if d := time.Since(begin); d > patience {
		t.Errorf("it took %s to find out", d)
	}
	refused(t, rt.Start(ctx, backend.StartSpec{ID: id, Image: "Not A Reference"}), workspace.ReasonImagePullFailed)
	if b.ContainerExists(t, id) {
		t.Error("a container is left")
	}
	must(t, rt.Start(ctx, backend.StartSpec{ID: id}))
}

// testDeleteIsQuick deletes a process that ignores SIGTERM, as any first process
// of a container does by default: Delete must not wait out a grace period.
func testDeleteIsQuick(t *testing.T, b Fixture) {
	rt, id := b.New(t, Installation()), newID()
	started(t, rt, id)
	begin := time.Now()
	must(t, rt.Delete(Context(t), id))
	if d := time.Since(begin); d > 8*time.Second { // a grace period is 10 s or more
		t.Errorf("Delete took %s", d)
	}
}

func testVolumeInUse(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	started(t, rt, id)
	if err := rt.DeleteVolume(ctx, id); !errors.Is(err, backend.ErrVolumeInUse) {
		t.Fatalf("deleting a volume in use: %v, want %v", err, backend.ErrVolumeInUse)
	}
	if volumes, err := rt.Volumes(ctx, id); err != nil || len(volumes) != 1 {
		t.Fatalf("volumes: %v, %v", volumes, err)
	}
	must(t, rt.Delete(ctx, id))
	must(t, rt.DeleteVolume(ctx, id))
}

// testForeign puts things without labels where a workspace's own would be.
func testForeign(t *testing.T, b Fixture) {
	rt, ctx := b.New(t, Installation()), Context(t)
	failsNaming := func(what, name string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want an error that names %s", what, err, name)
		}
	}

	id := newID()
	b.ForeignContainer(t, id)
	must(t, rt.Provision(ctx, id))
	failsNaming("Start", id.ContainerName(), rt.Start(ctx, backend.StartSpec{ID: id}))
	failsNaming("Delete", id.ContainerName(), rt.Delete(ctx, id))
	failsNaming("StartJob", id.ContainerName(), rt.StartJob(ctx, jobSpec(id, workspace.JobArchive)))
	must(t, rt.DeleteJobs(ctx, id))
	if _, err := rt.Logs(ctx, id, 1); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Logs: %v, want %v", err, backend.ErrNotFound)
	}
	if !b.ContainerExists(t, id) {
		t.Error("somebody else's container was removed")
	}

	other := newID()
	b.ForeignVolume(t, other)
	failsNaming("Provision", other.VolumeName(), rt.Provision(ctx, other))
	failsNaming("Start", other.VolumeName(), rt.Start(ctx, backend.StartSpec{ID: other}))
	failsNaming("StartJob", other.VolumeName(), rt.StartJob(ctx, jobSpec(other, workspace.JobRestore)))
	failsNaming("DeleteVolume", other.VolumeName(), rt.DeleteVolume(ctx, other))
	if !b.VolumeExists(t, other) {
		t.Error("somebody else's volume was removed")
	}

	containers, err := rt.Containers(ctx)
	must(t, err)
	volumes, err := rt.Volumes(ctx)
	must(t, err)
	if len(containers) != 0 || len(volumes) != 1 {
		t.Errorf("listed: containers %v and volumes %v, want only the volume of %s", containers, volumes, id)
	}
	for _, ask := range []workspace.ID{id, other} {
		if _, ok := look(t, rt, ask); ok {
			t.Errorf("container of %s is listed", ask)
		}
	}
}

// testTwoInstallations shares an engine between two, with the same workspace id.
func testTwoInstallations(t *testing.T, b Fixture) {
	mine, theirs, ctx := b.New(t, Installation()), b.New(t, Installation()), Context(t)
	id, theirsOnly := newID(), newID()
	started(t, mine, id)
	started(t, theirs, theirsOnly)
	for what, err := range map[string]error{
		"Provision":    theirs.Provision(ctx, id),
		"Start":        theirs.Start(ctx, backend.StartSpec{ID: id}),
		"Delete":       theirs.Delete(ctx, id),
		"StartJob":     theirs.StartJob(ctx, jobSpec(id, workspace.JobArchive)),
		"DeleteVolume": theirs.DeleteVolume(ctx, id),
	} {
		if err == nil {
			t.Errorf("%s of the other installation's workspace succeeded", what)
		}
	}
	busy := newID()
	must(t, theirs.Provision(ctx, busy))
	must(t, theirs.StartJob(ctx, jobSpec(busy, workspace.JobArchive, "TEST_WAIT=1")))
	must(t, mine.DeleteJobs(ctx, busy))
	if all, err := mine.Jobs(ctx); err != nil || len(all) != 0 || len(jobs(t, mine, busy)) != 0 {
		t.Errorf("jobs of mine: %+v, %v, want none", all, err)
	}
	if got := jobs(t, theirs, busy); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Errorf("jobs of theirs: %+v, want the one that runs", got)
	}
	must(t, theirs.DeleteJobs(ctx, busy))
	must(t, theirs.DeleteVolume(ctx, busy))
	must(t, theirs.DeleteJobs(ctx, id))
	for name, side := range map[string]struct {
		rt  backend.Backend
		own workspace.ID
	}{"mine": {mine, id}, "theirs": {theirs, theirsOnly}} {
		containers, err := side.rt.Containers(ctx)
		must(t, err)
		volumes, err := side.rt.Volumes(ctx)
		must(t, err)
		if len(containers) != 1 || !containers[side.own].Ready || len(volumes) != 1 {
			t.Errorf("%s: containers %v, volumes %v, want only %s", name, containers, volumes, side.own)
		}
		byID, err := side.rt.Volumes(ctx, id, theirsOnly)
		must(t, err)
		if got := slices.Collect(maps.Keys(byID)); !slices.Equal(got, []workspace.ID{side.own}) {
			t.Errorf("%s: volumes by id %v, want only %s", name, got, side.own)
		}
	}
}

func testSensorsByID(t *testing.T, b Fixture) {
	rt, ctx := b.New(t, Installation()), Context(t)
	ids := make([]workspace.ID, 20)
	for i := range ids {
		ids[i] = newID()
		must(t, rt.Provision(ctx, ids[i]))
	}
	for _, id := range ids[:2] {
		must(t, rt.Start(ctx, backend.StartSpec{ID: id}))
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
		containers, err := rt.Containers(ctx, ask...)
		must(t, err)
		volumes, err := rt.Volumes(ctx, ask...)
		must(t, err)
		if !sameKeys(containers, wantRunning) || !sameKeys(volumes, wantVolumes) {
			t.Errorf("asked for %d ids: %d containers and %d volumes, want %d and %d",
				len(ask), len(containers), len(volumes), len(wantRunning), len(wantVolumes))
		}
	}
}

// testInvalidIDs keeps what is no id from becoming a name.
func testInvalidIDs(t *testing.T, b Fixture) {
	rt, ctx := b.New(t, Installation()), Context(t)
	for _, id := range []workspace.ID{"", "x", "../../etc", workspace.ID(strings.ToUpper(string(newID())))} {
		_, logs := rt.Logs(ctx, id, 1)
		for what, err := range map[string]error{
			"Provision": rt.Provision(ctx, id), "Start": rt.Start(ctx, backend.StartSpec{ID: id}), "Delete": rt.Delete(ctx, id),
			"DeleteVolume": rt.DeleteVolume(ctx, id), "DeleteJobs": rt.DeleteJobs(ctx, id), "Logs": logs,
			"StartJob": rt.StartJob(ctx, jobSpec(id, workspace.JobArchive)),
		} {
			if !errors.Is(err, workspace.ErrInvalidID) {
				t.Errorf("%s(%q): %v, want %v", what, id, err, workspace.ErrInvalidID)
			}
		}
	}
}

func testLogs(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	if _, err := rt.Logs(ctx, id, 10); !errors.Is(err, backend.ErrNotFound) {
		t.Errorf("Logs without a container: %v, want %v", err, backend.ErrNotFound)
	}
	leave(t, started(t, rt, id), 3)
	Eventually(t, "last words", func() bool {
		text, err := rt.Logs(ctx, id, 10)
		must(t, err)
		return text == "serving\nleaving with 3\n"
	})
	if text, err := rt.Logs(ctx, id, 1); err != nil || text != "leaving with 3\n" {
		t.Errorf("the last line: %q, %v", text, err)
	}
}

func testEvents(t *testing.T, b Fixture) {
	installation := Installation()
	rt, other, id := b.New(t, installation), b.New(t, Installation()), newID()
	ctx, cancel := context.WithCancel(Context(t))
	defer cancel()
	must(t, rt.Provision(ctx, id))
	events, err := rt.Events(ctx)
	must(t, err)
	hint := func(what string) {
		t.Helper()
		select {
		case got, ok := <-events:
			if !ok || got != id {
				t.Fatalf("%s: event for %q (channel open: %t), want %s", what, got, ok, id)
			}
		case <-time.After(patience):
			t.Fatalf("%s: no event", what)
		}
	}
	started(t, other, newID()) // must not be heard
	must(t, rt.Start(ctx, backend.StartSpec{ID: id}))
	hint("start")
	leave(t, Ready(t, rt, id), 0)
	hint("die")
	must(t, rt.Delete(ctx, id))
	hint("destroy")
	must(t, rt.StartJob(ctx, jobSpec(id, workspace.JobArchive)))
	hint("job start")
	hint("job end")
	cancel()
	Eventually(t, "channel closed", func() bool {
		select {
		case _, ok := <-events:
			return !ok
		default:
			return false
		}
	})
}

func testCancelledContext(t *testing.T, b Fixture) {
	rt, id := b.New(t, Installation()), newID()
	must(t, rt.Provision(Context(t), id))
	ctx, cancel := context.WithCancel(Context(t))
	cancel()
	_, list := rt.Containers(ctx)
	_, events := rt.Events(ctx)
	for what, err := range map[string]error{"Containers": list, "Events": events,
		"Start": rt.Start(ctx, backend.StartSpec{ID: id}), "Provision": rt.Provision(ctx, newID()), "Delete": rt.Delete(ctx, id)} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", what, err, context.Canceled)
		}
	}
	if b.ContainerExists(t, id) {
		t.Error("a cancelled start left a container")
	}
}
