package reconcile_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/memory"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/reconcile"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const patience = 30 * time.Second

// lab is a controller over a real database and object store, and a runtime that
// does what the test wants.
type lab struct {
	t          *testing.T
	store      *store.Store
	service    *service.Service
	archives   *archive.Store
	backend    *memory.Backend
	controller *reconcile.Controller
	owner      service.Actor
	fence      store.Fence
	quit       context.CancelFunc
	done       chan error
}

func newLab(t *testing.T) *lab {
	t.Helper()
	st, err := store.Open(devenv.PostgreSQL(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.Close)
	if err := st.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	user, _, err := st.AddUser(t.Context(), "somebody", "no hash", "user")
	if err != nil {
		t.Fatal(err)
	}
	s3 := devenv.S3(t)
	archives, err := archive.New(archive.Options{
		Endpoint: s3.Endpoint, Region: s3.Region, Bucket: s3.Bucket, AccessKey: s3.AccessKey, SecretKey: s3.SecretKey, PathStyle: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{
		t: t, store: st, archives: archives, backend: memory.New(), owner: service.Actor{UserID: user.ID, Kind: "test"},
		service: service.New(st, service.Options{Limits: service.Limits{PerUser: 1000, Global: 1000}, Logger: zaptest.NewLogger(t)}),
	}
	t.Cleanup(func() { _ = l.backend.Close() })
	l.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
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
	l.controller = reconcile.New(st, l.backend, archives, uuid.NewString, zaptest.NewLogger(t))
	s := reconcile.DefaultSettings()
	s.IdleInterval, s.ActiveInterval = time.Second, 100*time.Millisecond
	l.controller.Apply(s)
	return l
}

// lead begins a leadership with an epoch of its own.
func (l *lab) lead() {
	l.t.Helper()
	l.fence = l.epoch()
	ctx, cancel := context.WithCancel(context.Background())
	l.quit, l.done = cancel, make(chan error, 1)
	go func() { l.done <- l.controller.Run(ctx, l.fence) }()
	l.t.Cleanup(l.resign)
}

// resign ends the leadership and waits until nothing of it runs.
func (l *lab) resign() {
	if l.quit != nil {
		l.quit()
		<-l.done
		l.quit = nil
	}
}

// epoch is the next leader's fence: from now on older ones change nothing.
func (l *lab) epoch() store.Fence {
	l.t.Helper()
	f := store.Fence{Lock: "coordinator"}
	err := l.store.Pool().QueryRow(l.t.Context(), `INSERT INTO system_locks (lock_name, holder_id, epoch, acquired_at)
		VALUES ($1, 'test', 1, now()) ON CONFLICT (lock_name) DO UPDATE SET epoch = system_locks.epoch + 1 RETURNING epoch`, f.Lock).Scan(&f.Epoch)
	if err != nil {
		l.t.Fatal(err)
	}
	return f
}

func (l *lab) create() workspace.ID {
	l.t.Helper()
	w, err := l.service.Create(l.t.Context(), l.owner, service.CreateInput{Name: "w"})
	if err != nil {
		l.t.Fatal(err)
	}
	l.controller.Wake(w.ID)
	return w.ID
}

func (l *lab) wish(id workspace.ID, d workspace.DesiredState) {
	l.t.Helper()
	if err := l.service.SetDesired(l.t.Context(), l.owner, id, d); err != nil {
		l.t.Fatal(err)
	}
	l.controller.Wake(id)
}

func (l *lab) row(id workspace.ID) workspace.Workspace {
	l.t.Helper()
	rows, err := l.store.Workspaces(l.t.Context(), []workspace.ID{id})
	if err != nil || len(rows) != 1 {
		l.t.Fatalf("%d rows, %v", len(rows), err)
	}
	return rows[0]
}

// await waits until the row is as wanted. It asks again at each tick of a clock,
// because a row gives no signal.
func (l *lab) await(id workspace.ID, what string, want func(workspace.Workspace) bool) workspace.Workspace {
	l.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for {
		w := l.row(id)
		if want(w) {
			return w
		}
		select {
		case <-tick.C:
		case <-limit:
			l.t.Fatalf("waited %s until %s: %+v", patience, what, w)
		}
	}
}

func (l *lab) rests(id workspace.ID, p workspace.Phase) workspace.Workspace {
	l.t.Helper()
	return l.await(id, "it rests as "+string(p), func(w workspace.Workspace) bool {
		return w.Phase == p && w.Operation == workspace.OpNone
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, leakOptions()...) }

func TestWholeLoop(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.lead()
	id := l.create()
	if w := l.rests(id, workspace.PhaseRunning); w.Endpoint == "" || !w.HomeCtx.Dirty {
		t.Errorf("running with endpoint %q and %+v", w.Endpoint, w.HomeCtx)
	}
	l.wish(id, workspace.DesiredArchived)
	w := l.rests(id, workspace.PhaseArchived)
	if _, err := l.archives.Stat(t.Context(), w.ArchiveKey); err != nil || w.ArchiveOpID != "" || w.Endpoint != "" {
		t.Errorf("archived as %q (%v), op id %q, endpoint %q", w.ArchiveKey, err, w.ArchiveOpID, w.Endpoint)
	}
	if v, _ := l.backend.Volumes(t.Context(), id); len(v) != 0 {
		t.Error("the volume of an archived workspace is still there")
	}
	l.wish(id, workspace.DesiredRunning)
	l.rests(id, workspace.PhaseRunning)
	if err := l.service.Delete(t.Context(), l.owner, id); err != nil {
		t.Fatal(err)
	}
	l.controller.Wake(id)
	w = l.await(id, "only the archive is left", func(w workspace.Workspace) bool {
		v, _ := l.backend.Volumes(t.Context(), id)
		k, _ := l.backend.Containers(t.Context(), id)
		return w.Operation == workspace.OpNone && len(v) == 0 && len(k) == 0
	})
	if w.Phase != workspace.PhaseDeleting {
		t.Errorf("phase %s while the archive exists, want DELETING", w.Phase)
	}
	if _, err := l.archives.Delete(t.Context(), []string{w.ArchiveKey, w.ArchiveKey + contract.MetaSuffix}); err != nil {
		t.Fatal(err)
	}
	l.controller.Wake(id)
	l.rests(id, workspace.PhaseDeleted)
}

func TestCreatedToBeArchived(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	id := l.create()
	l.wish(id, workspace.DesiredArchived)
	l.lead()
	w := l.rests(id, workspace.PhaseArchived)
	if info, err := l.archives.Stat(t.Context(), w.ArchiveKey); err != nil || info.Size == 0 {
		t.Errorf("the empty archive: %+v, %v", info, err)
	}
}

// TestFailuresEndInErrorAndRecover also shows that an operation is retried.
func TestFailuresEndInErrorAndRecover(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var broken atomic.Bool
	var starts atomic.Int32
	broken.Store(true)
	l.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Start" && broken.Load() {
			starts.Add(1)
			return memory.ErrRefused
		}
		return nil
	}
	l.lead()
	id := l.create()
	w := l.rests(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonRetryExceeded || !strings.Contains(w.ErrorMessage, memory.ErrRefused.Error()) || starts.Load() != 3 {
		t.Errorf("%s %q after %d starts, want RetryExceeded after 3", w.ErrorReason, w.ErrorMessage, starts.Load())
	}
	broken.Store(false)
	if err := l.service.Recover(t.Context(), service.Actor{UserID: l.owner.UserID, Admin: true}, id); err != nil {
		t.Fatal(err)
	}
	l.controller.Wake(id)
	if w := l.rests(id, workspace.PhaseRunning); w.ErrorCount != 0 || w.ErrorReason != "" || w.ErrorMessage != "" {
		t.Errorf("after recovery: %d %s %q", w.ErrorCount, w.ErrorReason, w.ErrorMessage)
	}
}

func TestCrashLoopKeepsTheLastWords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.lead()
	id := l.create()
	for range 3 {
		l.rests(id, workspace.PhaseRunning)
		before := l.row(id)
		l.backend.Exit(id, 7, time.Second, "first\nout of \x00\xffcheese\n")
		l.await(id, "the crash is noticed", func(w workspace.Workspace) bool {
			return w.HomeCtx.Crashes != before.HomeCtx.Crashes || w.Phase == workspace.PhaseError
		})
	}
	w := l.rests(id, workspace.PhaseError)
	if !strings.Contains(w.ErrorMessage, "out of \uFFFDcheese") || !strings.Contains(w.ErrorMessage, "exit code 7") {
		t.Errorf("the message is %q", w.ErrorMessage)
	}
}

// TestBlindSensorFreezes: while the runtime does not answer nothing changes, also
// not what was wished for meanwhile, which is done afterwards (SPEC 2).
func TestBlindSensorFreezes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var blind atomic.Bool
	looked := make(chan struct{}, 1)
	l.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Containers" && blind.Load() {
			select {
			case looked <- struct{}{}:
			default:
			}
			return memory.ErrRefused
		}
		return nil
	}
	l.lead()
	id := l.create()
	before := l.rests(id, workspace.PhaseRunning)
	blind.Store(true)
	l.wish(id, workspace.DesiredStandby)
	for range 3 {
		<-looked
	}
	w := l.row(id)
	if w.Phase != workspace.PhaseRunning || w.Operation != workspace.OpNone || !w.ObservedAt.Equal(before.ObservedAt) {
		t.Errorf("blind, and it became %s %s", w.Phase, w.Operation)
	}
	blind.Store(false)
	l.rests(id, workspace.PhaseStandby)
}

