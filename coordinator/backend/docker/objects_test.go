package docker_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/api/types/volume"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// ofKind returns the listed objects of that kind.
func ofKind(t *testing.T, b backend.Backend, kind backend.ObjectKind) (found []backend.Object) {
	t.Helper()
	all, err := b.Objects(t.Context())
	must(t, err)
	for _, o := range all {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// TestScratchWithoutItsJob: an administrator has removed a job's container but not its scratch volume.
func TestScratchWithoutItsJob(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id := e.New(t, backendtest.Installation()), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	spec := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: uuid.NewString(), Env: []string{"TEST_WAIT=1"}}
	must(t, b.StartJob(t.Context(), spec))
	if got := ofKind(t, b, backend.ObjectScratch); len(got) != 0 {
		t.Fatalf("the scratch volume of a job that runs is listed: %+v", got)
	}
	job := ofKind(t, b, backend.ObjectJob)[0]
	must(t, e.api.ContainerRemove(t.Context(), job.UID, container.RemoveOptions{Force: true}))
	got := ofKind(t, b, backend.ObjectScratch)
	if len(got) != 1 || got[0].Workspace != id || got[0].Created.IsZero() {
		t.Fatalf("scratch volumes: %+v, want the one that is left", got)
	}
	must(t, b.Remove(t.Context(), got[0]))
	must(t, b.Remove(t.Context(), got[0]))
	if got := ofKind(t, b, backend.ObjectScratch); len(got) != 0 {
		t.Errorf("after Remove: %+v", got)
	}
	if !e.VolumeExists(t, id) {
		t.Error("the home was removed")
	}
}

// TestScratchInUse: after the scratch volume was listed, and before the command to remove it arrives, a container
// mounts it.
func TestScratchInUse(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	v, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Labels: map[string]string{
		spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: "scratch"}})
	must(t, err)
	o := ofKind(t, b, backend.ObjectScratch)[0]
	c, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: e.image}, &container.HostConfig{Binds: []string{v.Name + ":/x"}}, nil, nil, "")
	must(t, err)
	defer func() {
		check(t, e.api.ContainerRemove(context.WithoutCancel(t.Context()), c.ID, container.RemoveOptions{Force: true}))
	}()
	if err := b.Remove(t.Context(), o); !errors.Is(err, backend.ErrVolumeInUse) {
		t.Errorf("%v, want %v", err, backend.ErrVolumeInUse)
	}
}

// TestAccidentGivesWayToHome: an empty volume that the engine created is an orphan. However, when the command to remove
// it arrives, a home has taken its name, and must stay.
func TestAccidentGivesWayToHome(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	_, err := e.api.VolumeCreate(t.Context(), volume.CreateOptions{Name: id.VolumeName(), Labels: map[string]string{
		spec.LabelInstallation: installation, spec.LabelWorkspace: string(id), spec.LabelKind: "accident"}})
	must(t, err)
	accident := ofKind(t, b, backend.ObjectScratch)
	if len(accident) != 1 || accident[0].Name != id.VolumeName() {
		t.Fatalf("%+v, want the volume that is no home", accident)
	}
	slow, held, release := e.Hold(t, installation)
	late := make(chan error, 1)
	go func() { late <- slow.Remove(t.Context(), accident[0]) }()
	<-held
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	release()
	must(t, <-late)
	if !e.VolumeExists(t, id) {
		t.Error("the home was removed")
	}
	if err := b.Remove(t.Context(), accident[0]); err == nil || !strings.Contains(err.Error(), id.VolumeName()) {
		t.Errorf("removing the home as if it were scratch: %v", err)
	}
}

// TestSurplusNetwork: the operator has chosen another network.
func TestSurplusNetwork(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	b, id := e.New(t, installation), newID()
	start(t, b, backend.StartSpec{ID: id})
	if got := ofKind(t, b, backend.ObjectNetwork); len(got) != 0 {
		t.Fatalf("the network in use is listed: %+v", got)
	}
	e.change = func(o *docker.Options) { o.Network = "other-" + installation }
	now := e.New(t, installation)
	got := ofKind(t, now, backend.ObjectNetwork)
	if len(got) != 1 || got[0].Workspace != "" || got[0].Name != "codehub-"+installation {
		t.Fatalf("%+v, want the former network", got)
	}
	if err := now.Remove(t.Context(), got[0]); err == nil {
		t.Error("a network was removed under a container")
	}
	must(t, now.Delete(t.Context(), id))
	must(t, now.Remove(t.Context(), got[0]))
	must(t, now.Remove(t.Context(), got[0]))
	if n := e.networks(t, installation); len(n) != 0 {
		t.Errorf("networks: %+v", n)
	}
}

