package docker_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestUsageHindersNobody: while a helper counts homes, one of them is deleted, one is
// archived and one is opened.
func TestUsageHindersNobody(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation, ctx := backendtest.Installation(), t.Context()
	b := e.New(t, installation)
	deleted, archived, opened := newID(), newID(), newID()
	for _, id := range []workspace.ID{deleted, archived, opened} {
		must(t, b.Provision(ctx, id, "op"))
	}
	slow, held, release := e.hold(t, installation, func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/wait") })
	counted := make(chan error, 1)
	go func() {
		_, err := slow.Usage(ctx, time.Minute, deleted, archived, opened)
		counted <- err
	}()
	<-held
	label := filters.NewArgs(filters.Arg("label", spec.LabelInstallation+"="+installation), filters.Arg("label", spec.LabelKind+"="+spec.KindUsage))
	helpers, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: label})
	must(t, err)
	if len(helpers) != 1 || len(helpers[0].Mounts) != 4 {
		t.Fatalf("helpers %+v, want one with three homes and their disk", helpers)
	}
	for _, m := range helpers[0].Mounts {
		if m.RW || m.Name != "" {
			t.Errorf("the helper mounts %+v; want it read-only, and not as a volume", m)
		}
	}
	must(t, b.DeleteVolume(ctx, deleted, "op"))
	must(t, b.StartJob(ctx, backend.JobSpec{ID: archived, Kind: workspace.JobArchive, OpID: uuid.NewString()}))
	must(t, b.Start(ctx, backend.StartSpec{ID: opened}))
	if e.VolumeExists(t, deleted) {
		t.Error("the volume is still there")
	}
	release()
	must(t, <-counted)
	helpers, err = e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: label})
	must(t, err)
	if len(helpers) != 0 {
		t.Errorf("helpers that are left: %+v", helpers)
	}
}
