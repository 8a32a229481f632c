package docker_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestUsageHindersNobody: while a helper counts homes, one of them is deleted, one is archived and one is opened.
func TestUsageHindersNobody(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation, ctx := backendtest.Installation(), t.Context()
	b := e.New(t, installation)
	deleted, archived, opened := newID(), newID(), newID()
	for _, id := range []workspace.ID{deleted, archived, opened} {
		must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
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

// TestAbandonedHelper: a helper of any kind is removed once it is old enough that the process that started it must have
// died. No other container is removed.
func TestAbandonedHelper(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation, id, ctx := backendtest.Installation(), newID(), t.Context()
	young := e.New(t, installation)
	must(t, young.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	o := e.options(installation)
	create := func(kind string) string {
		c, err := e.api.ContainerCreate(ctx, &container.Config{Image: e.image, Labels: o.HelperLabels(kind)}, nil, nil, nil, "")
		must(t, err)
		return c.ID
	}
	left, another, other := create(spec.KindUsage), create(spec.KindEgress), create("something else")
	exists := func(id string) bool {
		_, err := e.api.ContainerInspect(ctx, id)
		must(t, ignoreGone(err))
		return err == nil
	}
	_, err := young.Usage(ctx, time.Minute, id)
	must(t, err)
	if !exists(left) || !exists(another) {
		t.Error("a helper whose process may be alive was removed")
	}
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(r)
			if err != nil || !strings.HasSuffix(r.URL.Path, "/containers/json") {
				return resp, err
			}
			defer resp.Body.Close()
			var list []map[string]any
			if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
				return nil, err
			}
			for _, c := range list {
				c["Created"] = time.Now().Add(-time.Hour).Unix()
			}
			text, err := json.Marshal(list)
			resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
			return resp, err
		})
	}
	old, err := docker.New(o)
	must(t, err)
	t.Cleanup(func() { old.Close() })
	_, err = old.Usage(ctx, time.Minute, id)
	must(t, err)
	if exists(left) || exists(another) || !exists(other) {
		t.Errorf("after an hour the helpers are left: %v, %v; one for something else: %v", exists(left), exists(another), exists(other))
	}
}
