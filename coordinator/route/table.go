// Package route keeps in memory where every workspace is, who owns it, and whether
// it can take requests, so that reaching a running one touches neither PostgreSQL
// nor Redis (SPEC 8, DESIGN 1).
//
// The table is filled at start, follows notifications, and is compared with the
// database at intervals: a notification is a hint that may be lost.
//
// It owns the copy in memory and nothing else. It must not write to the database,
// decide about a request, or wake a workspace.
package route

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workqueue"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultResync is the time between two comparisons of the whole table with the
// database.
const DefaultResync = 30 * time.Second

// The pause after a failed query, at first and at most, ±25 %, and the time one
// query may take.
const (
	retryMin     = 100 * time.Millisecond
	retryMax     = 5 * time.Second
	queryTimeout = 10 * time.Second
)

// Source is the database as the table reads it. *store.Store implements it.
type Source interface {
	// Routes returns the rows of the given workspaces, without those that do not
	// exist; without ids, of all that are not DELETED.
	Routes(ctx context.Context, ids ...workspace.ID) ([]store.Route, error)
}

// Table is the route table of one process. Its methods are safe for concurrent
// use.
type Table struct {
	source Source
	outage *outage.Reporter
	resync time.Duration

	mu      sync.RWMutex
	entries map[workspace.ID]*Entry

	loaded  atomic.Bool
	loadedC chan struct{}
	queue   *workqueue.Queue[workspace.ID] // rows to read again
}

// New returns an empty table that is filled from source. A resync interval of zero
// or less means [DefaultResync]. New performs no I/O.
func New(source Source, resync time.Duration, log *zap.Logger) *Table {
	if resync <= 0 {
		resync = DefaultResync
	}
	return &Table{
		source: source,
		outage: outage.New(log, zap.ErrorLevel,
			"refreshing the route table failed; it keeps its entries and tries again", "the route table is up to date again"),
		resync:  resync,
		entries: make(map[workspace.ID]*Entry),
		loadedC: make(chan struct{}),
		queue:   workqueue.New[workspace.ID](),
	}
}

// Lookup returns the workspace's entry. It allocates nothing.
func (t *Table) Lookup(id workspace.ID) (*Entry, bool) {
	t.mu.RLock()
	e, ok := t.entries[id]
	t.mu.RUnlock()
	return e, ok
}

// Ready reports whether the table has been filled. Before that, a workspace that is
// not found may only be one that was not read yet.
func (t *Table) Ready() bool { return t.loaded.Load() }

// Loaded is closed once the table has been filled.
func (t *Table) Loaded() <-chan struct{} { return t.loadedC }

// Notify schedules a new reading of the workspace that n is about. Notifications
// of other things are ignored.
func (t *Table) Notify(n store.Notification) {
	if n.WorkspaceID != "" {
		t.Refresh(n.WorkspaceID)
	}
}

// Refresh schedules a new reading of the workspace. It does not wait for it.
func (t *Table) Refresh(id workspace.ID) { t.queue.Add(id) }

// Resync schedules a new reading of everything: notifications may have been lost
// while the listening connection was down. It does not wait for it.
func (t *Table) Resync() { t.queue.AddAll() }

// Run fills the table and keeps it up to date until ctx ends. Queries that fail
// are repeated, and until one succeeds the table keeps its entries.
//
// All queries are made here, one after the other: an older answer can never take
// the place of a newer one.
func (t *Table) Run(ctx context.Context) {
	t.Resync()
	timer := time.NewTimer(t.resync)
	defer timer.Stop()
	retry := backoff.ExponentialBackOff{
		InitialInterval: retryMin, MaxInterval: retryMax, Multiplier: 2, RandomizationFactor: 0.25,
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
			t.Resync()
			timer.Reset(t.resync)
		case <-t.queue.Ready():
			err := t.refresh(ctx)
			t.outage.Report(ctx, err)
			if err == nil {
				retry.Reset()
				continue
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(retry.NextBackOff()):
			}
		}
	}
}

// refresh reads what is scheduled. A failed reading is scheduled again.
func (t *Table) refresh(ctx context.Context) error {
	batch := t.queue.Take()
	if batch.Empty() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	err := t.read(ctx, batch)
	if err != nil {
		t.queue.Retry(batch)
	}
	return err
}

// read reads the rows of the batch and applies them. Workspaces without a row are
// removed. Only a complete reading makes the table ready.
func (t *Table) read(ctx context.Context, batch workqueue.Batch[workspace.ID]) error {
	ids := batch.Keys
	if batch.All {
		ids = nil
	}
	rows, err := t.source.Routes(ctx, ids...)
	if err != nil {
		return fmt.Errorf("reading routes: %w", err)
	}
	found := make(map[workspace.ID]struct{}, len(rows))
	for _, r := range rows {
		found[r.ID] = struct{}{}
		t.put(r)
	}
	if batch.All {
		ids = t.ids()
	}
	for _, id := range ids {
		if _, ok := found[id]; !ok {
			t.remove(id)
		}
	}
	if batch.All && !t.loaded.Swap(true) {
		close(t.loadedC)
	}
	return nil
}

// put updates or adds an entry. Only Run's goroutine writes, so no other one can add
// the same entry in between.
func (t *Table) put(r store.Route) {
	t.mu.RLock()
	e := t.entries[r.ID]
	t.mu.RUnlock()
	if e != nil {
		e.update(r)
		return
	}
	t.mu.Lock()
	t.entries[r.ID] = newEntry(r)
	t.mu.Unlock()
}

// remove removes an entry, which tells those who wait for it that the workspace is
// gone.
func (t *Table) remove(id workspace.ID) {
	t.mu.Lock()
	e := t.entries[id]
	delete(t.entries, id)
	t.mu.Unlock()
	if e != nil {
		e.end()
	}
}

// ids returns the workspaces that are in the table.
func (t *Table) ids() []workspace.ID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.entries))
}
