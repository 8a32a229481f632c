package devenv_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
)

func TestPostgreSQLGivesEachTestItsOwnDatabase(t *testing.T) {
	for range 2 {
		conn, err := pgx.Connect(t.Context(), devenv.PostgreSQL(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		// The second time, this statement fails if both calls have returned the same database.
		if _, err := conn.Exec(t.Context(), "CREATE TABLE mine (id int)"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRedisIsNotShared(t *testing.T) {
	for range 2 {
		opts, err := redis.ParseURL(devenv.Redis(t))
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(opts)
		defer client.Close()
		if n, err := client.Incr(t.Context(), "n").Result(); err != nil || n != 1 {
			t.Fatalf("incrementing a fresh counter gives %d, %v", n, err)
		}
	}
}

func TestS3KeepsAnObject(t *testing.T) {
	store := devenv.S3(t)
	client := store.Client(t)
	key := "a/b.txt"
	if _, err := client.PutObject(t.Context(),
		&s3.PutObjectInput{Bucket: &store.Bucket, Key: &key, Body: bytes.NewReader([]byte("hello"))}); err != nil {
		t.Fatal(err)
	}
	got, err := client.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &store.Bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if b, err := io.ReadAll(got.Body); err != nil || string(b) != "hello" {
		t.Fatalf("the object reads %q, %v", b, err)
	}
}

func TestDockerAnswers(t *testing.T) {
	api, err := client.NewClientWithOpts(client.WithHost(devenv.Docker(t)), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if _, err := api.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestImagesSayWhatTheyAreMadeOf: the bills of materials and the licences are where the guide says, and name every
// module of the program.
func TestImagesSayWhatTheyAreMadeOf(t *testing.T) {
	guide, err := os.ReadFile("../../caddymodule/docs/production.md")
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.NewClientWithOpts(client.WithHost(devenv.Docker(t)), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	for name, ref := range map[string]string{"gateway": devenv.GatewayImage(t), "storagejob": devenv.StorageJobImage(t)} {
		c, err := api.ContainerCreate(t.Context(), &container.Config{Image: ref}, nil, nil, nil, "")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := api.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true}); err != nil {
				t.Error(err)
			}
		})
		read := func(path string) []byte {
			t.Helper()
			if !bytes.Contains(guide, []byte("`"+path+"`")) {
				t.Errorf("the guide does not name %s", path)
			}
			archive, _, err := api.CopyFromContainer(t.Context(), c.ID, path)
			if err != nil {
				t.Fatal(err)
			}
			defer archive.Close()
			files := tar.NewReader(archive)
			if _, err := files.Next(); err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(files)
			if err != nil {
				t.Fatal(err)
			}
			return text
		}
		bill, licences := read("/usr/share/sbom/"+name+".cdx.json"), read("/usr/share/licenses/"+name+".txt")
		if err := sbom.Check(bill); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		const inBoth = "github.com/klauspost/compress"
		if !bytes.Contains(bill, []byte(`"`+inBoth+`"`)) || !bytes.Contains(licences, []byte("\n"+inBoth+" v")) {
			t.Errorf("%s does not say that it is made of %s", name, inBoth)
		}
	}
}

// The terminal image serves, and a new volume takes over the owner of its home.
func TestTerminalImageRuns(t *testing.T) {
	ref := devenv.TerminalImage(t)
	if again := devenv.TerminalImage(t); again != ref {
		t.Fatalf("the same source is built as %s and %s", ref, again)
	}
	api, err := client.NewClientWithOpts(client.WithHost(devenv.Docker(t)), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	c, err := api.ContainerCreate(t.Context(),
		&container.Config{Image: ref, Entrypoint: []string{"/bin/sh", "-c", "echo hello > file && ls -ln"}},
		&container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Target: "/home/coder"}}}, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.ContainerRemove(context.Background(), c.ID,
			container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Error(err)
		}
	})
	ended, failed := api.ContainerWait(t.Context(), c.ID, container.WaitConditionNextExit)
	if err := api.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-failed:
		t.Fatal(err)
	case end := <-ended:
		logs, err := api.ContainerLogs(t.Context(), c.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
		if err != nil {
			t.Fatal(err)
		}
		defer logs.Close()
		b, err := io.ReadAll(logs)
		if err != nil || end.StatusCode != 0 || !strings.Contains(string(b), "1000     1000") {
			t.Fatalf("writing into a new home: exit code %d, %q, %v", end.StatusCode, b, err)
		}
	}
}
