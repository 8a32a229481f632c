package processtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// logBuffer is the log of a running process.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// installation is one database, Redis, bucket and label on the container backend, with any
// number of coordinator processes.
type installation struct {
	config  processConfig
	store   *store.Store
	own     *pgxpool.Pool // the test's own, for what it asks again and again
	service *service.Service
	owner   service.Actor
	engine  inspect.Engine
	bucket  devenv.ObjectStore
	s3      *s3.Client
}

// installBackend prepares what storage jobs need: a bucket, and a label on the container
// backend.
func installBackend(t testing.TB) *installation {
	t.Helper()
	bucket := devenv.S3(t)
	in := &installation{bucket: bucket, s3: bucket.Client(t)}
	in.config.Archive = archive.Options{
		Endpoint: bucket.Endpoint, Region: bucket.Region, Bucket: bucket.Bucket, PathStyle: true,
		AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey,
	}
	in.config.onBackend(t)
	in.engine = in.config.inspect(t)
	t.Cleanup(func() { devenv.Clear(t, in.engine) })
	return in
}

// install prepares an installation without processes.
func install(t testing.TB) *installation {
	t.Helper()
	in := installServers(t, storetest.Migrated(t))
	in.open(t)
	in.owner = service.Actor{UserID: storetest.AddUser(t, in.store), Through: "test"}
	return in
}

// installServers prepares the servers that processes need besides a database.
func installServers(t testing.TB, database string) *installation {
	t.Helper()
	in := installBackend(t)
	in.config.Database, in.config.Redis = database, devenv.Redis(t)
	return in
}

