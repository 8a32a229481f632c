package docker_test

import (
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"

	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// TestImagesWithoutVolumesAreRemoved: an image without volumes is removed when the next such image is created, if its
// original is gone and no container uses it. The images of another installation stay.
func TestImagesWithoutVolumesAreRemoved(t *testing.T) {
	t.Parallel()
	installation := ""
	r := newReal(t, func(o *docker.Options) { installation = o.Installation })
	other := newReal(t)
	made := func(ref string) (id string) {
		list, err := r.api.ImageList(t.Context(), image.ListOptions{Filters: filters.NewArgs(
			filters.Arg("label", spec.LabelInstallation+"="+installation), filters.Arg("label", spec.LabelSource+"="+ref))})
		r.must(err)
		for _, i := range list {
			id = i.ID
		}
		return id
	}
	refs := map[string]string{}
	for _, name := range []string{"idle", "used", "kept", "next", "last"} {
		refs[name] = r.variant(container.Config{Volumes: volumesOf("/home/coder/" + name)}, nil)
	}
	run := func(name string) string {
		r.start(refs[name])
		return made(refs[name])
	}
	gone := func(name string) {
		_, err := r.api.ImageRemove(t.Context(), refs[name], image.RemoveOptions{})
		r.must(err)
	}
	id := r.start(refs["idle"])
	idle, used, kept := made(refs["idle"]), run("used"), run("kept")
	foreign := other.start(refs["idle"])
	c, err := other.api.ContainerInspect(t.Context(), foreign.ContainerName())
	r.must(err)
	r.must(other.backend.Delete(t.Context(), foreign))
	r.must(r.backend.Delete(t.Context(), id))
	gone("idle")
	gone("used")
	run("next")
	for what, want := range map[string]bool{idle: false, used: true, kept: true, c.Image: true} {
		_, err := r.api.ImageInspect(t.Context(), what)
		if ignoreGone(err) != nil || (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", what, err, want)
		}
	}
	all, err := r.backend.Containers(t.Context())
	r.must(err)
	for id := range all {
		r.must(r.backend.Delete(t.Context(), id))
	}
	run("last")
	if got := made(refs["used"]); got != "" {
		t.Errorf("%s stays, although nothing uses it any more", got)
	}
}
