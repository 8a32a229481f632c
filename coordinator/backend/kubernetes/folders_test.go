package kubernetes_test

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// declaring returns the test workspace's image with those volumes and those symbolic links. The nodes have it.
func (e *engine) declaring(t *testing.T, links map[string]string, volumes ...string) string {
	t.Helper()
	return devenv.VariantOf(t, e.image, devenv.Variant{Volumes: volumes, Links: links})
}

// comesUp starts the workspace as the controller does, which starts it again if the backend asks for that. It returns
// how many Pods this took, and the error of the last start.
func (e *engine) comesUp(t *testing.T, b backend.Backend, s backend.StartSpec) (pods int, err error) {
	t.Helper()
	used := map[types.UID]bool{}
	for {
		if err := b.Start(backendtest.Context(t), s); err != nil {
			return len(used), err
		}
		var k workspace.Container
		wait.Until(t, "the container is ready", func() bool {
			all, err := b.Containers(backendtest.Context(t), s.ID)
			must(t, err)
			k = all[s.ID]
			if w := k.Pending; w != nil && w.Failure != "" {
				t.Fatalf("it waits for %s: %s", w.Reason, w.Message)
			}
			return k.Ready
		})
		used[e.pod(t, s.ID).UID] = true
		if !k.StartAgain {
			backendtest.Ready(t, b, s.ID)
			return len(used), nil
		}
	}
}

func (e *engine) pod(t *testing.T, id workspace.ID) *corev1.Pod {
	t.Helper()
	p, err := e.api.Pods.Get(t.Context(), id.ContainerName(), metav1.GetOptions{})
	must(t, err)
	return p
}

// sh runs a script in the workspace's container and returns its output. The script must succeed.
func sh(t *testing.T, b backend.Backend, id workspace.ID, script string) string {
	t.Helper()
	var out bytes.Buffer
	code, err := b.Exec(backendtest.Context(t), id, backend.Command{Words: []string{"sh", "-ec", script}}, &out, &out)
	must(t, err)
	if code != 0 {
		t.Fatalf("%s: exit code %d: %s", script, code, out.String())
	}
	return strings.TrimSpace(out.String())
}

// TestVolumesOfAnImage: an image may declare any volumes. If the image declares a volume inside the home, files there
// are nevertheless files of the home, and survive sleep. The workspace's user owns the folder. Only the first start
// with an image takes a second Pod.
func TestVolumesOfAnImage(t *testing.T) {
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	for name, c := range map[string]struct {
		volumes []string
		links   map[string]string
		folders []string // below the home
		pods    int
	}{
		"inside":       {[]string{"/home/coder/project"}, nil, []string{"project"}, 2},
		"deep inside":  {[]string{"/home/coder/a", "/home/coder/a/b/c", "/home/coder/.local/share/x y"}, nil, []string{"a", "a/b/c", ".local/share/x y"}, 2},
		"unclean":      {[]string{"/home/coder/", "/home/../home/coder/x/", "/home//coder/./y"}, nil, []string{"x", "y"}, 2},
		"above":        {[]string{"/home"}, nil, nil, 1},
		"elsewhere":    {[]string{"/data", "/home/other"}, nil, nil, 1},
		"a short link": {[]string{"/work"}, map[string]string{"work": "home/coder/work"}, nil, 1},
		// The folder has the longer path, so the Pod's mount of it is made after the runtime has mounted the volume.
		"through a link": {[]string{"/srv/linked/deep"}, map[string]string{"srv": "home/coder"}, []string{"linked/deep"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := backend.StartSpec{ID: newID(), Image: e.declaring(t, c.links, c.volumes...)}
			must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
			pods, err := e.comesUp(t, b, s)
			must(t, err)
			if pods != c.pods {
				t.Errorf("it took %d Pods, want %d", pods, c.pods)
			}
			inHome := func(do func(folder string)) {
				for _, folder := range c.folders {
					do(folder)
				}
			}
			inHome(func(folder string) {
				sh(t, b, s.ID, `cd "$HOME"; echo kept >"`+folder+`/kept"; mkdir -p "`+folder+`/new"`)
				if owner := sh(t, b, s.ID, `stat -c %u "$HOME/`+folder+`"`); owner != "1000" {
					t.Errorf("%s belongs to %s", folder, owner)
				}
				for up := folder; strings.Contains(up, "/"); { // a user can write beside the folder, too
					up = up[:strings.LastIndexByte(up, '/')]
					sh(t, b, s.ID, `touch "$HOME/`+up+`/beside"`)
				}
			})
			sh(t, b, s.ID, "echo home >~/other.txt")
			must(t, b.Delete(backendtest.Context(t), s.ID))
			pods, err = e.comesUp(t, b, s)
			must(t, err)
			if pods != 1 {
				t.Errorf("the next start took %d Pods", pods)
			}
			look := func(when string) {
				t.Helper()
				if text := sh(t, b, s.ID, "cat ~/other.txt"); text != "home" {
					t.Errorf("%s the file beside holds %q", when, text)
				}
				inHome(func(folder string) {
					if text := sh(t, b, s.ID, `cat "$HOME/`+folder+`/kept" || true`); text != "kept" {
						t.Errorf("%s the file in %s holds %q", when, folder, text)
					}
				})
			}
			look("after sleep")
			must(t, b.Delete(backendtest.Context(t), s.ID))
			pods, err = e.comesUp(t, b, backend.StartSpec{ID: s.ID}) // an image without volumes
			must(t, err)
			look("in the home")
			if pods != 1 {
				t.Errorf("another image took %d Pods", pods)
			}
			must(t, b.Delete(backendtest.Context(t), s.ID))
		})
	}
}

