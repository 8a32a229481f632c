package backendtest

import (
	"errors"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// objects returns the objects of the backend's installation by kind. It fails if there are two of a kind.
func objects(t *testing.T, b backend.Backend) map[backend.ObjectKind]backend.Object {
	t.Helper()
	all, err := b.Objects(Context(t))
	must(t, err)
	found := make(map[backend.ObjectKind]backend.Object)
	for _, o := range all {
		if other, ok := found[o.Kind]; ok {
			t.Fatalf("two of one kind: %+v and %+v", other, o)
		}
		found[o.Kind] = o
	}
	return found
}

// testObjects lists everything of an installation and removes it again.
func testObjects(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	started(t, f.New(t, Installation()), newID()) // objects of another installation are not listed
	before := time.Now().Add(-2 * time.Second)
	if got := objects(t, b); len(got) != 0 {
		t.Fatalf("objects of a new installation: %+v", got)
	}
	want := func(kind backend.ObjectKind, name, opID string) backend.Object {
		t.Helper()
		all := objects(t, b)
		o := all[kind]
		if len(all) != 2 || o.Name != name || o.Workspace != id || o.OpID != opID || o.UID == "" {
			t.Fatalf("objects: %+v, want a volume and %s %s of operation %q", all, kind, name, opID)
		}
		if o.Created.Before(before) || o.Created.After(time.Now().Add(time.Second)) {
			t.Errorf("%s was created at %s, test began %s", kind, o.Created, before)
		}
		return o
	}
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	job := jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")
	must(t, b.StartJob(ctx, job))
	o := want(backend.ObjectJob, f.JobName(job), job.OpID)
	must(t, b.Remove(ctx, o))
	must(t, b.Remove(ctx, o))
	if n := f.JobCount(t, id); n != 0 {
		t.Errorf("%d jobs after Remove", n)
	}
	started(t, b, id)
	container := want(backend.ObjectContainer, id.ContainerName(), "")
	volume := want(backend.ObjectVolume, id.VolumeName(), "op")
	if err := b.Remove(ctx, volume); !errors.Is(err, backend.ErrVolumeInUse) {
		t.Errorf("removing a volume in use: %v, want %v", err, backend.ErrVolumeInUse)
	}
	must(t, b.Remove(ctx, container))
	must(t, b.Remove(ctx, container))
	must(t, b.Remove(ctx, volume))
	must(t, b.Remove(ctx, volume))
	if f.ContainerExists(t, id) || f.VolumeExists(t, id) {
		t.Error("something exists after Remove")
	}
	if got := objects(t, b); len(got) != 0 {
		t.Errorf("objects: %+v, want none", got)
	}
	if err := b.Remove(ctx, backend.Object{Kind: "else", Name: "x", Workspace: id}); err == nil {
		t.Error("an unknown kind of object was removed")
	}
}

// testRemoveKeepsSuccessor replaces an orphan with an object that is in use, after the listing and before the command.
func testRemoveKeepsSuccessor(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	started(t, b, id)
	old := objects(t, b)
	must(t, b.Delete(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "new"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	for _, o := range old {
		must(t, b.Remove(ctx, o))
	}
	Ready(t, b, id)
	must(t, b.Delete(ctx, id))
	for _, o := range old {
		must(t, b.Remove(ctx, o))
	}
	wantVolume(t, b, id, "new")
}

func testRemoveOfOthers(t *testing.T, f Fixture) {
	mine, theirs, id, ctx := f.New(t, Installation()), f.New(t, Installation()), newID(), Context(t)
	must(t, theirs.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, theirs.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")))
	for _, o := range objects(t, theirs) {
		_ = mine.Remove(ctx, o) // may fail or do nothing
	}
	if got := jobs(t, theirs, id); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Errorf("jobs: %+v, want the one that runs", got)
	}
	must(t, theirs.DeleteJobs(ctx, id))
	for _, o := range objects(t, theirs) {
		_ = mine.Remove(ctx, o)
	}
	wantVolume(t, theirs, id, "op")
}
