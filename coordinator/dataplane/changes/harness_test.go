package changes_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/changes"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) { wait.Main(m) }

// database counts the feed's queries to the real database, and can make them fail or wait.
type database struct {
	*store.Store

	mu                  sync.Mutex
	routes, pages, rows int
	ids                 int // requested by name
	asking, mostAtOnce  int
	failure             error
	slow                chan struct{} // a query waits until it is closed
}

func (d *database) enter() (leave func(), err error) {
	d.mu.Lock()
	d.asking++
	d.mostAtOnce = max(d.mostAtOnce, d.asking)
	slow, err := d.slow, d.failure
	d.mu.Unlock()
	if slow != nil {
		<-slow
	}
	return func() {
		d.mu.Lock()
		d.asking--
		d.mu.Unlock()
	}, err
}

func (d *database) Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error) {
	leave, err := d.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	rows, err := d.Store.Routes(ctx, ids)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.routes++
	d.ids += len(ids)
	d.rows += len(rows)
	return rows, err
}

func (d *database) ChangesSince(ctx context.Context, revision int64, limit int) ([]store.Route, error) {
	leave, err := d.enter()
	defer leave()
	if err != nil {
		return nil, err
	}
	rows, err := d.Store.ChangesSince(ctx, revision, limit)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	d.rows += len(rows)
	return rows, err
}

// count returns one of the database's counters.
func (d *database) count(n *int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return *n
}

func (d *database) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

// recorder is a subscriber.
type recorder struct {
	mu      sync.Mutex
	rows    map[workspace.ID]store.Route
	times   map[int64]int // how often each revision was passed on
	settled int64
	resets  int
}

func newRecorder() *recorder {
	return &recorder{rows: map[workspace.ID]store.Route{}, times: map[int64]int{}}
}

func (r *recorder) Changed(rows []store.Route, settled int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, row := range rows {
		r.rows[row.ID] = row
		r.times[row.Revision]++
	}
	r.settled = settled
}

func (r *recorder) Reset(settled int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resets++
	r.settled = settled
	clear(r.rows)
}

func (r *recorder) row(id workspace.ID) (store.Route, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	row, ok := r.rows[id]
	return row, ok
}

func (r *recorder) state() (settled int64, resets int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settled, r.resets
}

// harness is a database, and a feed with one subscriber.
type harness struct {
	*testing.T
	*recorder
	db    *database
	store *store.Store
	feed  *changes.Feed
	owner string
}

// never is an interval longer than any test.
const never = time.Hour

// poll makes the feed find everything by polling.
var poll = changes.Options{Poll: 5 * time.Millisecond}

// newHarness starts a feed on a database with one workspace, and returns when that workspace was passed on. prepare runs before
// the start.
func newHarness(t *testing.T, s *store.Store, o changes.Options, log *zap.Logger, prepare ...func(*changes.Feed)) (*harness, workspace.ID) {
	t.Helper()
	h := &harness{T: t, recorder: newRecorder(), db: &database{Store: s}, store: s}
	h.owner = storetest.AddUser(t, s)
	id := h.create()
	h.feed = changes.New(h.db, o, log)
	h.feed.Subscribe(h.recorder)
	for _, p := range prepare {
		p(h.feed)
	}
	run(t, h.feed.Run)
	wait.Until(t, "the first reading is over", func() bool { _, ok := h.row(id); return ok })
	return h, id
}

// run runs a component until the test ends.
func run(t *testing.T, f func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run returns %v", err)
		}
	})
}

// create adds a sleeping workspace.
func (h *harness) create() workspace.ID {
	h.Helper()
	id := workspace.ID(uuid.NewString())
	if _, _, err := h.store.Create(h.Context(), workspace.Workspace{
		ID: id, OwnerID: h.owner, Name: "one", InstanceBackend: "docker", StorageBackend: "docker",
	}, "test", store.Limits{}); err != nil {
		h.Fatal(err)
	}
	storetest.Set(h, h.store, id, "phase = 'ARCHIVED', desired_state = 'ARCHIVED'")
	return id
}

// await waits until the subscriber has the current row of the workspace.
func (h *harness) await(id workspace.ID) {
	h.Helper()
	want := storetest.Value[int64](h, h.store, `SELECT revision FROM workspaces WHERE id = $1`, string(id))
	wait.For(h, "the change is passed on", func() error {
		if row, _ := h.row(id); row.Revision < want {
			return errors.New("the subscriber has an older row")
		}
		return nil
	})
}

// listen passes notifications to the feed, as the coordinator does, and counts the connections.
func (h *harness) listen() (connections func() int) {
	h.Helper()
	var mu sync.Mutex
	n := 0
	run(h.T, func(ctx context.Context) error {
		for ctx.Err() == nil {
			_ = h.store.Listen(ctx, func() {
				mu.Lock()
				n++
				mu.Unlock()
				h.feed.RefreshAll()
			}, func(n postgres.Notification) { h.feed.Refresh(n.WorkspaceID) })
			select {
			case <-ctx.Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
		return nil
	})
	connections = func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
	wait.Until(h, "notifications arrive", func() bool { return connections() == 1 })
	return connections
}