// TestAVolumeThatCannotBeKeptAway: the start fails with an error that names the volume. Otherwise the workspace would
// lose files. No Pod stays.
func TestAVolumeThatCannotBeKeptAway(t *testing.T) {
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	refuses := func(t *testing.T, s backend.StartSpec, names string) {
		t.Helper()
		for range 2 {
			_, err := e.comesUp(t, b, s)
			if err == nil || !strings.Contains(err.Error(), names) || !strings.Contains(err.Error(), s.Image) || !strings.Contains(err.Error(), "VOLUME") {
				t.Errorf("it starts: %v", err)
			}
			if e.ContainerExists(t, s.ID) {
				t.Error("the Pod is still there")
			}
		}
	}
	t.Run("through a link of the image", func(t *testing.T) {
		s := backend.StartSpec{ID: newID(), Image: e.declaring(t, map[string]string{"srv/a/b/c": "/home/coder"}, "/srv/a/b/c/linked")}
		must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
		refuses(t, s, "/home/coder/linked")
	})
	t.Run("through a link in the home", func(t *testing.T) {
		s := backend.StartSpec{ID: newID(), Image: e.declaring(t, nil, "/home/coder/project")}
		other := backend.StartSpec{ID: s.ID}
		must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
		_, err := e.comesUp(t, b, other)
		must(t, err)
		sh(t, b, s.ID, "cd; mkdir other; ln -s other project")
		must(t, b.Delete(backendtest.Context(t), s.ID))
		refuses(t, s, "/home/coder/other")
		_, err = e.comesUp(t, b, other)
		must(t, err)
		sh(t, b, s.ID, "cd; rm project; mkdir project")
		must(t, b.Delete(backendtest.Context(t), s.ID))
		_, err = e.comesUp(t, b, s)
		must(t, err)
	})
}