// TestRemoveReadsLabelsItself: the argument comes from an operator.
func TestRemoveReadsLabelsItself(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id, ctx := e.New(t, backendtest.Installation()), newID(), t.Context()
	e.UnlabeledContainer(t, id)
	e.UnlabeledVolume(t, id)
	n, err := e.api.NetworkCreate(ctx, "network-"+string(id), network.CreateOptions{})
	must(t, err)
	defer func() { check(t, e.api.NetworkRemove(context.WithoutCancel(ctx), n.ID)) }()
	c, err := e.api.ContainerInspect(ctx, id.ContainerName())
	must(t, err)
	if all, err := b.Objects(ctx); err != nil || len(all) != 0 {
		t.Errorf("%+v, %v: things without labels are listed", all, err)
	}
	for _, o := range []backend.Object{
		{Kind: backend.ObjectContainer, Name: "x", Workspace: id, UID: c.ID},
		{Kind: backend.ObjectJob, Name: "x", Workspace: id, UID: c.ID},
		{Kind: backend.ObjectVolume, Name: id.VolumeName(), Workspace: id, UID: id.VolumeName()},
		{Kind: backend.ObjectScratch, Name: id.VolumeName(), Workspace: id, UID: id.VolumeName()},
		{Kind: backend.ObjectNetwork, Name: "x", UID: n.ID},
	} {
		if err := b.Remove(ctx, o); err == nil {
			t.Errorf("%s of no installation was removed", o.Kind)
		}
	}
	// If the command had a name instead of an id, it would refer to any object with that name.
	if err := b.Remove(ctx, backend.Object{Kind: backend.ObjectContainer, Workspace: id, UID: id.ContainerName()}); err != nil {
		t.Errorf("a name in place of an id: %v", err)
	}
	if !e.ContainerExists(t, id) || !e.VolumeExists(t, id) {
		t.Error("something is gone")
	}
}

// TestRemoveFails: if the engine cannot report who owns an object, the object stays.
func TestRemoveFails(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, id := e.New(t, backendtest.Installation()), newID()
	for _, path := range []string{"/containers/", "/volumes/", "/networks/"} {
		defer e.faults.add(failing(http.MethodGet, path, http.StatusInternalServerError, "database is locked"))()
	}
	for _, kind := range []backend.ObjectKind{backend.ObjectContainer, backend.ObjectJob, backend.ObjectVolume, backend.ObjectScratch, backend.ObjectNetwork} {
		if err := b.Remove(t.Context(), backend.Object{Kind: kind, Name: "x", Workspace: id, UID: "x"}); err == nil || !strings.Contains(err.Error(), "database is locked") {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestObjectsAreAsOldAsTheEngineSays: only the engine's clock decides how old an object is.
func TestObjectsAreAsOldAsTheEngineSays(t *testing.T) {
	t.Parallel()
	const age = time.Hour
	for _, ahead := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		f := newFakeEngine(t, "A", "1.41")
		b := f.backend(t)
		theirs := time.Now().Add(ahead)
		labels := map[string]string{spec.LabelKind: spec.KindHome}
		f.answers["GET /info"] = answer(map[string]string{"ID": "A", "SystemTime": theirs.Format(time.RFC3339Nano)})
		f.answers["GET /containers/json"] = answer([]container.Summary{})
		f.answers["GET /networks"] = answer([]network.Inspect{})
		f.answers["GET /volumes"] = answer(volume.ListResponse{Volumes: []*volume.Volume{
			{Name: "dated", CreatedAt: theirs.Add(-age).Format(time.RFC3339Nano), Labels: labels}, {Name: "undated", Labels: labels},
		}})
		before := time.Now().Add(-age - time.Second)
		all, err := b.Objects(t.Context())
		must(t, err)
		if len(all) != 2 || all[0].Created.Before(before) || all[0].Created.After(time.Now().Add(-age)) {
			t.Errorf("an engine that is %s ahead: %+v, want one that is %s old", ahead, all, age)
		} else if !all[1].Created.IsZero() {
			t.Errorf("a time that the engine does not tell became %s", all[1].Created)
		}
	}
}
