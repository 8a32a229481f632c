package docker_test

import (
	"archive/tar"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// writes reports whether the program in the workspace can create a file in its home.
func writes(t *testing.T, endpoint, name string) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+endpoint+"/file?name="+name, strings.NewReader("x"))
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// owner is the owner of the home, as the workspace's container sees it.
func (e *engine) owner(t *testing.T, id workspace.ID) [2]int {
	t.Helper()
	content, _, err := e.api.CopyFromContainer(t.Context(), id.ContainerName(), "/home/coder")
	must(t, err)
	defer content.Close()
	h, err := tar.NewReader(content).Next()
	must(t, err)
	return [2]int{h.Uid, h.Gid}
}

// TestHomeOwner: the user of every image can use a new home, a home that was restored from an empty archive, and an
// empty home that belongs to another image's user. A home with files keeps its owner.
func TestHomeOwner(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	b, ctx := e.New(t, backendtest.Installation()), t.Context()
	other, root := buildImage(t, e.api, "USER 1234:4321\n"), buildImage(t, e.api, "USER 0:0\n")
	run := func(id workspace.ID, image string) string {
		t.Helper()
		must(t, b.Delete(ctx, id))
		must(t, b.Start(ctx, backend.StartSpec{ID: id, Image: image}))
		return backendtest.Ready(t, b, id)
	}
	for name, image := range map[string]string{"1000": "", "1234": other, "root": root} {
		fresh, restored := newID(), newID()
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: fresh, OpID: "op"}))
		if !writes(t, run(fresh, image), "new") {
			t.Errorf("user %s cannot write to a new home of %v", name, e.owner(t, fresh))
		}
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: restored, OpID: "op"}))
		must(t, b.StartJob(ctx, backend.JobSpec{ID: restored, Kind: workspace.JobRestore, OpID: uuid.NewString()}))
		wait.Until(t, "the job to end", func() bool {
			jobs, err := b.Jobs(ctx, restored)
			return err == nil && len(jobs[restored]) == 1 && jobs[restored][0].State == workspace.JobSucceeded
		})
		must(t, b.DeleteJobs(ctx, restored))
		if !writes(t, run(restored, image), "new") {
			t.Errorf("user %s cannot write to the home of an empty archive, of %v", name, e.owner(t, restored))
		}
	}
	id := newID()
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	for _, turn := range []struct {
		image string
		owner [2]int
	}{{"", [2]int{1000, 1000}}, {other, [2]int{1234, 4321}}, {other, [2]int{1234, 4321}}, {root, [2]int{0, 0}}, {other, [2]int{1234, 4321}}} {
		run(id, turn.image)
		if got := e.owner(t, id); got != turn.owner {
			t.Errorf("with image %q the empty home is of %v, want %v", turn.image, got, turn.owner)
		}
	}
	if !writes(t, run(id, other), "mine") {
		t.Fatal("cannot write")
	}
	if writes(t, run(id, ""), "not-mine") || e.owner(t, id) != [2]int{1234, 4321} {
		t.Errorf("a home with files was given to another user: %v", e.owner(t, id))
	}
}
