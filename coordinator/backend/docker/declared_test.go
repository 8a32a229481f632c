package docker_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/codehub/gateway/coordinator/backend"
	backendcheck "github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/doctor"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/workspace"
)

// variant returns the terminal's image with that configuration and those symbolic links added. At the end of the test,
// the image and everything derived from it are removed.
func (r *real) variant(with container.Config, links map[string]string) string {
	r.Helper()
	ctx := r.Context()
	made, err := r.api.ContainerCreate(ctx, &container.Config{Image: r.image}, nil, nil, nil, "")
	r.must(err)
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for name, target := range links {
		r.must(w.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}))
	}
	r.must(w.Close())
	r.must(r.api.CopyToContainer(ctx, made.ID, "/", &files, container.CopyToContainerOptions{}))
	committed, err := r.api.ContainerCommit(ctx, made.ID, container.CommitOptions{Config: &with})
	r.must(err)
	r.must(r.api.ContainerRemove(ctx, made.ID, container.RemoveOptions{}))
	r.Cleanup(func() {
		_, err := r.api.ImageRemove(context.Background(), committed.ID, image.RemoveOptions{})
		check(r, ignoreGone(err))
	})
	return committed.ID
}

// sh runs a script in the workspace's container and returns its output. The script must succeed.
func (r *real) sh(id workspace.ID, script string) string {
	r.Helper()
	var out bytes.Buffer
	code, err := r.backend.Exec(r.Context(), id, backend.Command{Words: []string{"sh", "-ec", script}}, &out, &out)
	r.must(err)
	if code != 0 {
		r.Fatalf("%s: exit code %d: %s", script, code, out.String())
	}
	return strings.TrimSpace(out.String())
}

// again puts the workspace to sleep, and starts it.
func (r *real) again(id workspace.ID, image string) {
	r.Helper()
	r.must(r.backend.Delete(r.Context(), id))
	r.run(id, image)
}

// volumes returns the names of the volumes that the workspace's container mounts.
func (r *real) volumes(id workspace.ID) (names []string) {
	r.Helper()
	c, err := r.api.ContainerInspect(r.Context(), id.ContainerName())
	r.must(err)
	for _, m := range c.Mounts {
		names = append(names, m.Name)
	}
	return names
}

func volumesOf(paths ...string) map[string]struct{} {
	all := map[string]struct{}{}
	for _, p := range paths {
		all[p] = struct{}{}
	}
	return all
}

// TestVolumesOfAnImage: regardless of the volumes that an image declares, the files in the home stay, and the home is
// the only volume.
func TestVolumesOfAnImage(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	cases := map[string]struct {
		volumes []string
		links   map[string]string
	}{
		"inside":         {volumes: []string{"/home/coder/project"}},
		"deep inside":    {volumes: []string{"/home/coder/a", "/home/coder/a/b/c"}},
		"the home":       {volumes: []string{"/home/coder"}},
		"unclean paths":  {volumes: []string{"/home/coder/", "/home/../home/coder/x/", "/home//coder/./y"}},
		"above":          {volumes: []string{"/home"}},
		"above and in":   {volumes: []string{"/home", "/home/coder/project"}},
		"elsewhere":      {volumes: []string{"/data", "/home/other"}},
		"through a link": {volumes: []string{"/srv/linked"}, links: map[string]string{"srv": "home/coder"}},
		"a link to it":   {volumes: []string{"/home/mine"}, links: map[string]string{"home/mine": "coder"}},
	}
	for _, name := range seed.Third(t, slices.Sorted(maps.Keys(cases))) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			r := &real{t, r.api, r.backend, r.image}
			ref := r.variant(container.Config{Volumes: volumesOf(c.volumes...)}, c.links)
			id := r.start(ref)
			var inHome []string
			for _, v := range c.volumes {
				if v = path.Clean(v); strings.HasPrefix(v, "/home/coder/") || c.links != nil {
					inHome = append(inHome, v)
				}
			}
			r.sh(id, "echo two >~/other.txt")
			for _, folder := range inHome {
				if c.links == nil && r.sh(id, "stat -c %u "+folder) != "1000" {
					t.Errorf("%s is another user's", folder)
				}
				r.sh(id, fmt.Sprintf("mkdir -p %s; echo one >%s/kept.txt", folder, folder))
			}
			for range 2 {
				if got := r.volumes(id); !slices.Equal(got, []string{id.VolumeName()}) {
					t.Errorf("its volumes are %v", got)
				}
				r.again(id, ref)
				if got := r.sh(id, "cat ~/other.txt"); got != "two" {
					t.Errorf("~/other.txt: %q", got)
				}
				for _, folder := range inHome {
					if got := r.sh(id, "cat "+folder+"/kept.txt"); got != "one" {
						t.Errorf("%s: %q", folder, got)
					}
				}
			}
		})
	}
}

