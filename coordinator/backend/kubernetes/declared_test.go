package kubernetes_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// begin starts a workspace with these settings of the backend, waits until it answers, and returns its address.
func (e *engine) begin(t *testing.T, settings func(*spec.Options), env ...string) (b backend.Backend, s backend.StartSpec, endpoint string) {
	t.Helper()
	o := e.options(backendtest.Installation())
	settings(&o.Spec)
	b, s = e.with(t, o), backend.StartSpec{ID: newID(), Env: env}
	must(t, b.Provision(backendtest.Context(t), backend.VolumeSpec{ID: s.ID, OpID: "op"}))
	return b, s, again(t, b, s)
}

// again starts the workspace and returns its address when it answers.
func again(t *testing.T, b backend.Backend, s backend.StartSpec) string {
	t.Helper()
	must(t, b.Start(backendtest.Context(t), s))
	return backendtest.Ready(t, b, s.ID)
}

// ask makes a request to a workspace.
func ask(t *testing.T, method, endpoint, path, body string) (status int, answer string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+endpoint+path, strings.NewReader(body))
	must(t, err)
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// TestProgramsAreAskedToEnd: the node sends SIGTERM and waits for the grace period, whether this program or a drain
// deletes the Pod. Delete returns once nothing of the Pod runs any more: immediately if the program ends, and after the
// grace period if it does not.
func TestProgramsAreAskedToEnd(t *testing.T) {
	e := newEngine(t)
	const grace = 5 * time.Second
	settings := func(o *spec.Options) { o.StopGrace = grace }
	remove := func(t *testing.T, b backend.Backend, id workspace.ID) time.Duration {
		t.Helper()
		began := time.Now()
		must(t, b.Delete(backendtest.Context(t), id))
		if e.ContainerExists(t, id) {
			t.Error("the Pod is still there")
		}
		return time.Since(began)
	}
	t.Run("one that ends", func(t *testing.T) {
		b, s, _ := e.begin(t, settings, "TEST_ENDS_WELL=its.end")
		t.Logf("deleted in %s", remove(t, b, s.ID))
		endpoint := again(t, b, s)
		if status, text := ask(t, http.MethodGet, endpoint, "/file?name=its.end", ""); text != "asked" {
			t.Errorf("it was not asked: %d %q", status, text)
		}
	})
	t.Run("one that does not", func(t *testing.T) {
		b, s, _ := e.begin(t, settings, "TEST_STAYS=1")
		if took := remove(t, b, s.ID); took < grace {
			t.Errorf("it was killed after %s, before %s", took, grace)
		}
	})
	t.Run("one in a drain", func(t *testing.T) {
		b, s, _ := e.begin(t, settings, "TEST_ENDS_WELL=its.end")
		must(t, e.api.Pods.Delete(t.Context(), s.ID.ContainerName(), metav1.DeleteOptions{}))
		remove(t, b, s.ID)
		if status, text := ask(t, http.MethodGet, again(t, b, s), "/file?name=its.end", ""); text != "asked" {
			t.Errorf("it was not asked: %d %q", status, text)
		}
	})
}

// TestSharedMemoryOfAPod: the size of /dev/shm is half of the workspace's memory, and not the 64 MiB that runtimes set
// by default.
func TestSharedMemoryOfAPod(t *testing.T) {
	e := newEngine(t)
	_, _, endpoint := e.begin(t, func(o *spec.Options) { o.MemoryBytes = 512 << 20 })
	if status, text := ask(t, http.MethodPost, endpoint, "/shared?bytes=100000000", ""); status != http.StatusOK {
		t.Errorf("100 MB of 256 MiB: %d %s", status, text)
	}
	if status, text := ask(t, http.MethodPost, endpoint, "/shared?bytes=280000000", ""); status != http.StatusInsufficientStorage || !strings.Contains(text, "no space left") {
		t.Errorf("280 MB of 256 MiB: %d %s", status, text)
	}
}

// TestAFolderOfTheHomeAtItsPlace: files in a folder of the home are the same whether or not the template mounts that
// folder. The program's user may write there, although the node created the folder.
func TestAFolderOfTheHomeAtItsPlace(t *testing.T) {
	e := newEngine(t)
	b, s, endpoint := e.begin(t, func(o *spec.Options) {
		o.PodTemplate = `{spec: {containers: [{name: workspace, volumeMounts: [{name: home, mountPath: /home/coder/project, subPath: home/project}]}]}}`
	})
	if status, text := ask(t, http.MethodPut, endpoint, "/file?name=project/kept", "kept"); status != http.StatusOK {
		t.Fatalf("writing to the folder: %d %s", status, text)
	}
	must(t, b.Delete(backendtest.Context(t), s.ID))
	if _, text := ask(t, http.MethodGet, again(t, b, s), "/file?name=project/kept", ""); text != "kept" {
		t.Errorf("after sleep the file holds %q", text)
	}
}