// TestDeposedLeaderChangesNothing: after another process took over, the old one
// neither writes a row nor takes anything away.
func TestDeposedLeaderChangesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	entered, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var deletes atomic.Int32
	l.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		switch method {
		case "Delete":
			deletes.Add(1)
		case "Start":
			once.Do(func() {
				close(entered)
				<-release
			})
		}
		return ctx.Err()
	}
	l.lead()
	id := l.create()
	<-entered
	l.epoch() // somebody else leads
	before := l.row(id)
	close(release)
	other := l.create()
	l.await(other, "it exists", func(workspace.Workspace) bool { return true })
	l.controller.WakeAll()
	k, err := l.backend.Containers(t.Context())
	for err == nil && len(k) == 0 {
		k, err = l.backend.Containers(t.Context())
	}
	l.resign()
	if w := l.row(id); w.Phase != before.Phase || w.Operation != before.Operation || !w.ObservedAt.Equal(before.ObservedAt) {
		t.Errorf("a deposed leader wrote %s %s over %s %s", w.Phase, w.Operation, before.Phase, before.Operation)
	}
	if w := l.row(other); w.Operation != workspace.OpNone || w.Phase != workspace.PhasePending {
		t.Errorf("a deposed leader claimed %s %s", w.Phase, w.Operation)
	}
	if deletes.Load() != 0 {
		t.Error("a deposed leader deleted a container")
	}
	l.lead() // and the new one goes on from where things stand
	l.rests(id, workspace.PhaseRunning)
	l.rests(other, workspace.PhaseRunning)
}