// TestVolumeOfAnotherImage: a workspace whose home has files gets another image, which declares a volume and a working
// folder inside the home. The folders belong to the user. Existing files with these names stay.
func TestVolumeOfAnotherImage(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	id := r.start("")
	r.sh(id, "echo mine >~/file; mkdir -m 700 ~/folder; echo in >~/folder/it; ln -s /etc ~/link")
	ref := r.variant(container.Config{
		Volumes:    volumesOf("/home/coder/new/deep", "/home/coder/file", "/home/coder/folder", "/home/coder/link/x", "/home/coder/folder/sub"),
		WorkingDir: "/home/coder/work/here",
	}, nil)
	r.again(id, ref)
	for script, want := range map[string]string{
		"pwd": "/home/coder/work/here",
		"touch ~/new/deep/a ~/folder/sub/b ~/work/here/c && stat -c %u:%g ~/new ~/new/deep ~/folder/sub ~/work ~/work/here | sort -u": "1000:1000",
		"cat ~/file ~/folder/it; stat -c %a ~/folder; readlink ~/link; ls /etc/x 2>&1 | tail -c 10":                                   "mine\nin\n700\n/etc\ndirectory",
	} {
		if got := r.sh(id, script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

// TestDeclarations: an image declares a user, a working folder, HOME, a stop signal, a shell and labels that look like
// ours. The home stays where it is, and the labels are ignored.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	ctx := t.Context()
	ref := r.variant(container.Config{
		User: "coder", WorkingDir: "/nowhere/yet", Env: []string{"HOME=/tmp"}, StopSignal: "SIGWINCH", Shell: []string{"/bin/false"},
		Labels: map[string]string{
			spec.LabelInstallation: "other", spec.LabelWorkspace: string(newID()), spec.LabelKind: spec.KindJob, spec.LabelOwner: "eve",
			spec.LabelOp: "op", spec.LabelJob: string(workspace.JobArchive), spec.LabelPort: "1", spec.LabelBasePath: "/x/", spec.LabelSpec: "same",
			spec.LabelTerm: "other",
		},
	}, nil)
	id := r.start(ref)
	all, err := r.backend.Containers(ctx)
	r.must(err)
	if c := all[id]; !c.Running || !c.Volume || c.BasePath != "" || !strings.HasSuffix(c.Endpoint, ":8080") {
		t.Errorf("%+v", c)
	}
	if jobs, err := r.backend.Jobs(ctx); err != nil || len(jobs) != 0 {
		t.Errorf("jobs %v, %v", jobs, err)
	}
	objects, err := r.backend.Objects(ctx)
	r.must(err)
	for _, o := range objects {
		if o.Workspace != id {
			t.Errorf("%+v", o)
		}
	}
	c, err := r.api.ContainerInspect(ctx, id.ContainerName())
	r.must(err)
	for name, want := range map[string]string{spec.LabelOwner: "", spec.LabelOp: "", spec.LabelJob: "", spec.LabelTerm: "", spec.LabelPort: "8080"} {
		if got := c.Config.Labels[name]; got != want {
			t.Errorf("label %s is %q, want %q", name, got, want)
		}
	}
	r.sh(id, "echo two >/home/coder/other.txt")
	r.again(id, ref)
	if got := r.sh(id, "cat /home/coder/other.txt; id -u; pwd"); got != "two\n1000\n/nowhere/yet" {
		t.Errorf("%q", got)
	}
}

// withoutLoading refuses each request to load an image, as a proxy in front of an engine may do.
func withoutLoading(next http.RoundTripper) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		if strings.HasSuffix(req.URL.Path, "/images/load") {
			return &http.Response{
				StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
				Body: http.NoBody,
			}, nil
		}
		return next.RoundTrip(req)
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// TestVolumesThatCannotBeLeftOut: the engine refuses the image without its volumes. No workspace starts if a volume
// would hide files, even through a link, and the error names the volume. If its volumes are elsewhere, the workspace
// starts.
func TestVolumesThatCannotBeLeftOut(t *testing.T) {
	t.Parallel()
	r := newReal(t, func(o *docker.Options) { o.Transport = withoutLoading })
	inside := r.variant(container.Config{Volumes: volumesOf("/home/coder/project")}, nil)
	id := newID()
	r.must(r.backend.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	err := r.backend.Start(t.Context(), backend.StartSpec{ID: id, Image: inside})
	if err == nil || !strings.Contains(err.Error(), "/home/coder/project") || !strings.Contains(err.Error(), inside) {
		t.Errorf("%v, want an error that names the image and its volume", err)
	}
	for volume, link := range map[string][2]string{
		"/srv/linked":  {"srv", "home/coder"},
		"/home/mine/x": {"home/mine", "coder"},
		"/home/mine":   {"home/mine", "coder"},
		"/one/a/b":     {"one", "two/home/coder"}, // a link through another link
		"/deep/er/all": {"deep/er/all", "/home"},
	} {
		ref := r.variant(container.Config{Volumes: volumesOf(volume)}, map[string]string{link[0]: link[1], "two": "."})
		err := r.backend.Start(t.Context(), backend.StartSpec{ID: id, Image: ref})
		if err == nil || !strings.Contains(err.Error(), volume) || !strings.Contains(err.Error(), ref) {
			t.Errorf("%s, through %v: %v, want an error that names the image and its volume", volume, link, err)
		}
		if all, err := r.backend.Containers(t.Context(), id); err != nil || len(all) != 0 {
			t.Errorf("%s: %+v, %v, want no container", volume, all, err)
		}
	}
	elsewhere := r.variant(container.Config{Volumes: volumesOf("/data", "/var/mine/x", "/home")}, map[string]string{"var/mine": "/opt"})
	r.run(id, elsewhere)
	r.sh(id, "true")
}

// TestImageWithoutVolumesIsPruned: an image that an administrator removes is created again, even during a start.
func TestImageWithoutVolumesIsPruned(t *testing.T) {
	t.Parallel()
	remove := func() {}
	r := newReal(t, func(o *docker.Options) {
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				if strings.HasSuffix(req.URL.Path, "/containers/create") {
					once := remove
					remove = func() {}
					once()
				}
				return next.RoundTrip(req)
			})
		}
	})
	ref := r.variant(container.Config{Volumes: volumesOf("/home/coder/project")}, nil)
	id := r.start(ref)
	r.volumes(id)
	c, err := r.api.ContainerInspect(t.Context(), id.ContainerName())
	r.must(err)
	for _, during := range []bool{false, true} {
		r.must(r.backend.Delete(t.Context(), id))
		prune := func() {
			_, err := r.api.ImageRemove(context.Background(), c.Image, image.RemoveOptions{})
			check(t, err)
		}
		if during {
			remove = prune
		} else {
			prune()
		}
		r.run(id, ref)
	}
	// Without the original, the image cannot be created.
	r.must(r.backend.Delete(t.Context(), id))
	_, err = r.api.ImageRemove(t.Context(), ref, image.RemoveOptions{})
	r.must(err)
	err = r.backend.Start(t.Context(), backend.StartSpec{ID: id, Image: ref})
	var missing *backend.MissingImageError
	if !errors.As(err, &missing) || missing.Image != ref {
		t.Errorf("without the image: %v", err)
	}
}

