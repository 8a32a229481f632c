package e2e

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// terminalThat builds the terminal's image with further instructions, and returns its reference.
func terminalThat(t *testing.T, instructions ...string) string {
	t.Helper()
	api, err := client.NewClientWithOpts(client.WithHost(devenv.Docker(t)), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	file := []byte("FROM " + devenv.TerminalImage(t) + "\n" + strings.Join(instructions, "\n") + "\n")
	var folder bytes.Buffer
	w := tar.NewWriter(&folder)
	_ = w.WriteHeader(&tar.Header{Name: "Dockerfile", Mode: 0o644, Size: int64(len(file))})
	_, _ = w.Write(file)
	w.Close()
	ref := "codehub/e2e-readiness:" + uuid.NewString()
	built, err := api.ImageBuild(t.Context(), &folder, build.ImageBuildOptions{Tags: []string{ref}, Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Body.Close()
	if out, _ := io.ReadAll(built.Body); strings.Contains(string(out), `"error"`) {
		t.Fatalf("%s", out)
	}
	return ref
}

// TestReadiness: a workspace is RUNNING as soon as its application answers. The process does not wait for the health
// check of the image. If the application listens at another port, the gateway serves that port if the image declares
// it, and otherwise names the ports that listen.
func TestReadiness(t *testing.T) {
	t.Parallel()
	in := install(t, "CODEHUB_WORKSPACE_URL=path")
	admin := in.admin(t)
	create := func(name string, instructions ...string) (*user, string) {
		t.Helper()
		u, image := in.addUser(t, name), terminalThat(t, instructions...)
		var w workspace
		u.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": name, "desired_state": "STANDBY"}, http.StatusCreated, &w)
		u.awaitPhase(t, w.ID, "STANDBY")
		admin.call(t, http.MethodPatch, "/api/v1/workspaces/"+w.ID, map[string]string{"image_ref": image}, http.StatusOK, nil)
		u.setDesiredState(t, w.ID, "RUNNING")
		return u, w.ID
	}
	// Neither health check is due while the test waits.
	for name, check := range map[string]string{
		"passes": "HEALTHCHECK --interval=1h --timeout=5s CMD true",
		"fails":  "HEALTHCHECK --interval=1h --timeout=5s --retries=1 CMD false",
	} {
		u, id := create(name, check)
		u.awaitPhase(t, id, "RUNNING")
		wait.For(t, "it serves", func() error { return u.showsTerminal(t, in.url("/w/"+id+"/")) })
	}

	declared, there := create("declared", "EXPOSE 8888", `CMD ["--bind-addr=0.0.0.0:8888"]`)
	for name, c := range map[string]struct{ address, says string }{
		"elsewhere": {"0.0.0.0:9999", "nothing listens on port 8080. Listening: 9999"},
		"loopback":  {"127.0.0.1:8080", "ports on the loopback address: 8080"},
	} {
		u, id := create(name, `CMD ["--bind-addr=`+c.address+`"]`)
		said := func(what, path string, h http.Header) {
			wait.For(t, what+" of "+name+" names the ports", func() error {
				_, body := u.get(t, in.url(path), h)
				if !strings.Contains(body, c.says) || !strings.Contains(body, "listen on port 8080") {
					return fmt.Errorf("it says %s", body)
				}
				return nil
			})
		}
		said("the workspace", "/api/v1/workspaces/"+id, http.Header{})
		said("the explanation", "/api/v1/workspaces/"+id+"/explain", http.Header{})
		said("the wake page", "/w/"+id+"/", http.Header{"Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-User": {"?1"}, "Sec-Fetch-Dest": {"document"}, "Accept": {"text/html"}})
		if w := u.workspace(t, id); w.Phase != "RUNNING" || w.ErrorReason != "" {
			t.Errorf("%s: %+v", name, w)
		}
	}
	wait.For(t, "the declared port is used", func() error { return declared.showsTerminal(t, in.url("/w/"+there+"/")) })
	if _, body := declared.get(t, in.url("/api/v1/workspaces/"+there), http.Header{}); strings.Contains(body, "NotAnswering") {
		t.Errorf("it says %s", body)
	}
	// The next start uses the port immediately.
	declared.setDesiredState(t, there, "STANDBY")
	declared.awaitPhase(t, there, "STANDBY")
	declared.setDesiredState(t, there, "RUNNING")
	declared.awaitPhase(t, there, "RUNNING")
	wait.For(t, "it is used again", func() error { return declared.showsTerminal(t, in.url("/w/"+there+"/")) })
}
