package devenv

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
)

// Variant is what [VariantOf] adds to an image.
type Variant struct {
	// Env are variables as name=value, and Volumes the folders that the image declares as volumes.
	Env, Volumes []string
	// Links are symbolic links by their names, with their targets.
	Links map[string]string
}

// VariantOf makes a variant of an image on the engine of [Docker], brings it to the nodes of the cluster
// and returns its reference.
func VariantOf(t testing.TB, of string, v Variant) (ref string) {
	t.Helper()
	host := Docker(t)
	ref = "codehub/test-variant:" + uniqueName()
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err == nil {
		defer api.Close()
		err = v.commit(t.Context(), api, of, ref)
	}
	if err != nil {
		t.Fatal(err)
	}
	load(t, host, ref)
	if _, err := api.ImageRemove(t.Context(), ref, image.RemoveOptions{}); err != nil {
		t.Fatal(err)
	}
	return ref
}

func (v Variant) commit(ctx context.Context, api *client.Client, of, ref string) error {
	made, err := api.ContainerCreate(ctx, &container.Config{Image: of}, nil, nil, nil, "")
	if err != nil {
		return err
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	for name, target := range v.Links {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink}))
	}
	volumes := make(map[string]struct{})
	for _, name := range v.Volumes {
		volumes[name] = struct{}{}
	}
	err = errors.Join(err, w.Close(), api.CopyToContainer(ctx, made.ID, "/", &files, container.CopyToContainerOptions{}))
	if err == nil {
		_, err = api.ContainerCommit(ctx, made.ID, container.CommitOptions{Reference: ref, Config: &container.Config{Env: v.Env, Volumes: volumes}})
	}
	return errors.Join(err, api.ContainerRemove(ctx, made.ID, container.RemoveOptions{}))
}
