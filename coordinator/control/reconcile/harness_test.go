package reconcile_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest/memory"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// harness is a controller with a real database and object store, and a backend that the test controls.
type harness struct {
	t          testing.TB
	store      *store.Store
	service    *service.Service
	archives   *archive.Store
	backend    *memory.Backend
	engine     reconcile.Backend // what the controller uses; backend, unless a test wraps it
	images     backend.Images    // as engine
	database   reconcile.Store   // store, unless a test wraps it
	guard      guard
	controller *reconcile.Controller
	owner      service.Actor
	fence      postgres.Fence
	lapsed     atomic.Bool   // the lease may have run out
	configured []string      // the images that the settings name
	newOpID    func() string // uuid.NewString, unless a test wraps it
	outdated   func(context.Context, backend.StartSpec) bool
	probe      func(ctx context.Context, endpoint, basePath string) bool
	quit       context.CancelFunc
	done       chan error
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	st := storetest.Open(t)
	s3 := devenv.S3(t)
	archives, err := archive.New(archive.Options{
		Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{
		t: t, store: st, archives: archives, backend: memory.New(), owner: service.Actor{UserID: storetest.AddUser(t, st), Through: "test"},
		service: service.New(st, service.Options{Limits: service.Limits{PerUser: 1000, Global: 1000}, Logger: testlog.New(t)}),
	}
	t.Cleanup(func() { _ = h.backend.Close() })
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind != workspace.JobArchive {
			return 0, nil
		}
		key := spec.ID.ArchiveKey(spec.OpID)
		if err := archives.CreateEmpty(ctx, key); err != nil {
			return 0, err
		}
		info, err := archives.Stat(ctx, key)
		return info.Size, err
	}
	h.use(archives, testlog.New(t), nil)
	return h
}

// guard is an identity whose answers a test changes.
type guard struct {
	backend, bucket atomic.Pointer[error]
	looked          atomic.Pointer[atomic.Int32] // counts the looks that were checked
}

func answer(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

func (g *guard) Backend(context.Context) error {
	if n := g.looked.Load(); n != nil {
		n.Add(1)
	}
	return answer(&g.backend)
}

func (g *guard) Bucket(context.Context) error { return answer(&g.bucket) }

// quick are settings with short intervals.
func quick() reconcile.Settings {
	s := reconcile.DefaultSettings()
	s.IdleInterval, s.ActiveInterval = time.Second, 100*time.Millisecond
	s.PrepullInterval = 0 // images that tests take away stay away
	return s
}

// use makes a new controller for the harness.
func (h *harness) use(a reconcile.Archives, log *zap.Logger, change func(*reconcile.Settings)) {
	if h.engine == nil {
		h.engine = h.backend
	}
	if h.images == nil {
		h.images = h.backend
	}
	if h.database == nil {
		h.database = h.store
	}
	if h.newOpID == nil {
		h.newOpID = uuid.NewString
	}
	h.controller = reconcile.New(reconcile.Options{
		Store: h.database, Backend: h.engine, Archives: a, Identity: &h.guard, Addresses: h.backend.Parts().Addresses, Images: h.images, Freezer: h.backend, Outdated: h.outdated, Probe: h.probe, LocalHomes: true, NewOpID: h.newOpID, Log: log,
		Launch: func(w workspace.Workspace) (backend.StartSpec, error) {
			return launch.Spec(launch.Catalog(nil).Default("", 0), launch.Site{}, w)
		},
		Configured: func() []string { return slices.Clone(h.configured) },
		Quarantine: func() time.Duration { return time.Hour },
	})
	s := quick()
	if change != nil {
		change(&s)
	}
	h.controller.Apply(s)
}

// lead starts a term as the leader, with an epoch of its own.
func (h *harness) lead() {
	h.t.Helper()
	h.fence = h.epoch()
	ctx, cancel := context.WithCancel(context.Background())
	h.quit, h.done = cancel, make(chan error, 1)
	term := reconcile.Term{Fence: h.fence, Shards: 1, Lease: func() bool { return !h.lapsed.Load() }}
	go func() { h.done <- h.controller.Run(ctx, term) }()
	h.t.Cleanup(h.resign)
}

// resign ends the term, and returns when nothing of the term runs any more.
func (h *harness) resign() {
	if h.quit != nil {
		h.quit()
		<-h.done
		h.quit = nil
	}
}

// epoch begins the next epoch: writes under older ones fail from now on.
func (h *harness) epoch() postgres.Fence {
	h.t.Helper()
	f := postgres.Fence{Lock: "coordinator"}
	f.Epoch = storetest.Value[int64](h.t, h.store, `INSERT INTO system_locks (lock_name, holder_id, epoch, acquired_at)
		VALUES ($1, 'test', 1, now()) ON CONFLICT (lock_name) DO UPDATE SET epoch = system_locks.epoch + 1 RETURNING epoch`, f.Lock)
	return f
}

func (h *harness) create() workspace.ID { return h.createOf("") }

// createOf creates a workspace with that image.
func (h *harness) createOf(image string) workspace.ID {
	h.t.Helper()
	owner := h.owner
	owner.Admin = true // may name any image
	w, err := h.service.Create(h.t.Context(), owner, service.CreateInput{Name: "w", ImageRef: image})
	if err != nil {
		h.t.Fatal(err)
	}
	h.controller.Wake(w.ID)
	return w.ID
}

// asleep adds a workspace that is in STANDBY, has a home, and has a different desired state. No event has reached the
// controller yet.
func (h *harness) asleep(d workspace.DesiredState) workspace.ID {
	h.t.Helper()
	id, op := workspace.ID(uuid.NewString()), uuid.NewString()
	if err := h.backend.Provision(h.t.Context(), backend.VolumeSpec{ID: id, OpID: op}); err != nil {
		h.t.Fatal(err)
	}
	storetest.Exec(h.t, h.store, `INSERT INTO workspaces (id, owner_user_id, name, instance_backend, storage_backend, home_store_key, phase, desired_state, home_ctx, conditions)
		VALUES ($1, $2, 'w', 'docker', 'docker', 'home', 'STANDBY', $3, jsonb_build_object('volume_op_id', $4::text),
		jsonb_build_object('storage.volume_ready', jsonb_build_object('status', 'True', 'last_transition_time', now())))`,
		string(id), h.owner.UserID, string(d), op)
	return id
}

func (h *harness) setDesired(id workspace.ID, d workspace.DesiredState) {
	h.t.Helper()
	if err := h.service.SetDesired(h.t.Context(), h.owner, id, d); err != nil {
		h.t.Fatal(err)
	}
	h.controller.Wake(id)
}

func (h *harness) row(id workspace.ID) workspace.Workspace {
	h.t.Helper()
	return storetest.Row(h.t, h.store, id)
}

// await waits until the row meets the condition. It polls, because a row gives no signal.
func (h *harness) await(id workspace.ID, what string, want func(workspace.Workspace) bool) workspace.Workspace {
	h.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(wait.Timeout)
	for {
		w := h.row(id)
		if want(w) {
			return w
		}
		select {
		case <-tick.C:
		case <-limit:
			h.t.Fatalf("waited %s for %s: %+v", wait.Timeout, what, w)
		}
	}
}

// settles waits until the workspace is in phase p without an operation.
func (h *harness) settles(id workspace.ID, p workspace.Phase) workspace.Workspace {
	h.t.Helper()
	return h.await(id, "phase "+string(p)+" without an operation", func(w workspace.Workspace) bool {
		return w.Phase == p && w.Operation == workspace.OpNone
	})
}

// waits waits until the workspace waits for that reason.
func (h *harness) waits(id workspace.ID, reason string) workspace.Workspace {
	h.t.Helper()
	return h.await(id, "a wait for "+reason, func(w workspace.Workspace) bool {
		return w.Waiting != nil && w.Waiting.Reason == reason
	})
}

// log is a log in the test's output.
func (h *harness) log() *zap.Logger { return testlog.New(h.t) }

// ptr returns a pointer to an error.
func ptr(err error) *error { return &err }

func TestMain(m *testing.M) { wait.Main(m, leakOptions()...) }

// reach changes the desired state of a running workspace and waits for the phase.
func (h *harness) reach(id workspace.ID, d workspace.DesiredState, p workspace.Phase) {
	h.t.Helper()
	h.settles(id, workspace.PhaseRunning)
	h.setDesired(id, d)
	h.settles(id, p)
}

// leakOptions ignore the goroutines of the test servers, which run until the end.
func leakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
}