// TestALinkInPlaceOfAFolder: after the folder has been recorded, a user may start another image and replace the folder
// with a link. A link out of the volume is not followed, and the message has the remedy. A link to a place inside the
// volume, and a file, are mounted as they are.
func TestALinkInPlaceOfAFolder(t *testing.T) {
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	s := backend.StartSpec{ID: newID(), Image: e.declaring(t, nil, "/home/coder/project")}
	other := backend.StartSpec{ID: s.ID}
	must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
	up := func(s backend.StartSpec) {
		t.Helper()
		_, err := e.comesUp(t, b, s)
		must(t, err)
	}
	up(s)
	sh(t, b, s.ID, "echo kept >~/project/kept")
	for script, want := range map[string]string{
		"mv project other; ln -s other project":             "kept", // inside
		"rm -r project; rm -rf other; echo kept >project":   "",     // a file
		"rm -rf project other; ln -s /etc project":          "link",
		"rm -rf project other; ln -s ../../../etc project":  "link",
		"rm -rf project other; ln -s /home/coder/x project": "link",
		"rm -rf project other; ln -s nowhere project":       "link",
	} {
		must(t, b.Delete(backendtest.Context(t), s.ID))
		up(other)
		sh(t, b, s.ID, "cd; rm -rf project other; mkdir project; echo kept >project/kept; "+script)
		must(t, b.Delete(backendtest.Context(t), s.ID))
		if want != "link" {
			up(s)
			if got := sh(t, b, s.ID, "cat ~/project/kept 2>/dev/null || true"); got != want {
				t.Errorf("%s: it holds %q, want %q", script, got, want)
			}
			continue
		}
		must(t, b.Start(backendtest.Context(t), s))
		var w *workspace.Pending
		wait.Until(t, "it is refused: "+script, func() bool {
			all, err := b.Containers(backendtest.Context(t), s.ID)
			must(t, err)
			if all[s.ID].StartAgain {
				t.Fatalf("%s: it runs", script)
			}
			w = all[s.ID].Pending
			return w != nil && w.Failure != ""
		})
		if w.Failure != workspace.ReasonActionFailed || !strings.Contains(w.Message, "/home/coder/project") || !strings.Contains(w.Message, "without that VOLUME") {
			t.Errorf("%s: %+v", script, w)
		}
	}
}

// TestACrashWhileThePodIsReplaced: after a crash at any step, the next start continues, with the same result.
func TestACrashWhileThePodIsReplaced(t *testing.T) {
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	image := e.declaring(t, nil, "/home/coder/project")
	for name, broken := range map[string]struct{ method, path string }{
		"the folders are not noted": {http.MethodPatch, "/persistentvolumeclaims/"},
		"the Pod is not removed":    {http.MethodDelete, "/pods/"},
		"no other is made":          {http.MethodPost, "/pods"},
	} {
		t.Run(name, func(t *testing.T) {
			s := backend.StartSpec{ID: newID(), Image: image}
			must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
			must(t, b.Start(backendtest.Context(t), s))
			backendtest.Ready(t, b, s.ID)
			repair := e.broken.add(func(r *http.Request) bool {
				return r.Method == broken.method && strings.Contains(r.URL.Path, broken.path)
			})
			err := b.Start(backendtest.Context(t), s)
			repair()
			if err == nil {
				t.Fatal("nothing has failed")
			}
			_, err = e.comesUp(t, b, s)
			must(t, err)
			if mounts := spec.MountsOf(e.pod(t, s.ID)); !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.SubPath == "home/project" }) {
				t.Errorf("it mounts %v", mounts)
			}
			must(t, b.Delete(backendtest.Context(t), s.ID))
		})
	}
}

// TestAPodThatIsNotLookedInto: a Pod of an earlier release keeps running unchanged. An image without the tools is used
// as it is.
func TestAPodThatIsNotLookedInto(t *testing.T) {
	e := newEngine(t)
	b := e.New(t, backendtest.Installation())
	t.Run("of an earlier release", func(t *testing.T) {
		s := backend.StartSpec{ID: newID(), Image: e.declaring(t, nil, "/home/coder/project")}
		must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
		must(t, b.Start(backendtest.Context(t), s))
		p := e.pod(t, s.ID)
		_, err := object.Patch(t.Context(), e.api.Pods, "making an older Pod", p, map[string]any{"metadata": map[string]any{"annotations": map[string]any{spec.AnnotationUnseen: nil}}})
		must(t, err)
		backendtest.Ready(t, b, s.ID)
		if pods, err := e.comesUp(t, b, s); err != nil || pods != 1 || e.pod(t, s.ID).UID != p.UID {
			t.Errorf("%d Pods: %v", pods, err)
		}
	})
	t.Run("without tools", func(t *testing.T) {
		s := backend.StartSpec{ID: newID(), Image: devenv.VariantOf(t, e.image, devenv.Variant{Env: []string{"PATH=/nowhere"}, Volumes: []string{"/home/coder/project"}})}
		must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
		if pods, err := e.comesUp(t, b, s); err != nil || pods != 1 {
			t.Errorf("%d Pods: %v", pods, err)
		}
	})
}
