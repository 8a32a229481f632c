package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/wait"
)

// A real server is killed, or its supervisor is. The server comes back at its address with its data. Each time, the run
// reports this once. When the server ends for the third time, the run ends, and the next run finds the data.
func TestKilledServersComeBack(t *testing.T) {
	for _, c := range []struct {
		name string
		// program and folder are in the server's command line.
		program, folder string
		start           func(context.Context, *runner) error
		// write stores something, read finds it.
		write, read func(context.Context, *runner) error
	}{
		{"PostgreSQL", "postgres", "postgresql", func(ctx context.Context, r *runner) error { return r.startPostgreSQL(ctx) }, writeSQL, readSQL},
		{"Redis", "redis-server", "redis", func(_ context.Context, r *runner) error { return r.startRedis() }, writeRedis, readRedis},
		{"S3", "versitygw", "s3", func(ctx context.Context, r *runner) error { return r.startS3(ctx) }, writeS3(t), readS3(t)},
		{"Docker engine", "dockerd", "docker", func(_ context.Context, r *runner) error { return r.startEngine() }, writeVolume, readVolume},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r, out := newTestRunner(t)
			// Started programs must not depend on the context of the preparations.
			preparing, prepared := context.WithCancel(t.Context())
			if err := c.start(preparing, r); err != nil {
				t.Fatal(err)
			}
			prepared()
			if err := c.write(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			pid := func() int {
				return findServer(t, c.program, filepath.Join(r.dir, c.folder), socketFolder(t, r, c.folder))
			}
			for i, victim := range []int{pid(), 0} {
				if i == 1 {
					victim = parent(t, pid()) // the supervisor
				}
				if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				wait.For(t, "it is started again", func() error {
					if err := r.servers.check(); err != nil {
						t.Fatal(err)
					}
					return out.counts("started again", i+1)
				})
				wait.For(t, "its data is there", func() error { return c.read(t.Context(), r) })
			}
			if got := out.String(); strings.Count(got, "\n") != 2 || strings.Count(got, c.name) != 2 {
				t.Errorf("the run says %q; want two lines that name the server", got)
			}
			kill := func() {
				if err := syscall.Kill(pid(), syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
			kill()
			ends := 3
			wait.For(t, "the run ends", func() error {
				err := r.servers.check()
				if err == nil && out.counts("started again", ends) == nil {
					kill() // on a busy machine, the first end was more than a minute before the third
					ends++
				}
				if err == nil || !strings.HasPrefix(err.Error(), c.name+" ended by itself; see its log") {
					return fmt.Errorf("after end %d: %v", ends, err)
				}
				return nil
			})
			if err := c.start(t.Context(), r); err != nil {
				t.Fatalf("the next run: %v", err)
			}
			wait.For(t, "its data is there", func() error { return c.read(t.Context(), r) })
		})
	}
}

func newTestRunner(t *testing.T) (*runner, *output) {
	t.Helper()
	dir := t.TempDir()
	st, err := loadState(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	r := newRunner("", dir, settings{}, st, out)
	r.isolated = true
	t.Cleanup(r.servers.stop)
	return r, out
}

// output is what a run has printed so far.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// counts returns an error unless text was printed n times.
func (o *output) counts(text string, n int) error {
	if got := o.String(); strings.Count(got, text) != n {
		return fmt.Errorf("%q is not %d times in %q", text, n, got)
	}
	return nil
}

func writeSQL(ctx context.Context, r *runner) error {
	return withSQL(ctx, r, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TABLE kept AS SELECT 1 AS n")
		return err
	})
}

func readSQL(ctx context.Context, r *runner) error {
	return withSQL(ctx, r, func(conn *pgx.Conn) error {
		var n int
		return conn.QueryRow(ctx, "SELECT n FROM kept").Scan(&n)
	})
}

func withSQL(ctx context.Context, r *runner, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, r.databaseURL)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(conn)
}