// TestKilledBetweenSaveAndAction puts the end of the process at every actuator in
// turn, after the save and before the effect; the next leader must converge.
func TestKilledBetweenSaveAndAction(t *testing.T) {
	for _, method := range []string{"Provision", "Start", "Delete", "StartJob", "DeleteJobs", "DeleteVolume"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			died := make(chan struct{})
			var once sync.Once
			l.backend.Before = func(ctx context.Context, m string, _ workspace.ID) (err error) {
				if m == method {
					once.Do(func() {
						close(died)
						<-ctx.Done()
						err = ctx.Err()
					})
				}
				return err
			}
			l.lead()
			id := l.create()
			go func() {
				<-died
				l.quit()
			}()
			for _, d := range []workspace.DesiredState{workspace.DesiredRunning, workspace.DesiredArchived, workspace.DesiredRunning} {
				if err := l.service.SetDesired(t.Context(), l.owner, id, d); err != nil && !errors.Is(err, service.ErrOperationInProgress) {
					t.Fatal(err)
				}
				l.controller.Wake(id)
				tick := time.NewTicker(5 * time.Millisecond)
				for w := l.row(id); w.Phase != workspace.Phase(d) || w.Operation != workspace.OpNone; w = l.row(id) {
					select {
					case <-died:
						l.resign()
						l.lead()
						died = nil
					case <-tick.C:
					}
					if w.Phase == workspace.PhaseError {
						t.Fatalf("%s: %s", w.ErrorReason, w.ErrorMessage)
					}
				}
				tick.Stop()
			}
			if died != nil {
				t.Fatalf("%s was never called", method)
			}
		})
	}
}

