package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/wait"
)

// container returns the state of the workspace's container, or "" if there is none.
func (in *installation) container(t testing.TB, id string) string {
	t.Helper()
	c, err := in.docker.ContainerInspect(t.Context(), "ws-"+id)
	if errdefs.IsNotFound(err) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.State.Status
}

// hasVolume reports whether the workspace's volume exists.
func (in *installation) hasVolume(t testing.TB, id string) bool {
	t.Helper()
	_, err := in.docker.VolumeInspect(t.Context(), "ws-"+id+"-home")
	if err != nil && !errdefs.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// leftovers returns an error while the workspace has a container or a volume.
func (in *installation) leftovers(t testing.TB, id string) error {
	t.Helper()
	if s := in.container(t, id); s != "" || in.hasVolume(t, id) {
		return fmt.Errorf("container %q, volume %v", s, in.hasVolume(t, id))
	}
	return nil
}

// awaitJob watches for storage jobs of that kind ("archive", "restore") for the
// workspace. The returned function waits until one has started. Call awaitJob before
// the action that starts the job.
func (in *installation) awaitJob(t testing.TB, id, kind string) (started func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	messages, errs := in.docker.Events(ctx, events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", "container"), filters.Arg("event", "start"), filters.Arg("label", "codehub.workspace="+id))})
	return func() {
		t.Helper()
		defer cancel()
		for {
			select {
			case m := <-messages:
				if strings.HasPrefix(m.Actor.Attributes["name"], "ws-"+id+"-"+kind) {
					return
				}
			case err := <-errs:
				t.Fatalf("waiting for a %s job of %s: %v", kind, id, err)
			}
		}
	}
}

// runningJobs returns the containers of the workspace's running storage jobs.
func (in *installation) runningJobs(t testing.TB, id string) []container.Summary {
	t.Helper()
	list, err := in.docker.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "codehub.workspace="+id), filters.Arg("label", "codehub.kind=job"))})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// killJob kills the container of a storage job.
func (in *installation) killJob(t testing.TB, job container.Summary) {
	t.Helper()
	// It may end by itself at the same moment.
	if err := in.docker.ContainerKill(t.Context(), job.ID, "KILL"); err != nil && !strings.Contains(err.Error(), "not running") {
		t.Fatal(err)
	}
}

// objects returns the keys of the workspace's objects in the bucket.
func (in *installation) objects(t testing.TB, id string) []string {
	t.Helper()
	prefix := "archives/" + id + "/"
	out, err := in.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &in.bucket, Prefix: &prefix})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

// object returns the content of an object.
func (in *installation) object(t testing.TB, key string) []byte {
	t.Helper()
	out, err := in.s3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &in.bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// putObject overwrites an object.
func (in *installation) putObject(t testing.TB, key string, content []byte) {
	t.Helper()
	_, err := in.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &in.bucket, Key: &key, Body: bytes.NewReader(content)})
	if err != nil {
		t.Fatal(err)
	}
}
