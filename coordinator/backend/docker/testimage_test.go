package docker_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/client"
)

// suiteImage builds the image of the conformance suite on the engine and returns its reference. The image is both a
// workspace and a storage job. It is built once for each engine and version of the source.
func suiteImage(t testing.TB, api *client.Client) string {
	t.Helper()
	return buildImage(t, api, "")
}

// sickImage does the same as suiteImage, but adds a health check that never passes.
func sickImage(t testing.TB, api *client.Client) string {
	t.Helper()
	return buildImage(t, api, "HEALTHCHECK --interval=1s --timeout=5s --retries=1 CMD [\"/testworkspace\", \"sick\"]\n")
}

const dockerfile = `FROM scratch
ADD rootfs.tar /
USER 1000:1000
WORKDIR /home/coder
ENV HOME=/home/coder
EXPOSE 8080
LABEL codehub.contract=1
ENTRYPOINT ["/testworkspace"]
`

var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "codehub-testworkspace-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "testworkspace")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out,
		"github.com/codehub/gateway/coordinator/backend/backendtest/testworkspace")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.New(string(text))
	}
	return os.ReadFile(out)
})

func buildImage(t testing.TB, api *client.Client, more string) string {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatalf("building the test workspace: %v", err)
	}
	rootfs := rootfs(t, binary)
	files := []byte(dockerfile + more)
	sum := sha256.Sum256(append(append([]byte{}, rootfs...), files...))
	ref := "codehub/testworkspace:" + hex.EncodeToString(sum[:8])
	if _, err := api.ImageInspect(t.Context(), ref); err == nil {
		return ref
	}
	buildContext := bytes.NewReader(packFiles(t, map[string][]byte{"Dockerfile": files, "rootfs.tar": rootfs}))
	resp, err := api.ImageBuild(t.Context(), buildContext, build.ImageBuildOptions{Tags: []string{ref}, Remove: true, ForceRemove: true})
	if err != nil {
		t.Fatalf("building the test image: %v", err)
	}
	defer resp.Body.Close()
	for dec := json.NewDecoder(bufio.NewReader(resp.Body)); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return ref
		case err != nil:
			t.Fatalf("building the test image: %v", err)
		case line.Error != "":
			t.Fatalf("building the test image: %s", line.Error)
		}
	}
}

// rootfs is the content of the suite's image.
func rootfs(t testing.TB, binary []byte) []byte {
	t.Helper()
	return packRootfs(t, []*tar.Header{
		{Name: "home/", Mode: 0o755, Typeflag: tar.TypeDir},
		{Name: "home/coder/", Mode: 0o755, Typeflag: tar.TypeDir, Uid: 1000, Gid: 1000},
		{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir},
		{Name: "testworkspace", Mode: 0o755, Typeflag: tar.TypeReg},
	}, binary)
}

func packFiles(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, body := range files {
		add(t, w, &tar.Header{Name: name, Mode: 0o644, Typeflag: tar.TypeReg}, body)
	}
	return closed(t, w, &buf)
}

// packRootfs returns an archive in which every regular file has the same body.
func packRootfs(t testing.TB, headers []*tar.Header, body []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range headers {
		if h.Typeflag == tar.TypeDir {
			add(t, w, h, nil)
		} else {
			add(t, w, h, body)
		}
	}
	return closed(t, w, &buf)
}

func add(t testing.TB, w *tar.Writer, h *tar.Header, body []byte) {
	t.Helper()
	h.Size = int64(len(body))
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(body); err != nil {
		t.Fatal(err)
	}
}

func closed(t testing.TB, w *tar.Writer, buf *bytes.Buffer) []byte {
	t.Helper()
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
