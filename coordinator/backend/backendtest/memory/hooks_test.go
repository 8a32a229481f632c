package memory

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSwap checks that another engine answers for a while, even if a job ends meanwhile.
func TestSwap(t *testing.T) {
	b, id, ctx := New(), workspace.ID(uuid.NewString()), t.Context()
	defer b.Close()
	end, ended := make(chan struct{}), make(chan struct{})
	b.Work = func(context.Context, backend.JobSpec) (int64, error) { <-end; return 7, nil }
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"}))
	was, err := b.Identity(ctx)
	must(t, err)
	b.Engine.Forget("kept:back")

	back := b.Swap("other")
	volumes, err := b.Volumes(ctx)
	must(t, err)
	jobs, err := b.Jobs(ctx)
	must(t, err)
	objects, err := b.Objects(ctx)
	must(t, err)
	if got, err := b.Identity(ctx); got != "other" || err != nil || len(volumes) != 0 || len(jobs) != 0 || len(objects) != 0 {
		t.Errorf("engine %s (%v) with volumes %v, jobs %v, objects %v; want an empty one", got, err, volumes, jobs, objects)
	}
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "stray"}))
	close(end)
	go func() { b.wg.Wait(); close(ended) }()
	<-ended

	back()
	volumes, err = b.Volumes(ctx)
	must(t, err)
	jobs, err = b.Jobs(ctx)
	must(t, err)
	if got, err := b.Identity(ctx); got != was || err != nil || volumes[id].OpID != "op" || len(jobs[id]) != 1 || jobs[id][0].Size != 7 {
		t.Errorf("engine %s (%v) with volumes %v, jobs %v; want everything back", got, err, volumes, jobs)
	}
	if err := b.Start(ctx, backend.StartSpec{ID: id, Image: "kept:back"}); err == nil {
		t.Error("the missing image is there")
	}
}

func TestTwoEnginesDiffer(t *testing.T) {
	one, err := New().Identity(t.Context())
	must(t, err)
	two, err := New().Identity(t.Context())
	if err != nil || one == two {
		t.Errorf("identities %s and %s, %v", one, two, err)
	}
}

// TestMissingImages checks that the images that workspaces and jobs use without naming them can be missing, too.
func TestMissingImages(t *testing.T) {
	b, id, ctx := New(), workspace.ID(uuid.NewString()), t.Context()
	defer b.Close()
	b.Forget(DefaultImage)
	b.Forget(JobImage)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	job := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"}
	for image, run := range map[string]func() error{
		DefaultImage: func() error { return b.Start(ctx, backend.StartSpec{ID: id}) },
		JobImage:     func() error { return b.StartJob(ctx, job) },
	} {
		var m *backend.MissingImageError
		if err := run(); !errors.As(err, &m) || m.Image != image {
			t.Errorf("%v, want that %s is missing", err, image)
		}
	}
	refused := errors.New("no")
	b.Fetch = func(context.Context, string, func(done, total int64)) error { return refused }
	if err := b.Pull(ctx, "", nil); !errors.Is(err, refused) {
		t.Errorf("%v, want %v", err, refused)
	}
	b.Fetch = nil
	must(t, b.Pull(ctx, "", nil))
	must(t, b.Pull(ctx, JobImage, nil))
	must(t, b.StartJob(ctx, job))
	must(t, b.DeleteJobs(ctx, id))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
}

// TestBeforeComesFirst checks that a test can make every method fail, without any effect.
func TestBeforeComesFirst(t *testing.T) {
	b, id := New(), workspace.ID(uuid.NewString())
	defer b.Close()
	var asked []string
	b.Before = func(_ context.Context, method string, _ workspace.ID) error {
		asked = append(asked, method)
		return ErrRefused
	}
	ctx := t.Context()
	_, identity := b.Identity(ctx)
	_, objects := b.Objects(ctx)
	_, jobs := b.Jobs(ctx)
	for what, err := range map[string]error{"Identity": identity, "Objects": objects, "Jobs": jobs,
		"Pull": b.Pull(ctx, "x", nil), "Provision": b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}), "DeleteVolume": b.DeleteVolume(ctx, id, "op"),
		"Freeze": b.Freeze(ctx, id, time.Now()), "Thaw": b.Thaw(ctx, id),
		"Remove": b.Remove(ctx, backend.Object{Kind: backend.ObjectVolume, Workspace: id})} {
		if !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(asked) != 9 || len(b.volumes) != 0 {
		t.Errorf("asked %q, and %d volumes exist", asked, len(b.volumes))
	}
}
