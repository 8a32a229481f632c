// Package image builds the container images of this repository through the Docker
// API, without Docker's command line: the storage job and a terminal workspace.
//
// Images are named after the hash of what they are made from. Whatever has not
// changed is therefore found instead of built, also by another process, and a
// reference means the same for as long as it is in use.
package image

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Built is an image that is there.
type Built struct {
	// Ref is the reference to run it by.
	Ref string
	// New tells that it was built now and not found.
	New bool
}

// Builder builds images on one Docker engine.
type Builder struct {
	api *client.Client
	// root is the folder of this repository.
	root string
	// arch is the engine's architecture, by Go's names.
	arch string
}

// NewBuilder connects to the engine at host; root is the folder of this repository.
func NewBuilder(ctx context.Context, host, root string) (*Builder, error) {
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("reading a Docker address: %w", err)
	}
	version, err := api.ServerVersion(ctx)
	if err != nil {
		api.Close()
		return nil, fmt.Errorf("asking the Docker engine for its version: %w", err)
	}
	return &Builder{api: api, root: root, arch: version.Arch}, nil
}

// Close releases the connection.
func (b *Builder) Close() error { return b.api.Close() }

// ensure returns the image called name that is made from files, building it unless
// it is there. files is a tar archive with a Dockerfile.
func (b *Builder) ensure(ctx context.Context, name string, files []byte) (Built, error) {
	sum := sha256.Sum256(append([]byte(b.arch+"\n"), files...))
	image := Built{Ref: name + ":" + hex.EncodeToString(sum[:8])}

	cache, err := server.CacheDir()
	if err != nil {
		return Built{}, err
	}
	lock, err := server.Lock(filepath.Join(cache, "images.lock"))
	if err != nil {
		return Built{}, err
	}
	defer lock.Close()
	_, err = b.api.ImageInspect(ctx, image.Ref)
	if err == nil {
		return image, nil
	}
	if !errdefs.IsNotFound(err) {
		return Built{}, fmt.Errorf("looking for image %s: %w", image.Ref, err)
	}
	resp, err := b.api.ImageBuild(ctx, bytes.NewReader(files), build.ImageBuildOptions{
		Tags: []string{image.Ref, name + ":latest"}, Remove: true, ForceRemove: true,
	})
	if err != nil {
		return Built{}, fmt.Errorf("building image %s: %w", image.Ref, err)
	}
	defer resp.Body.Close()
	if err := readBuild(resp.Body); err != nil {
		return Built{}, fmt.Errorf("building image %s: %w", image.Ref, err)
	}
	image.New = true
	return image, nil
}

// readBuild reads the engine's account of a build, which is how its end is awaited,
// and returns the error that is in it.
func readBuild(r io.Reader) error {
	dec := json.NewDecoder(bufio.NewReader(r))
	for {
		var line struct {
			Error string `json:"error"`
		}
		err := dec.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("reading the engine's answer: %w", err)
		case line.Error != "":
			return errors.New(strings.TrimSpace(line.Error))
		}
	}
}

// program builds a static program of this repository for the engine and returns it.
// The result depends on the source alone, so that its hash does, too.
func (b *Builder) program(ctx context.Context, pkg string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "codehub-image-")
	if err != nil {
		return nil, fmt.Errorf("making a build folder: %w", err)
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "program")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, pkg)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+b.arch)
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", pkg, err, text)
	}
	return os.ReadFile(out)
}

// Root returns the folder of this repository: the one of go.mod at or above the
// present folder.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("finding the present folder: %w", err)
	}
	for {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/codehub/gateway\n") {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("the present folder is not inside the repository: there is no go.mod of ours at or above it")
		}
		dir = parent
	}
}
