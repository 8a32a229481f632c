package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// The hash of an image's files is its name: packing must not depend on time or place.
func TestPackIsReproducible(t *testing.T) {
	files := []entry{{name: "home/", mode: 0o755, owner: 1000}, {name: "home/f", body: []byte("x"), mode: 0o600}}
	first, err := pack(files...)
	if err != nil {
		t.Fatal(err)
	}
	second, err := pack(files...)
	if err != nil || !bytes.Equal(first, second) {
		t.Fatalf("two archives of the same files differ: %v", err)
	}
	r := tar.NewReader(bytes.NewReader(first))
	for _, want := range files {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil || h.Name != want.name || h.Uid != want.owner || h.Mode != want.mode || !bytes.Equal(body, want.body) {
			t.Errorf("%+v with %q, %v; want %+v", h, body, err, want)
		}
	}
}

func TestReadBuildFindsTheError(t *testing.T) {
	if err := readBuild(strings.NewReader(`{"stream":"Step 1/2"}` + "\n" + `{"stream":"done"}`)); err != nil {
		t.Errorf("a good build: %v", err)
	}
	for _, text := range []string{`{"stream":"Step 1/2"}{"error":"no space left"}`, `{"stream":`} {
		if err := readBuild(strings.NewReader(text)); err == nil {
			t.Errorf("%s is no error", text)
		}
	}
}

// A BusyBox of another architecture would make an image that cannot run.
func TestStaticBusyboxIsOfTheEnginesArchitecture(t *testing.T) {
	if _, ok := staticBusybox(runtime.GOARCH); ok != HasBusybox() {
		t.Error("HasBusybox says something else")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if _, ok := staticBusybox(arch); ok && arch != runtime.GOARCH {
			t.Errorf("this host's BusyBox is offered for %s", arch)
		}
	}
}

func TestRootIsFoundFromBelowAndNowhereElse(t *testing.T) {
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(root + "/xcaddy.json"); err != nil {
		t.Errorf("%s is not the repository: %v", root, err)
	}
	t.Chdir(t.TempDir())
	if root, err := Root(); err == nil {
		t.Errorf("found %s from outside", root)
	}
}

func TestMissingErrorNamesThePackage(t *testing.T) {
	var err error = &server.MissingError{Program: "Redis", Package: "redis-server"}
	var missing *server.MissingError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "redis-server") {
		t.Errorf("got %v", err)
	}
}