// open connects the test itself to the database, and brings the schema up to date.
func (in *installation) open(t testing.TB) {
	t.Helper()
	st, err := store.Open(in.config.Database, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	in.store, in.own = st, storetest.Pool(t, st)
	in.service = service.New(st, service.Options{Inventory: in.inventory(t)})
	in.service.SetMaxKeepAwake(longEnough)
}

// onBackend chooses where containers run: on the cluster of a run on Kubernetes, or on Docker.
func (c *processConfig) onBackend(t testing.TB) {
	t.Helper()
	c.Installation = devenv.Installation("fault")
	image, job := devenv.TerminalImage(t), devenv.StorageJobImage(t)
	if !devenv.OnKubernetes() {
		c.Docker = docker.Options{
			Host: devenv.Docker(t), Installation: c.Installation, Image: image, JobImage: job, JobNetwork: "host",
			StopGrace: backend.DefaultStopGrace,
		}
		return
	}
	on := devenv.Kubernetes(t)
	c.Kubernetes = &kubernetes.Options{
		Options: cluster.Options{Kubeconfig: on.Kubeconfig, Namespace: on.Namespace},
		Spec: spec.Options{
			Installation: c.Installation, Image: image, JobImage: job,
			StopGrace: backend.DefaultStopGrace,
			// Many workspaces fit on a small node.
			MemoryRequestBytes: 16 << 20, NanoCPUsRequest: 1_000_000, HomeBytes: 1 << 30, JobScratchBytes: 1 << 30,
		},
	}
}

// backend connects to the backend as the product does; inspect connects to it without the product.
func (c processConfig) backend() (backend.Backend, error) {
	if c.Kubernetes != nil {
		return kubernetes.New(*c.Kubernetes)
	}
	return docker.New(c.Docker)
}

func (c processConfig) inspect(t testing.TB) inspect.Engine {
	t.Helper()
	if o := c.Kubernetes; o != nil {
		return devenv.Cluster{Kubeconfig: o.Kubeconfig, Namespace: o.Namespace}.Inspect(t, c.Installation)
	}
	return devenv.Inspect(t, c.Docker.Host, c.Installation)
}

// inventory tells the service layer of this process which archives and volumes exist, for recoveries.
func (in *installation) inventory(t testing.TB) coordinator.Inventory {
	t.Helper()
	b, err := in.config.backend()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	archives, err := archive.New(in.config.Archive)
	if err != nil {
		t.Fatal(err)
	}
	guard := identity.New(in.store, b, archives, in.config.Installation, zap.NewNop())
	return coordinator.Inventory{Backend: b, Archives: archives, Identity: guard}
}

// process starts a process of the installation.
func (in *installation) process(t testing.TB, node string, change func(*processConfig)) *process {
	t.Helper()
	c := in.config
	c.Node = node
	if change != nil {
		change(&c)
	}
	return startProcess(t, c)
}

// home is a workspace and the newest content that its user has written.
type home struct {
	*installation
	id      workspace.ID
	content map[string][]byte
}

// create creates a workspace whose desired state is running.
func (in *installation) create(t testing.TB) *home {
	t.Helper()
	w, err := in.service.Create(t.Context(), in.owner, service.CreateInput{Name: "fault"})
	if err != nil {
		t.Fatal(err)
	}
	return &home{in, w.ID, map[string][]byte{}}
}

// row returns the workspace's row.
func (h *home) row(t testing.TB) workspace.Workspace { return storetest.Row(t, h.store, h.id) }

// want changes the desired state as soon as no operation is in progress.
func (h *home) want(t testing.TB, d workspace.DesiredState) {
	t.Helper()
	wait.For(t, "the desired state is "+string(d), func() error {
		return h.service.SetDesired(t.Context(), h.owner, h.id, d)
	})
}

// await returns when the workspace has the phase and no operation.
func (h *home) await(t testing.TB, phase workspace.Phase) {
	t.Helper()
	wait.For(t, "the workspace is "+string(phase), func() error {
		w := h.row(t)
		if w.Phase == phase && w.Operation == workspace.OpNone {
			return nil
		}
		if w.Phase == workspace.PhaseError && w.ErrorReason.Terminal() && phase != workspace.PhaseError {
			t.Fatalf("the workspace is in ERROR: %s: %s", w.ErrorReason, w.ErrorMessage)
		}
		return fmt.Errorf("it is %s, %s, %s %s, waits for %+v", w.Phase, w.Operation, w.ErrorReason, w.ErrorMessage, w.Waiting)
	})
}

// run starts the workspace and waits until it runs.
func (h *home) run(t testing.TB) {
	t.Helper()
	h.want(t, workspace.DesiredRunning)
	h.await(t, workspace.PhaseRunning)
}

// longEnough is longer than any test takes.
const longEnough = time.Hour

// keepAwake keeps the workspace from dozing and sleeping for that time; 0 ends that.
func (h *home) keepAwake(t testing.TB, d time.Duration) {
	t.Helper()
	wait.For(t, "it is kept awake for "+d.String(), func() error {
		_, err := h.service.KeepAwake(t.Context(), h.owner, h.id, d)
		return err
	})
}

// write adds a file of random content, as the workspace's user.
func (h *home) write(t testing.TB, name string) {
	t.Helper()
	data := make([]byte, 64<<10)
	_, _ = rand.Read(data)
	h.exec(t, bytes.NewReader(data), "cat >/home/coder/"+name+" && sync")
	h.content[name] = data
}

// check compares the files in the running container with the content that the home's user wrote. It computes the
// checksums in the container instead of reading the files: the end of a command's output may be missing even if the
// command has succeeded.
func (h *home) check(t testing.TB) {
	t.Helper()
	for name, data := range h.content {
		want := fmt.Sprintf("%x %d\n", sha256.Sum256(data), len(data))
		sum := "f=/home/coder/" + name + "; echo $(sha256sum <$f | cut -c1-64) $(wc -c <$f)"
		var got []byte
		wait.Until(t, "the sum of the file "+name+" arrives", func() bool { got = h.exec(t, nil, sum); return bytes.HasSuffix(got, []byte("\n")) })
		if string(got) != want {
			t.Errorf("the file %s is not what its user has written: its sum and size are %s, want %s", name, got, want)
		}
	}
}

// exec runs a shell command in the container. The container may be about to be replaced.
func (h *home) exec(t testing.TB, stdin io.Reader, command string) (output []byte) {
	t.Helper()
	ctx := t.Context()
	var data []byte
	if stdin != nil {
		data, _ = io.ReadAll(stdin)
	}
	wait.For(t, command+" succeeds", func() (err error) {
		var in io.Reader
		if data != nil {
			in = bytes.NewReader(data)
		}
		output, err = h.engine.Exec(ctx, string(h.id), in, command)
		return err
	})
	return output
}

// object returns an object of the bucket, and putObject writes one.
func (in *installation) object(ctx context.Context, t testing.TB, key string) (data []byte, metadata map[string]string) {
	t.Helper()
	out, err := in.s3.GetObject(ctx, &s3.GetObjectInput{Bucket: &in.bucket.Bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	if data, err = io.ReadAll(out.Body); err != nil {
		t.Fatal(err)
	}
	return data, out.Metadata
}

func (in *installation) putObject(ctx context.Context, t testing.TB, key string, data []byte, metadata map[string]string) {
	t.Helper()
	_, err := in.s3.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &in.bucket.Bucket, Key: &key, Body: bytes.NewReader(data), Metadata: metadata,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// objects returns the names of the workspace's objects in the store.
func (h *home) objects(t testing.TB) []string {
	t.Helper()
	out, err := h.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &h.bucket.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, o := range out.Contents {
		if strings.Contains(aws.ToString(o.Key), string(h.id)) {
			names = append(names, path.Base(path.Dir(aws.ToString(o.Key)))+"/"+path.Base(aws.ToString(o.Key)))
		}
	}
	return names
}

// sameState fails the test if f changes the workspace: its containers, its volumes, its objects or its row. Values in
// the row that depend on the time of observations do not count. However, f may create a container that exists for a
// moment and is never started, because no server refuses a late creation. Its creator or the present leader removes it.
func (h *home) sameState(t testing.TB, what string, f func()) {
	t.Helper()
	wait.Until(t, "the jobs are removed", func() bool { return !strings.Contains(h.state(t), "container job") })
	began, err := h.engine.Mark(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := h.state(t)
	f()
	wait.For(t, what+" and nothing has changed", func() error {
		if after := h.state(t); after != before {
			return fmt.Errorf("\nbefore %s\nafter  %s", before, after)
		}
		return nil
	})
	happened, err := h.engine.Since(t.Context(), began, string(h.id))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range happened {
		if e.Action != inspect.ActionCreate && e.Action != inspect.ActionRemove {
			t.Errorf("%s: the backend did %s with %s", what, e.Action, e.Name)
		}
	}
}

// state describes everything that belongs to the workspace.
func (h *home) state(t testing.TB) string {
	t.Helper()
	containers, err := h.engine.Containers(t.Context(), string(h.id))
	if err != nil {
		t.Fatal(err)
	}
	op, exists, err := h.engine.Volume(t.Context(), string(h.id))
	if err != nil {
		t.Fatal(err)
	}
	var things []string
	for _, c := range containers {
		things = append(things, fmt.Sprintf("container %s %s %s %s", c.Kind, c.Name, c.ID[:12], c.State))
	}
	if exists {
		things = append(things, "volume of "+op)
	}
	for _, o := range h.objects(t) {
		things = append(things, "object "+o)
	}
	slices.Sort(things)
	row := postgrestest.Value[string](t, h.own, `
		SELECT ((to_jsonb(w) - ARRAY['observed_at', 'updated_at', 'last_access_at', 'revision'])
			|| jsonb_build_object('conditions', (SELECT jsonb_object_agg(key, value - ARRAY['reason', 'message']) FROM jsonb_each(conditions))))::text
		FROM workspaces w WHERE id = $1`, string(h.id))
	return row + "\n" + strings.Join(things, "\n")
}

// endExclusives is for a stopped process. It ends the sessions in which that process does work that only one process at
// a time may do, such as the garbage collection. The server would end them after five minutes. It does not end the
// leader's own session: the server does that within seconds.
func (in *installation) endExclusives(ctx context.Context, p *process) error {
	conn, err := pgx.ConnectConfig(ctx, in.store.ConnConfig())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'codehub gc%' || $1`, p.node)
	return err
}

// awaitTakeOver returns when another process than node leads.
func (in *installation) awaitTakeOver(t testing.TB, node string) {
	t.Helper()
	wait.Until(t, "another process leads", func() bool {
		return postgrestest.Value[bool](t, in.own, `SELECT EXISTS (SELECT FROM system_locks WHERE lock_name = 'coordinator' AND holder_id <> $1)`, node)
	})
}

// epochsGrow fails the test if a leader has written after a later one of the same shard.
func (in *installation) epochsGrow(t testing.TB) {
	t.Helper()
	late := postgrestest.Value[string](t, in.own, `
		SELECT COALESCE(string_agg(format('%s wrote %s of epoch %s after epoch %s', lock_name, id, epoch, before), '; '), '')
		FROM (SELECT id, lock_name, epoch, max(epoch) OVER (PARTITION BY lock_name ORDER BY id) AS before
			FROM workspace_history WHERE epoch IS NOT NULL) h
		WHERE epoch < before`)
	if late != "" {
		t.Error(late)
	}
}
