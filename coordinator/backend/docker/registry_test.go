package docker_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/image"
	"github.com/google/uuid"

	"github.com/codehub/gateway/storagejob/contract"
)

// PullableImage serves the suite's image from a separate registry, with a layer of random bytes that the engine cannot
// have.
func (e *engine) PullableImage(t *testing.T) string {
	t.Helper()
	binary, err := program()
	if err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 4<<20)
	_, _ = rand.Read(noise)
	blobs := map[string][]byte{}
	put := func(blob []byte) map[string]any {
		digest := digestOf(blob)
		blobs[digest] = blob
		return map[string]any{"digest": digest, "size": len(blob)}
	}
	typed := func(of map[string]any, mediaType string) map[string]any {
		of["mediaType"] = "application/vnd.docker." + mediaType
		return of
	}
	var layers []any
	var unpacked []string
	for _, layer := range [][]byte{rootfs(t, binary), packRootfs(t, []*tar.Header{{Name: "noise", Mode: 0o644, Typeflag: tar.TypeReg}}, noise)} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, _ = w.Write(layer)
		w.Close()
		unpacked = append(unpacked, digestOf(layer))
		layers = append(layers, typed(put(packed.Bytes()), "image.rootfs.diff.tar.gzip"))
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "rootfs": map[string]any{"type": "layers", "diff_ids": unpacked},
		"config": map[string]any{"User": "1000:1000", "WorkingDir": "/home/coder", "Env": []string{"HOME=/home/coder"},
			"Entrypoint": []string{"/testworkspace"}, "Labels": map[string]string{contract.LabelVersion: fmt.Sprint(contract.Version)}, "ExposedPorts": map[string]any{"8080/tcp": map[string]any{}}},
	})
	must(t, err)
	const manifestType = "application/vnd.docker.distribution.manifest.v2+json"
	manifest, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": manifestType,
		"config": typed(put(config), "container.image.v1+json"), "layers": layers})
	must(t, err)

	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, kind := []byte("{}"), "application/json"
		switch _, name, _ := strings.Cut(r.URL.Path, "/w/"); {
		case strings.HasPrefix(name, "manifests/"):
			body, kind = manifest, manifestType
			w.Header().Set("Docker-Content-Digest", digestOf(manifest))
		case strings.HasPrefix(name, "blobs/"):
			body, kind = blobs[strings.TrimPrefix(name, "blobs/")], "application/octet-stream"
		}
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		// The layer is sent slowly, because the engine reports only the newest state of a layer.
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for piece := range slices.Chunk(body, 128<<10) {
			_, _ = w.Write(piece)
			_ = http.NewResponseController(w).Flush()
			<-tick.C
		}
	}))
	t.Cleanup(registry.Close)
	ref := registry.Listener.Addr().String() + "/w:" + uuid.NewString()
	t.Cleanup(func() {
		_, err := e.api.ImageRemove(context.WithoutCancel(t.Context()), ref, image.RemoveOptions{Force: true})
		check(t, ignoreGone(err))
	})
	return ref
}

// registryThat returns an image in a registry that answers every request about it with that status; with 200 the body
// is a list of manifests.
func registryThat(t *testing.T, status int, body string) string {
	t.Helper()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
		w.Header().Set("Content-Type", "application/json")
		if status == http.StatusOK {
			w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.list.v2+json")
			w.Header().Set("Docker-Content-Digest", digestOf([]byte(body)))
		}
		if r.URL.Path == "/v2/" {
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(registry.Close)
	return registry.Listener.Addr().String() + "/codehub/absent:1"
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}
