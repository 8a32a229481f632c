package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
)

// container returns the state of the workspace's container, or "" if there is none.
func (in *installation) container(t testing.TB, id string) string {
	t.Helper()
	c, err := inspect.Find(t.Context(), in.engine, id)
	if err != nil {
		t.Fatal(err)
	}
	return c.State
}

// addressOf returns the address of the workspace's container.
func (in *installation) addressOf(t testing.TB, id string) string {
	t.Helper()
	c, err := inspect.Find(t.Context(), in.engine, id)
	if err != nil {
		t.Fatal(err)
	}
	return c.Address
}

// hasVolume reports whether the workspace's volume exists.
func (in *installation) hasVolume(t testing.TB, id string) bool {
	t.Helper()
	_, exists, err := in.engine.Volume(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return exists
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
	seen := make(chan struct{}, 1)
	ended, err := in.engine.Follow(ctx, func(e inspect.Event) {
		if e.Action == inspect.ActionStart && e.Workspace == id && e.Job == kind {
			select {
			case seen <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer cancel()
		select {
		case <-seen:
		case err := <-ended:
			t.Fatalf("waiting for a %s job of %s: %v %v", kind, id, err, ctx.Err())
		}
	}
}

// runningJobs returns the containers of the workspace's running storage jobs.
func (in *installation) runningJobs(t testing.TB, id string) []inspect.Container {
	t.Helper()
	all, err := in.engine.Containers(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c inspect.Container) bool { return c.Kind != inspect.Job || c.State != inspect.Running })
}

// killJob kills the container of a storage job.
func (in *installation) killJob(t testing.TB, job inspect.Container) {
	t.Helper()
	if err := in.engine.Kill(t.Context(), job); err != nil {
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