// TestDoctorLooksAtImages: the doctor examines each configured image, not only that of a workspace.
func TestDoctorLooksAtImages(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	inside := r.variant(container.Config{Volumes: volumesOf("/home/coder/project")}, nil)
	another := r.variant(container.Config{Volumes: volumesOf("/home/coder/other")}, nil)
	elsewhere := r.variant(container.Config{Env: []string{"HOME=/root"}}, nil)
	for name, c := range map[string]struct {
		images []string
		edit   func(*docker.Options)
		level  backendcheck.Level
		says   []string
	}{
		"nothing":        {images: []string{r.image, "example.invalid/missing:1"}, level: backendcheck.LevelOK, says: []string{"no image"}},
		"a volume":       {images: []string{r.image, inside}, level: backendcheck.LevelOK, says: []string{inside, "/home/coder/project"}},
		"another home":   {images: []string{elsewhere}, level: backendcheck.LevelWarning, says: []string{elsewhere, "/root"}},
		"cannot be left": {images: []string{another}, edit: func(o *docker.Options) { o.Transport = withoutLoading }, level: backendcheck.LevelProblem, says: []string{another, "/home/coder/other"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := docker.Options{Host: r.api.DaemonHost(), Installation: "test", Image: r.image}
			if c.edit != nil {
				c.edit(&o)
			}
			d, err := doctor.New(o)
			must(t, err)
			defer d.Close()
			rows := d.Checks(doctor.Expected{Images: c.images})
			at := slices.IndexFunc(rows, func(row backendcheck.Row) bool { return row.Name == "declarations" })
			found, err := rows[at].Run(t.Context())
			must(t, err)
			if len(found) != 1 || found[0].Level != c.level {
				t.Fatalf("%+v, want one of level %v", found, c.level)
			}
			for _, text := range c.says {
				if !strings.Contains(found[0].Text, text) {
					t.Errorf("%q does not say %s", found[0].Text, text)
				}
			}
		})
	}
}

// TestDoctorDoesNotBlameTheImage: if the engine does not answer, the doctor reports no fault of an image.
func TestDoctorDoesNotBlameTheImage(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	inside := r.variant(container.Config{Volumes: volumesOf("/home/coder/away")}, nil)
	d, err := doctor.New(docker.Options{Host: r.api.DaemonHost(), Installation: "test", Image: r.image, Transport: func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(req *http.Request) (*http.Response, error) {
			if strings.HasSuffix(req.URL.Path, "/images/load") {
				return nil, io.ErrUnexpectedEOF
			}
			return next.RoundTrip(req)
		})
	}})
	r.must(err)
	defer d.Close()
	rows := d.Checks(doctor.Expected{Images: []string{inside}})
	at := slices.IndexFunc(rows, func(row backendcheck.Row) bool { return row.Name == "declarations" })
	if found, err := rows[at].Run(t.Context()); workspace.ReasonOf(err) != workspace.ReasonUnreachable {
		t.Errorf("%+v, %v, want that the engine does not answer", found, err)
	}
}