// TestIdleTickWritesNothing: what has converged costs no row (SPEC 4).
func TestIdleTickWritesNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var looks atomic.Int32
	looked := make(chan struct{}, 64)
	l.backend.Before = func(_ context.Context, method string, _ workspace.ID) error {
		if method == "Jobs" {
			looks.Add(1)
			select {
			case looked <- struct{}{}:
			default:
			}
		}
		return nil
	}
	l.lead()
	var ids []workspace.ID
	for range 5 {
		ids = append(ids, l.create())
	}
	for _, id := range ids {
		l.rests(id, workspace.PhaseRunning)
	}
	versions := func() string {
		var v string
		err := l.store.Pool().QueryRow(t.Context(), `SELECT string_agg(xmin::text, ' ' ORDER BY id) FROM workspaces`).Scan(&v)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before, n := versions(), looks.Load()
	for looks.Load() < n+5 {
		l.controller.WakeAll()
		<-looked
	}
	if after := versions(); after != before {
		t.Errorf("rows were written: %s, before %s", after, before)
	}
}

func TestActuatorsAreBounded(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := reconcile.DefaultSettings()
	s.MaxConcurrent = 3
	l.controller.Apply(s)
	var now, most atomic.Int32
	full := make(chan struct{}, 100)
	release := make(chan struct{})
	l.backend.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		if method != "Provision" {
			return nil
		}
		n := now.Add(1)
		defer now.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		full <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	l.lead()
	var ids []workspace.ID
	for range 12 {
		ids = append(ids, l.create())
	}
	for range 3 {
		<-full
	}
	close(release)
	for _, id := range ids {
		l.rests(id, workspace.PhaseRunning)
	}
	if most.Load() != 3 {
		t.Errorf("%d actuators at once, want 3", most.Load())
	}
}

// TestVanishedVolume: a volume that disappears under a running or sleeping
// workspace is DataLost, not a fresh start (SPEC 12.2).
func TestVanishedVolume(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.lead()
	for _, p := range []workspace.Phase{workspace.PhaseRunning, workspace.PhaseStandby} {
		id := l.create()
		l.rests(id, workspace.PhaseRunning)
		if p == workspace.PhaseStandby {
			l.wish(id, workspace.DesiredStandby)
			l.rests(id, workspace.PhaseStandby)
		}
		l.backend.LoseVolume(id)
		if w := l.rests(id, workspace.PhaseError); w.ErrorReason != workspace.ReasonDataLost {
			t.Errorf("%s: %s %s", p, w.ErrorReason, w.ErrorMessage)
		}
	}
}

// TestLostUpload: a job that reports success and left nothing is not believed.
func TestLostUpload(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var jobs atomic.Int32
	honest := l.backend.Work
	l.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if jobs.Add(1) == 1 {
			return 1234, nil
		}
		return honest(ctx, spec)
	}
	l.lead()
	id := l.create()
	l.rests(id, workspace.PhaseRunning)
	l.wish(id, workspace.DesiredArchived)
	w := l.rests(id, workspace.PhaseArchived)
	if jobs.Load() < 2 {
		t.Error("the lost upload was not made again")
	}
	if _, err := l.archives.Stat(t.Context(), w.ArchiveKey); err != nil {
		t.Error(err)
	}
}

// TestCorruptArchiveIsTerminal: a restore that finds the wrong checksum is not
// tried again.
func TestCorruptArchiveIsTerminal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	honest := l.backend.Work
	var restores atomic.Int32
	l.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind == workspace.JobRestore {
			restores.Add(1)
			return 0, workspace.Fail(workspace.ReasonArchiveCorrupted, fmt.Errorf("the checksum differs"))
		}
		return honest(ctx, spec)
	}
	l.lead()
	id := l.create()
	l.wish2(id, workspace.DesiredArchived, workspace.PhaseArchived)
	l.wish(id, workspace.DesiredRunning)
	w := l.rests(id, workspace.PhaseError)
	if w.ErrorReason != workspace.ReasonArchiveCorrupted || restores.Load() != 1 || w.ArchiveKey == "" {
		t.Errorf("%s after %d restores, key %q", w.ErrorReason, restores.Load(), w.ArchiveKey)
	}
}

// wish2 wishes once the workspace runs, and waits for the phase.
func (l *lab) wish2(id workspace.ID, d workspace.DesiredState, p workspace.Phase) {
	l.t.Helper()
	l.rests(id, workspace.PhaseRunning)
	l.wish(id, d)
	l.rests(id, p)
}

// leakOptions name the goroutines that the test servers keep for the whole run.
func leakOptions() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("os/exec.(*Cmd).Wait"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"),
	}
}