func writeRedis(ctx context.Context, r *runner) error {
	return withRedis(r, func(c *redis.Client) error { return c.Set(ctx, "kept", "1", 0).Err() })
}

func readRedis(ctx context.Context, r *runner) error {
	return withRedis(r, func(c *redis.Client) error { return c.Get(ctx, "kept").Err() })
}

func withRedis(r *runner, do func(*redis.Client) error) error {
	o, err := redis.ParseURL(r.redisURL)
	if err != nil {
		return err
	}
	client := redis.NewClient(o)
	defer client.Close()
	return do(client)
}

func writeS3(t *testing.T) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		client := s3Client(t, r)
		if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: aws.String("kept")}); err != nil {
			return err
		}
		_, err := client.PutObject(ctx,
			&s3.PutObjectInput{Bucket: aws.String("kept"), Key: aws.String("kept"), Body: strings.NewReader("1")})
		return err
	}
}

func readS3(t *testing.T) func(context.Context, *runner) error {
	return func(ctx context.Context, r *runner) error {
		_, err := s3Client(t, r).HeadObject(ctx,
			&s3.HeadObjectInput{Bucket: aws.String("kept"), Key: aws.String("kept")})
		return err
	}
}

func s3Client(t *testing.T, r *runner) *s3.Client {
	return devenv.ObjectStore{Endpoint: r.s3.endpoint, Region: r.s3.region, AccessKey: r.s3.accessKey,
		SecretKey: r.s3.secretKey}.Client(t)
}

func writeVolume(ctx context.Context, r *runner) error {
	root, err := image.Root()
	if err != nil {
		return err
	}
	ref, err := image.Terminal.Build(ctx, r.dockerHost, root)
	if err != nil {
		return err
	}
	return withEngine(r.dockerHost, func(api *client.Client) error {
		_, err := api.ContainerCreate(ctx, &container.Config{Image: ref},
			&container.HostConfig{Mounts: []mount.Mount{{Type: mount.TypeVolume, Source: "kept",
				Target: "/home/coder"}}}, nil, nil, "kept")
		if err != nil {
			return err
		}
		return api.ContainerStart(ctx, "kept", container.StartOptions{})
	})
}

// readVolume restarts the container that was running when the engine was killed, as the controller does.
func readVolume(ctx context.Context, r *runner) error {
	return withEngine(r.dockerHost, func(api *client.Client) error {
		if _, err := api.VolumeInspect(ctx, "kept"); err != nil {
			return err
		}
		return api.ContainerStart(ctx, "kept", container.StartOptions{})
	})
}

// socketFolder is the folder of the server's socket. Some servers have it in their command line.
func socketFolder(t *testing.T, r *runner, name string) string {
	t.Helper()
	switch name {
	case "redis":
		o, err := redis.ParseURL(r.redisURL)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Dir(o.Addr)
	default:
		return filepath.Join(r.dir, name)
	}
}

// findServer returns the id of the process that runs program with one of the folders.
func findServer(t *testing.T, program string, folders ...string) int {
	t.Helper()
	found, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range found {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		argv := strings.FieldsFunc(string(b), func(c rune) bool { return c == 0 || c == ' ' })
		if len(argv) == 0 || !strings.HasPrefix(filepath.Base(argv[0]), program) {
			continue
		}
		for _, folder := range folders {
			if strings.Contains(string(b), folder+"/") || strings.Contains(string(b), folder+"\x00") {
				pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
				if err != nil {
					t.Fatal(err)
				}
				return pid
			}
		}
	}
	t.Fatalf("no %s runs with %q", program, folders)
	return 0
}

// parent returns the id of a process's parent.
func parent(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\nPPid:")
	line, _, _ := strings.Cut(rest, "\n")
	ppid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || ppid <= 1 {
		t.Fatalf("process %d has the parent %q", pid, line)
	}
	return ppid
}
