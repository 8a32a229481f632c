package route

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	one = workspace.ID("00000000-0000-4000-8000-000000000001")
	two = workspace.ID("00000000-0000-4000-8000-000000000002")
)

// database is a table of rows that the test writes.
type database struct {
	mu       sync.Mutex
	byID     map[workspace.ID]store.Route
	revision int64
	err      error
	queries  int // by id
	pages    int
	read     int // rows
	busy     int
	gate     chan struct{} // a query waits until it can receive, unless it is nil
}

func newDatabase(rows ...store.Route) *database {
	d := &database{byID: make(map[workspace.ID]store.Route)}
	for _, r := range rows {
		d.set(r)
	}
	return d
}

func (d *database) Routes(ctx context.Context, ids []workspace.ID) ([]store.Route, error) {
	d.mu.Lock()
	d.queries++
	d.busy++
	if d.busy > 1 {
		panic("two queries at a time")
	}
	var out []store.Route
	for _, id := range ids {
		if row, ok := d.byID[id]; ok {
			out = append(out, row)
		}
	}
	d.read += len(out)
	gate, err := d.gate, d.err
	d.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.busy--
	if err != nil {
		return nil, err
	}
	return out, ctx.Err()
}

func (d *database) AwakeRoutes(_ context.Context, after workspace.ID, limit int) ([]store.Route, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pages++
	if d.err != nil {
		return nil, d.err
	}
	var out []store.Route
	for _, r := range d.byID {
		if (&State{Route: r}).Awake() && r.ID > after {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b store.Route) int { return strings.Compare(string(a.ID), string(b.ID)) })
	out = out[:min(len(out), limit)]
	d.read += len(out)
	return out, nil
}

// set writes a row, and returns it with its new revision.
func (d *database) set(row store.Route) store.Route {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.revision++
	row.Revision = d.revision
	d.byID[row.ID] = row
	return row
}

// do changes the database itself.
func (d *database) do(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f()
}

func running(id workspace.ID, endpoint string, since int64) store.Route {
	return store.Route{
		ID: id, OwnerID: "u", Phase: workspace.PhaseRunning, Endpoint: endpoint,
		Operation: workspace.OpNone, Desired: workspace.DesiredRunning, PhaseChangedAt: time.Unix(since, 0),
	}
}

func asleep(id workspace.ID) store.Route {
	return store.Route{ID: id, OwnerID: "u", Phase: workspace.PhaseArchived, Operation: workspace.OpNone, Desired: workspace.DesiredArchived}
}

// numbered returns the id of the n-th of many workspaces.
func numbered(n int) workspace.ID {
	return workspace.ID(fmt.Sprintf("%08x-0000-4000-8000-000000000000", n+16))
}

// feed records what a table requests.
type feed struct {
	missed []workspace.ID
	stale  chan struct{}
}

func (f *feed) Refresh(ids ...workspace.ID) { f.missed = append(f.missed, ids...) }
func (f *feed) RefreshAll() {
	if f.stale != nil {
		f.stale <- struct{}{}
	}
}

// start runs a table over src until the test ends.
func start(t *testing.T, src Source, options Options) *Table {
	t.Helper()
	return startLogging(t, src, options, zap.NewNop())
}

func startLogging(t *testing.T, src Source, options Options, log *zap.Logger) *Table {
	t.Helper()
	table := New(src, options, log)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); table.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return table
}

// find is Find, which must succeed.
func (t *Table) find(test *testing.T, id workspace.ID) *Entry {
	test.Helper()
	e, err := t.Find(test.Context(), id)
	if err != nil {
		test.Fatalf("%s: %v", id, err)
	}
	return e
}

// size returns how many workspaces the table holds, and how many of them sleep.
func (t *Table) size() (all, asleep int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := 0
	for _, e := range t.entries {
		if !e.State().Awake() {
			n++
		}
	}
	if n != t.asleep {
		panic(fmt.Sprintf("%d workspaces sleep, counted as %d", n, t.asleep))
	}
	return len(t.entries), n
}
